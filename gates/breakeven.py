"""Break-even: does a declared session length pay for loading the draft? D(M) = M (C₁ − C̄) − F, never a bootstrap of
F/(C₁ − C̄)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FiellerSet:
    """Session lengths N at which D(N) = 0 is not excluded: a confidence set for N_min, "no length amortises"
    included."""

    lower: float
    """Tokens; infinite when no length is in the set."""
    upper: float
    """Tokens; infinite when the set has no upper end."""
    never: bool
    """Whether "no length amortises" (C₁ − C̄ ≤ 0) is in the set."""
    only_never: bool = False
    """Nothing else is: the saving per token is below zero, or no length pays for the loads."""
    estimate: float | None = None
    """F / (C₁ − C̄) where the saving is positive; None else."""


def fieller(
    saving: float,
    fixed: float,
    variance_saving: float,
    variance_fixed: float,
    covariance: float,
    df: float,
    alpha: float,
) -> FiellerSet:
    """Invert D(N) = N·saving − fixed over N ≥ 0 at two-sided level 2·alpha (Fieller 1954).

    ``saving`` = C₁ − C̄ (ns per token), ``fixed`` = F (ns), with their variances and covariance. {N: (N·saving −
    fixed)² ≤ t² (N² v_s − 2 N c + v_f)} is an interval, a half-line, or everything.
    """
    if not all(map(math.isfinite, (saving, fixed, variance_saving, variance_fixed, covariance, df))):
        return FiellerSet(0.0, math.inf, never=True)
    t = -float(special.stdtrit(df, alpha)) if df > 0 else math.inf
    point = max(0.0, fixed / saving) if saving > 0 else None
    a = saving**2 - t * t * variance_saving
    b = -2 * (saving * fixed - t * t * covariance)
    c = fixed**2 - t * t * variance_fixed
    positive = saving - t * math.sqrt(variance_saving) > 0
    negative = saving + t * math.sqrt(variance_saving) < 0
    inside = _nonnegative_solutions(a, b, c)
    if negative or inside is None:
        never = not positive
        return FiellerSet(math.inf, math.inf, never, only_never=never, estimate=point)
    low, high = inside
    return FiellerSet(low, high if positive else math.inf, never=not positive, estimate=point)


def _nonnegative_solutions(a: float, b: float, c: float) -> tuple[float, float] | None:
    """Hull of {N ≥ 0: a N² + b N + c ≤ 0}; None when empty."""
    root = b * b - 4 * a * c
    if a > 0:
        if root < 0:
            return None
        low, high = (-b - math.sqrt(root)) / (2 * a), (-b + math.sqrt(root)) / (2 * a)
        return (max(0.0, low), high) if high >= 0 else None
    if c <= 0:
        return 0.0, math.inf
    if a == 0:
        return (-c / b, math.inf) if b < 0 else None
    if root < 0:
        return 0.0, math.inf
    ends = sorted(((-b - math.sqrt(root)) / (2 * a), (-b + math.sqrt(root)) / (2 * a)))
    positive = [x for x in ends if x >= 0]
    return (positive[0], math.inf) if positive else (0.0, math.inf)


@dataclass(frozen=True)
class SessionLengths:
    """A declared distribution of how many tokens a session emits."""

    kind: str
    tokens: Array
    """Support (a lognormal is represented by 999 quantiles)."""
    weights: Array

    @property
    def mean(self) -> float:
        return float(self.tokens @ self.weights)

    def share_at_least(self, tokens: float) -> float:
        """Pr(session ≥ ``tokens``)."""
        return float(self.weights[self.tokens >= tokens].sum()) if math.isfinite(tokens) else 0.0


def session_lengths(declared: Mapping[str, Any]) -> SessionLengths:
    """From a plan's entry: lognormal (median_tokens, sigma), fixed (tokens), table (tokens, weights).

    Raises ValueError for an unknown kind, no length, or a length that is not positive.
    """
    kind = str(declared.get("kind"))
    if kind == "fixed":
        tokens, weights = np.array([float(declared["tokens"])]), np.ones(1)
    elif kind == "lognormal":
        median = float(declared["median_tokens"] if "median_tokens" in declared else declared["median"])
        middle = (np.arange(999) + 0.5) / 999
        tokens = median * np.exp(float(declared["sigma"]) * special.ndtri(middle))
        # The quantiles' mean is short of the tail: scale to the exact mean exp(σ²/2) of the declared law.
        tokens *= median * math.exp(float(declared["sigma"]) ** 2 / 2) / float(tokens.mean())
        weights = np.full(999, 1 / 999)
    elif kind == "table":
        tokens = np.asarray(declared["tokens"], float)
        weights = np.asarray(declared.get("weights", np.ones(len(tokens))), float)
        if weights.shape != tokens.shape or not weights.sum() > 0:
            raise ValueError("session_lengths: tokens and weights must be of one length, weights positive in sum")
        weights = weights / weights.sum()
    else:
        raise ValueError(f"session_lengths: unknown kind {kind!r}; one of lognormal, fixed, table")
    if not len(tokens) or not np.isfinite(tokens).all() or (tokens <= 0).any():
        raise ValueError("session_lengths: every length must be positive and finite")
    return SessionLengths(kind, tokens, weights)


def lengths_of(plan: Mapping[str, Any], stratum: str) -> SessionLengths:
    """The distribution declared for a stratum, or for "*". Raises ValueError when neither is."""
    declared = plan.get("session_lengths") or {}
    entry = declared.get(stratum, declared.get("*"))
    if not isinstance(entry, Mapping):
        raise ValueError(f"the plan declares no session length for stratum {stratum}")
    return session_lengths(entry)


def amortising_share(lengths: SessionLengths, n_min: FiellerSet) -> dict[str, float | None]:
    """Share of sessions at least as long as N_min: at its estimate and at both ends of its set."""
    return {
        "estimate": None if n_min.estimate is None else lengths.share_at_least(n_min.estimate),
        "lower": 0.0 if n_min.never else lengths.share_at_least(n_min.upper),
        "upper": 0.0 if n_min.only_never else lengths.share_at_least(n_min.lower),
    }


def naive_ratio_bootstrap(saving: Array, fixed: float, resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """The percentile interval of F / mean(saving) that this project does not use: shown by `calibrate` for its
    errors."""
    means = saving[rng.integers(0, len(saving), size=(resamples, len(saving)))].mean(axis=1)
    low, high = np.quantile(fixed / means, (0.025, 0.975))
    return float(low), float(high)


def ratio_curve(tokens: Sequence[float], saving: float, fixed: float, champion_ns: float) -> Array:
    """Latency ratio of a session of N tokens: 1 − (N·saving − F) / (N·C₁); below 1 pays."""
    n = np.asarray(tokens, float)
    out: Array = 1 - (n * saving - fixed) / (n * champion_ns)
    return out
