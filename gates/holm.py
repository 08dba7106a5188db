"""Holm's step-down adjustment, without the second that importing statsmodels costs (the tests compare the two)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values by name (Holm 1979): a hypothesis is rejected at familywise level α when its value is ≤ α."""
    names = list(p_values)
    raw = np.array([p_values[name] for name in names], float)
    order = np.argsort(raw, kind="stable")
    factors = np.arange(len(raw), 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raw[order] * factors))
    return {name: float(p) for name, p in zip(names, adjusted, strict=True)}
