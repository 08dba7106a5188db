"""Acceptance: policy survival, conditional acceptance and fixed-k survival, never mixed (statistics.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from .clusters import ClusterSums, cluster_sums

Array = npt.NDArray[np.float64]
Estimand = Literal["policy", "conditional", "fixed-k"]
Weighting = Literal["round", "prompt"]
CHUNK = 128
"""Resamples drawn at once."""


@dataclass(frozen=True)
class Curve:
    """One curve over positions 1 … K. NaN where nothing was reached: not available, not zero."""

    arm: str
    stratum: str
    """"*" pools the arm's strata."""
    estimand: Estimand
    weighting: Weighting
    source: str
    """rounds, shadow, probe or product-limit."""
    estimate: Array
    lower: Array
    upper: Array
    """Pointwise interval by prompt cluster."""
    band_lower: Array
    band_upper: Array
    """Simultaneous over the positions."""
    at_risk: npt.NDArray[np.int64]
    """Rounds behind each position."""
    clusters: int

    @property
    def tokens_per_round(self) -> float:
        """1 + Σ Q_i (Σ S_i for fixed-k): expected tokens of a round, terminal truncation ignored."""
        return 1.0 + float(np.nansum(self.estimate))


@dataclass(frozen=True)
class TokensPerRound:
    """Expected against observed: they differ by terminal truncation (stops and limits inside a block) and by nothing
    else."""

    arm: str
    stratum: str
    expected: float
    observed: float | None
    rounds: int


@dataclass(frozen=True)
class Survival:
    curves: tuple[Curve, ...]
    tokens: tuple[TokensPerRound, ...]
    notes: tuple[str, ...] = ()
    """What could not be estimated, and why."""
    confidence: float = 0.95
    resamples: int = 0

    def curve(
        self, arm: str, stratum: str = "*", estimand: Estimand = "policy", weighting: Weighting = "round"
    ) -> Curve:
        """One curve; "*" falls back to the arm's only stratum. Raises KeyError when there is none."""
        found = [c for c in self.curves if (c.arm, c.estimand, c.weighting) == (arm, estimand, weighting)]
        hit = [c for c in found if c.stratum == stratum] or ([found[0]] if stratum == "*" and len(found) == 1 else [])
        if not hit:
            raise KeyError(f"no {estimand} curve of {arm} in {stratum} ({weighting}-weighted)")
        return hit[0]

    def frame(self) -> pd.DataFrame:
        """Tidy: a row per curve and position."""
        if not self.curves:
            return pd.DataFrame()
        sizes = [len(c.estimate) for c in self.curves]
        once = {
            k: np.repeat(np.array([getattr(c, k) for c in self.curves], dtype=object), sizes)
            for k in ("arm", "stratum", "estimand", "weighting", "source")
        }
        each = {
            k: np.concatenate([getattr(c, k) for c in self.curves])
            for k in ("estimate", "lower", "upper", "band_lower", "band_upper", "at_risk")
        }
        position = np.concatenate([np.arange(1, n + 1) for n in sizes])
        clusters = np.repeat([c.clusters for c in self.curves], sizes)
        return pd.DataFrame({**once, "position": position, **each, "clusters": clusters})


def survival(
    rounds: pd.DataFrame,
    resamples: int = 2000,
    rng: np.random.Generator | None = None,
    *,
    shadow: pd.DataFrame | None = None,
    confidence: float = 0.95,
) -> Survival:
    """Survival by position, per arm and stratum and pooled ("*"), round- and prompt-weighted.

    ``rounds``: a row a round; ``arm, stratum, prompt_id, proposed, accepted`` are needed, ``family_id`` (the cluster),
    ``tested``, ``emitted``, ``requested``, ``outcome``, ``censored``, ``probe`` are used where there. ``shadow``: the
    shadow table; without it fixed-k survival comes from probe rounds, or from a product-limit where every round that
    was short was cut exogenously, or not at all (``notes`` says why). Pointwise intervals: linearised variance over
    clusters, t quantile, on the log-odds scale; the simultaneous band takes its critical value from ``resamples``
    cluster bootstraps (0: Bonferroni). ``rng`` None is a generator of seed 0, so that a result can be had again.

    Raises ValueError for missing columns and impossible counts.
    """
    from .fixed_k import fixed_k_curves

    rng = np.random.default_rng(0) if rng is None else rng
    sums = cluster_sums(rounds)
    curves: list[Curve] = []
    tokens: list[TokensPerRound] = []
    for arm, stratum, index in sums.groups():
        n, accepted, tested = sums.rounds[index], sums.accepted[index], sums.tested[index]
        proposes = np.flatnonzero(tested.sum(axis=0) > 0)
        k = int(proposes[-1]) + 1 if len(proposes) else 0
        accepted, tested = accepted[:, :k], tested[:, :k]
        whole = np.repeat(n[:, None], k, axis=1)
        tokens.append(_tokens(sums, arm, stratum, index))
        if k == 0:
            continue  # nothing was ever proposed: the curves have no position
        for estimand, below in (("policy", whole), ("conditional", tested)):
            curves += ratio_curves(arm, stratum, estimand, "rounds", accepted, below, resamples, rng, confidence)
    fixed, notes = fixed_k_curves(rounds, shadow, sums, resamples, rng, confidence)
    return Survival(tuple(curves + fixed), tuple(tokens), tuple(notes), confidence, resamples)


def _tokens(sums: ClusterSums, arm: str, stratum: str, index: npt.NDArray[np.intp]) -> TokensPerRound:
    n = int(sums.rounds[index].sum())
    observed = None if sums.emitted is None else float(sums.emitted[index].sum()) / n
    return TokensPerRound(arm, stratum, 1.0 + float(sums.accepted[index].sum()) / n, observed, n)


def ratio_curves(
    arm: str, stratum: str, estimand: Any, source: str, above: npt.ArrayLike, below: npt.ArrayLike,
    resamples: int, rng: np.random.Generator, confidence: float = 0.95,
) -> list[Curve]:  # fmt: skip
    """Both weightings of Σ above / Σ below per position, from cluster sums [C, K]."""
    a, b = np.asarray(above, float), np.asarray(below, float)
    return [
        _curve(arm, stratum, estimand, weighting, source, a, b, resamples, rng, confidence)
        for weighting in ("round", "prompt")
    ]


def _curve(
    arm: str, stratum: str, estimand: Any, weighting: Any, source: str, a: Array, b: Array,
    resamples: int, rng: np.random.Generator, confidence: float,
) -> Curve:  # fmt: skip
    at_risk = b.sum(axis=0)
    if weighting == "prompt":  # every cluster that reached the position has one vote
        reached = (b > 0).astype(float)
        a, b = np.divide(a, b, out=np.zeros_like(a), where=b > 0), reached
    total = b.sum(axis=0)
    estimate = np.divide(a.sum(axis=0), total, out=np.full(a.shape[1], np.nan), where=total > 0)
    standard_error, clusters = linearised(a, b, estimate)
    alpha = 1 - confidence
    critical = t_critical(clusters, alpha)
    lower, upper = log_odds_interval(estimate, standard_error, critical, clusters, alpha)
    widest = band_critical(a, b, estimate, standard_error, resamples, rng, confidence)
    if widest is None:
        share = np.maximum(1, np.isfinite(standard_error).sum())
        simultaneous = t_critical(clusters, alpha / float(share))
    else:  # the bootstrap knows the correlation of positions, the t quantile the size of the sample
        simultaneous = np.maximum(critical, widest * critical / -special.ndtri(alpha / 2))
    band_lower, band_upper = log_odds_interval(estimate, standard_error, simultaneous, clusters, alpha / a.shape[1])
    return Curve(
        arm, stratum, estimand, weighting, source, estimate, lower, upper, np.fmin(lower, band_lower),
        np.fmax(upper, band_upper), at_risk.round().astype(np.int64), len(a),
    )  # fmt: skip


def linearised(a: Array, b: Array, estimate: Array) -> tuple[Array, Array]:
    """Standard error of Σa/Σb over clusters by the delta method, and the clusters behind each position [K]."""
    total, clusters = b.sum(axis=0), (b > 0).sum(axis=0).astype(float)
    residual = a - np.nan_to_num(estimate) * b
    enough = (clusters > 1) & (total > 0)
    variance = (residual**2).sum(axis=0) * np.divide(clusters, clusters - 1, out=np.zeros_like(clusters), where=enough)
    se = np.sqrt(np.divide(variance, total**2, out=np.full_like(total, np.nan), where=enough))
    return se, clusters


def t_critical(clusters: Array, alpha: float) -> Array:
    """Two-sided t quantile with one degree of freedom fewer than clusters (at least one)."""
    return np.asarray(-special.stdtrit(np.maximum(clusters - 1, 1), alpha / 2), float)


def log_odds_interval(
    estimate: Array, se: Array, critical: Array, clusters: Array, alpha: float
) -> tuple[Array, Array]:
    """t interval on the log-odds scale; at 0 or 1 the bound of "none of so many clusters"; NaN with one cluster."""
    lower, upper = np.full_like(estimate, np.nan), np.full_like(estimate, np.nan)
    inside = (estimate > 0) & (estimate < 1) & np.isfinite(se)
    p = estimate[inside]
    odds, half = special.logit(p), (critical * se)[inside] / (p * (1 - p))
    lower[inside], upper[inside] = special.expit(odds - half), special.expit(odds + half)
    edge = ((estimate == 0) | (estimate == 1)) & (clusters > 1)
    most = 1 - (alpha / 2) ** (1 / np.maximum(clusters, 1))
    lower[edge] = np.where(estimate[edge] == 1, 1 - most[edge], 0.0)
    upper[edge] = np.where(estimate[edge] == 0, most[edge], 1.0)
    return lower, upper


def band_critical(
    a: Array, b: Array, estimate: Array, se: Array, resamples: int, rng: np.random.Generator, confidence: float
) -> float | None:
    """Quantile of max over positions of |resampled − estimate| / standard error; None without resamples or clusters."""
    use = np.isfinite(se) & (se > 0)
    if resamples <= 0 or not use.any():
        return None
    both = np.concatenate([a[:, use], b[:, use]], axis=1)
    k = int(use.sum())
    worst = np.empty(resamples)
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        drawn = resample_weights(len(a), size, rng) @ both
        ratio = np.divide(drawn[:, :k], drawn[:, k:], out=np.tile(estimate[use], (size, 1)), where=drawn[:, k:] > 0)
        worst[start : start + size] = (np.abs(ratio - estimate[use]) / se[use]).max(axis=1)
    return float(np.quantile(worst, confidence))


def resample_weights(clusters: int, size: int, rng: np.random.Generator) -> Array:
    """How often each cluster is drawn, in ``size`` resamples [size, clusters]."""
    drawn = rng.integers(0, clusters, size=(size, clusters), dtype=np.int32)
    drawn += (np.arange(size, dtype=np.int32) * clusters)[:, None]
    return np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters).astype(float)
