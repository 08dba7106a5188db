"""Holm's step-down adjustment, without the second that importing statsmodels costs (the tests compare the two)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values by name (Holm 1979): a hypothesis is rejected at familywise level α when its value is ≤ α.

    Raises ValueError for what is no p-value: what a test that could not be done means is for the caller to say.
    """
    names = list(p_values)
    raw = np.array([p_values[name] for name in names], float)
    if not ((raw >= 0) & (raw <= 1)).all():
        raise ValueError(f"no p-value: {', '.join(f'{n} {p}' for n, p in p_values.items() if not 0 <= p <= 1)}")
    order = np.argsort(raw, kind="stable")
    factors = np.arange(len(raw), 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raw[order] * factors))
    return {name: float(p) for name, p in zip(names, adjusted, strict=True)}
