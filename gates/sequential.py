"""Sequential inference on bounded martingale differences: a confidence sequence, and an e-process that may stop to
reject.

The boundary is the gamma-exponential mixture of Howard, Ramdas, McAuliffe and Sekhon (Annals of Statistics 49, 2021,
Theorem 4 and Proposition 9): for X_t with X_t − E[X_t | past] in an interval of known length c, the sum's deviation is
sub-exponential with variance process V_t = Σ (X_t − X̂_{t−1})², X̂ any prediction from the past. Valid at every t at
once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]


def log_mixture(s: Array | float, v: Array | float, rho: float, c: float = 1.0) -> Array:
    """log of the mixture supermartingale at deviation ``s`` and intrinsic time ``v``; 0 at (0, 0).

    The closed form holds for s > −(v + ρ)/c. Below, the mixture is smaller still, and −inf is a valid lower value.
    ``rho`` tunes where the boundary is tightest (`tuned_rho`); any fixed value is valid.
    """
    s, v = np.asarray(s, float), np.asarray(v, float)
    r, vr = rho / c**2, (v + rho) / c**2
    cs = (c * s + v) / c**2
    x = np.maximum(cs + r, 1e-300)
    leading = r * math.log(r) - special.gammaln(r) - math.log(special.gammainc(r, r))
    incomplete = special.gammainc(vr, x)
    # Where the incomplete gamma underflows, its first term x^a e^{-x} / Γ(a + 1) bounds it from below: the e-value too.
    tiny = incomplete < 1e-280
    whole = special.gammaln(vr) + np.log(np.where(tiny, 1.0, incomplete)) - vr * np.log(x) + cs
    return np.where(cs + r > 0, leading + np.where(tiny, -np.log(vr) - r, whole), -np.inf)


def boundary(v: float, alpha: float, rho: float, c: float = 1.0) -> float:
    """Smallest deviation at which the mixture reaches 1/alpha: one-sided, at every time at once."""
    target = math.log(1 / alpha)
    low, high = 0.0, 1.0 + math.sqrt(v + rho)
    while float(log_mixture(high, v, rho, c)) < target:
        high *= 2
        if high > 1e12:
            return math.inf
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float(log_mixture(middle, v, rho, c)) < target else (low, middle)
    return high


def tuned_rho(v: float, alpha: float) -> float:
    """ρ that makes the boundary tightest near intrinsic time ``v`` (Howard et al., section 3.5, normal-mixture
    rule)."""
    log_inverse = math.log(1 / alpha)
    return v / (2 * log_inverse + math.log(1 + 2 * log_inverse))


@dataclass(frozen=True)
class Sequence:
    """A running mean of conditional means, with a confidence sequence at its last time."""

    mean: float
    lower: float
    upper: float
    n: int


def _variance_process(x: Array) -> Array:
    """Σ (X_t − X̂_{t−1})² with X̂ the mean of what came before, one zero ahead of it."""
    before = np.concatenate([[0.0], np.cumsum(x)[:-1]]) / np.arange(1, len(x) + 1)
    return np.cumsum((x - before) ** 2)


def confidence_sequence(x: npt.ArrayLike, alpha: float, planned: int | None = None, c: float = 1.0) -> Sequence:
    """For the running mean of E[X_t | past], level 1 − 2·alpha (one-sided ``alpha`` a side), at every time at once.

    ``x`` in time order, each within an interval of length ``c`` given the past; ``planned`` observations tune the
    boundary (default: as many as there are, which is fixed before the data where the plan fixes n). The whole line
    without data. Raises ValueError for NaN.
    """
    values = np.asarray(x, float)
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).sum())} of {len(values)} values are NaN")
    n = len(values)
    if n == 0:
        return Sequence(math.nan, -math.inf, math.inf, 0)
    v = float(_variance_process(values)[-1])
    rho = tuned_rho(max(1.0, 0.25 * c * c * (planned or n)), alpha)
    half, mean = boundary(v, alpha, rho, c) / n, float(values.mean())
    return Sequence(mean, mean - half, mean + half, n)


@dataclass(frozen=True)
class EProcess:
    log_e: Array
    """Natural logarithm of the evidence against "every conditional mean is zero", after each observation."""
    rejected_at: int | None
    """First count of observations at which e ≥ 1/level: there, and only to reject, one may stop."""


def e_process(x: npt.ArrayLike, level: float, planned: int | None = None, c: float = 1.0) -> EProcess:
    """Two-sided evidence against mean zero: the average of the mixture and its mirror. A large value can only reject; a
    small one never accepts (equality is claimed by `confidence_sequence` inside ±δ)."""
    values = np.asarray(x, float)
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).sum())} of {len(values)} values are NaN")
    if not len(values):
        return EProcess(np.empty(0), None)
    s, v = np.cumsum(values), _variance_process(values)
    rho = tuned_rho(max(1.0, 0.25 * c * c * (planned or len(values))), level / 2)
    log_e = np.logaddexp(log_mixture(s, v, rho, c), log_mixture(-s, v, rho, c)) - math.log(2)
    over = np.flatnonzero(log_e >= math.log(1 / level))
    return EProcess(log_e, int(over[0]) + 1 if len(over) else None)
