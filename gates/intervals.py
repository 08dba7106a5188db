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

    def tells(self, alpha: float) -> bool:
        """Whether the limits at ``alpha`` are worth showing where they decide nothing.

        Student's t of at most two degrees of freedom has no variance: from two prompts, limits of a ratio run from
        nothing to billions and say only that the spread is not known.
        """
        return self.usable and (self.variance == 0 or self.df > 2)

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
    if not np.isnan(y).any():
        return _whole(y[None])[0]
    per_cluster = np.nanmean(y, axis=1)
    # Block means of residuals: with balanced data the stratum's block means less their mean; with gaps, free of which
    # prompts happen to be there.
    residual = y - per_cluster[:, None]
    block = np.nanmean(residual[:, ~np.isnan(residual).all(axis=0)], axis=0)
    return _spreads(per_cluster[None], block[None])[0]


def _whole(y: Array) -> list[Spread]:
    """Of strata of one shape without gaps [strata, clusters, blocks]."""
    return _spreads(y.mean(axis=2), y.mean(axis=1))


def _spreads(per_cluster: Array, block: Array) -> list[Spread]:
    """From cluster means [strata, clusters] and block means [strata, blocks]."""
    n, blocks = per_cluster.shape[1], block.shape[1]
    mean = per_cluster.mean(axis=1)
    centred = per_cluster - mean[:, None]
    square = centred * centred
    m2, m3 = square.mean(axis=1), (square * centred).mean(axis=1)
    nothing = np.full(len(mean), np.nan)
    prompt = m2 / (n - 1) if n > 1 else nothing
    gamma = np.divide(m3, m2**1.5, out=np.zeros_like(m3), where=m2 > 0)
    third = gamma * prompt**1.5 / math.sqrt(n)
    between = block - block.mean(axis=1)[:, None]
    of_block = (between * between).sum(axis=1) / (blocks - 1) if blocks > 1 else nothing
    return [
        Spread(float(m), n, blocks, float(p), float(t), float(b))
        for m, p, t, b in zip(mean, prompt, third, of_block, strict=True)
    ]


def _all_spreads(values: Mapping[str, Array]) -> dict[str, Spread]:
    """`spread` of every stratum; those of one shape and without gaps together, which is what makes simulations
    quick."""
    shapes: dict[tuple[int, ...], list[str]] = {}
    out: dict[str, Spread] = {}
    for name, y in values.items():
        if y.ndim == 2 and y.size:
            shapes.setdefault(y.shape, []).append(name)
        else:
            out[name] = spread(y)
    for names in shapes.values():
        stacked = np.stack([values[name] for name in names])
        if np.isnan(stacked).any():
            out.update({name: spread(values[name]) for name in names})
        else:
            out.update(zip(names, _whole(stacked), strict=True))
    return {name: out[name] for name in values}


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
    spreads = _all_spreads(values)
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
