"""The interval of statistics.md section 3: prompt and block variance, Satterthwaite's degrees of freedom, Hall's guard.

Deterministic, so a third party recomputes it without a seed. y is log(candidate time / champion-alone time).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]
FLOOR_PROMPTS = 12
"""Below this many clusters, or with one block, no interval of ours decides anything (simulated: 4-11 % miss a side)."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its variance, degrees of freedom and skew guard, from which limits and p-values follow."""

    mean: float
    variance: float
    df: float
    skew: float
    """a of Hall's transformation: third cumulant of the mean over variance^{3/2}."""
    n: int
    """Clusters."""
    blocks: int

    def limits(self, alpha: float) -> tuple[float, float]:
        """Lower and upper limit, each one-sided at ``alpha``."""
        if not self.usable:
            return math.nan, math.nan
        if self.variance == 0:
            return self.mean, self.mean
        t, root = -float(special.stdtrit(self.df, alpha)), math.sqrt(self.variance)
        return (
            self.mean - root * max(t, hall(t, self.skew)),
            self.mean + root * max(t, -hall(-t, self.skew)),
        )

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the mean is at most ``bound``": ≤ alpha exactly when the lower limit is above."""
        return self._p((self.mean - bound), +1)

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the mean is at least ``bound``": ≤ alpha exactly when the upper limit is below."""
        return self._p((bound - self.mean), -1)

    @property
    def usable(self) -> bool:
        return math.isfinite(self.mean) and math.isfinite(self.variance) and self.df > 0

    def _p(self, distance: float, side: int) -> float:
        if not self.usable:
            return 1.0
        if self.variance == 0:
            return 0.0 if distance > 0 else 1.0
        z = distance / math.sqrt(self.variance)
        guarded = side * hall_inverse(side * z, self.skew)
        return float(special.stdtr(self.df, -min(z, guarded)))


def hall(t: float, a: float) -> float:
    """Hall's (1992) transformation h(t) = (3/a)[∛(1 + a(t − a/6)) − 1]; the identity where a vanishes."""
    if abs(a) < 1e-9:
        return t
    return 3.0 / a * (math.copysign(abs(1 + a * (t - a / 6)) ** (1 / 3), 1 + a * (t - a / 6)) - 1)


def hall_inverse(u: float, a: float) -> float:
    """h⁻¹(u) = u + a u²/3 + a² u³/27 + a/6."""
    return u + a * u * u / 3 + a * a * u**3 / 27 + a / 6


@dataclass(frozen=True)
class Spread:
    """The parts of one stratum's variance, kept apart so that strata can be combined."""

    mean: float
    n: int
    blocks: int
    prompt_variance: float
    """V_P = s²(y)/n."""
    third_cumulant: float
    """Of the mean: γ̂ V_P^{3/2} / √n."""
    block_variance: float
    """Variance over blocks of the stratum's means (not yet over B); NaN with one block."""


def spread(y: Array) -> Spread:
    """Of one stratum: ``y`` [clusters, blocks], NaN where an exclusion dropped a pair."""
    y = np.asarray(y, float)
    if y.size:
        y = y[~np.isnan(y).all(axis=1)]
    if y.size == 0:
        return Spread(math.nan, 0, 0, math.nan, math.nan, math.nan)
    whole = not np.isnan(y).any()
    per_cluster = y.mean(axis=1) if whole else np.nanmean(y, axis=1)
    n, mean = len(per_cluster), float(per_cluster.mean())
    centred = per_cluster - mean
    m2 = float((centred**2).mean())
    prompt = m2 / (n - 1) if n > 1 else math.nan
    gamma = float((centred**3).mean()) / m2**1.5 if m2 > 0 else 0.0
    # Block means of residuals: with balanced data the stratum's block means less their mean; with gaps, free of which
    # prompts happen to be there.
    residual = y - per_cluster[:, None]
    block = residual.mean(axis=0) if whole else np.nanmean(residual[:, ~np.isnan(residual).all(axis=0)], axis=0)
    blocks = len(block)
    return Spread(
        mean,
        n,
        blocks,
        prompt,
        gamma * prompt**1.5 / math.sqrt(n) if n > 1 else math.nan,
        float(((block - block.mean()) ** 2).sum() / (blocks - 1)) if blocks > 1 else math.nan,
    )


@dataclass(frozen=True)
class Estimates:
    """One estimate a stratum, and the weighted overall one."""

    strata: Mapping[str, Estimate]
    overall: Estimate


def estimate(values: Mapping[str, Array], weights: Mapping[str, float] | None = None) -> Estimates:
    """Section 3's interval per stratum and overall.

    ``values``: y [clusters, blocks] by stratum; ``weights``: the plan's, equal when None, normalised over ``values``.
    A stratum of positive weight with no data makes the overall estimate NaN: nothing is filled in.
    """
    spreads = {name: spread(y) for name, y in values.items()}
    seen = [s for s in spreads.values() if s.blocks > 1 and s.n > 0]
    pooled = float(np.mean([s.block_variance for s in seen])) if seen else math.nan
    pooled_df = float(sum(s.blocks - 1 for s in seen))
    strata = {name: _one(s, pooled, pooled_df) for name, s in spreads.items()}
    return Estimates(strata, _overall(spreads, pooled, pooled_df, weights))


def _block_part(s: Spread, pooled: float, pooled_df: float) -> tuple[float, float, bool]:
    """V_B over B, its degrees of freedom, and whether it is the pooled one (own only where own is larger)."""
    if not s.blocks or math.isnan(pooled):
        return math.nan, 0.0, True
    if s.blocks > 1 and s.block_variance > pooled:
        return s.block_variance / s.blocks, float(s.blocks - 1), False
    return pooled / s.blocks, pooled_df, True


def _satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    total = sum(v for v, _ in parts)
    below = sum(v * v / df for v, df in parts if v > 0)
    return total * total / below if below > 0 else max((df for _, df in parts), default=math.nan)


def _one(s: Spread, pooled: float, pooled_df: float) -> Estimate:
    block, block_df, _ = _block_part(s, pooled, pooled_df)
    variance = s.prompt_variance + block
    if s.n < 2 or math.isnan(variance):
        return Estimate(s.mean, math.nan, math.nan, 0.0, s.n, s.blocks)
    skew = s.third_cumulant / variance**1.5 if variance > 0 else 0.0
    df = _satterthwaite([(s.prompt_variance, s.n - 1), (block, block_df)])
    return Estimate(s.mean, variance, df, skew, s.n, s.blocks)


def _overall(
    spreads: Mapping[str, Spread], pooled: float, pooled_df: float, weights: Mapping[str, float] | None
) -> Estimate:
    raw = {name: 1.0 if weights is None else float(weights.get(name, 0.0)) for name in spreads}
    total = sum(raw.values())
    if total <= 0:
        return Estimate(math.nan, math.nan, math.nan, 0.0, 0, 0)
    mean = third = shared = 0.0
    parts: list[tuple[float, float]] = []
    n, blocks = 0, min((s.blocks for s in spreads.values()), default=0)
    for name, s in spreads.items():
        w = raw[name] / total
        if w == 0:
            continue
        part, df, is_pooled = _block_part(s, pooled, pooled_df)
        mean, third, n = mean + w * s.mean, third + w**3 * s.third_cumulant, n + s.n
        parts.append((w * w * s.prompt_variance, s.n - 1))
        if is_pooled:
            shared += w * w * part  # one estimate used by many strata: one component, not many independent ones
        else:
            parts.append((w * w * part, df))
    parts.append((shared, pooled_df))
    variance = sum(v for v, _ in parts)
    if math.isnan(variance) or any(df <= 0 for v, df in parts if v > 0):
        return Estimate(mean, math.nan, math.nan, 0.0, n, blocks)
    return Estimate(mean, variance, _satterthwaite(parts), third / variance**1.5 if variance > 0 else 0.0, n, blocks)
