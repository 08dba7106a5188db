"""Limits for a weighted sum of rare counts: the share of requests, with stratum weights, that something happened to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special


@dataclass(frozen=True)
class WeightedShare:
    estimate: float
    lower: float
    upper: float
    events: float
    n: int


def weighted_share(hits: Mapping[str, npt.ArrayLike], weights: Mapping[str, float], alpha: float) -> WeightedShare:
    """Σ w_s (mean of ``hits`` [clusters, 0…1] in s), limits each one-sided at ``alpha``.

    Gamma interval for weighted sums (Fay and Feuer, Statistics in Medicine 16, 1997): it keeps its level when there are
    no events at all, where a normal interval shrinks to a point. Weights are normalised over the strata given.
    """
    total = sum(weights.get(s, 0.0) for s in hits)
    estimate = variance = events = 0.0
    largest, n = 0.0, 0
    for stratum, values in hits.items():
        x = np.asarray(values, float)
        w = weights.get(stratum, 0.0) / total / len(x) if total > 0 and len(x) else 0.0
        estimate += w * float(x.sum())
        variance += w * w * float(x.sum())
        largest, n, events = max(largest, w), n + len(x), events + float(x.sum())
    if n == 0 or largest == 0:
        return WeightedShare(float("nan"), 0.0, 1.0, events, n)
    y, v = estimate + largest, variance + largest * largest
    upper = v / y * float(special.gammaincinv(y * y / v, 1 - alpha))
    lower = variance / estimate * float(special.gammaincinv(estimate**2 / variance, alpha)) if estimate > 0 else 0.0
    return WeightedShare(estimate, lower, min(1.0, upper), events, n)
