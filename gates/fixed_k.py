"""Fixed-k survival: what a full block of K proposals would do, from shadow replay, probe rounds, or exogenous
censoring.

A round that proposed fewer than K because the policy chose so says something about what the rest would have done, so a
product-limit over such rounds is badly biased (simulated: S₄ 0.348 against a true 0.225). It is refused here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from .acceptance import Curve, log_odds_interval, ratio_curves, resample_weights, t_critical
from .clusters import ClusterSums
from .evidence import cluster_column

Array = npt.NDArray[np.float64]
EXOGENOUS = ("length", "context", "cancelled")
COLUMNS = (
    "arm",
    "stratum",
    "prompt_id",
    "family_id",
    "requested",
    "proposed",
    "tested",
    "accepted",
    "outcome",
    "censored",
    "probe",
    "entropy",
)
"""What is read of the table of rounds."""


def fixed_k_curves(
    rounds: pd.DataFrame, shadow: pd.DataFrame | None, sums: ClusterSums, resamples: int, rng: np.random.Generator,
    confidence: float,
) -> tuple[list[Curve], list[str]]:  # fmt: skip
    """Per arm the best source it has, per stratum and pooled; a note for each arm that has none."""
    curves: list[Curve] = []
    notes = []
    rounds = rounds[[c for c in COLUMNS if c in rounds]]
    for arm in dict.fromkeys(sums.arm):
        mine = rounds[(rounds["arm"] == arm).to_numpy()]
        if not int(mine["proposed"].max() or 0):
            continue
        replayed = shadow[(shadow["arm"] == arm).to_numpy()] if shadow is not None and len(shadow) else None
        if replayed is not None and len(replayed):
            curves += _shadow(arm, mine, replayed, resamples, rng, confidence)
        elif "probe" in mine and bool(mine["probe"].any()):
            probes = mine[mine["probe"].to_numpy(bool)]
            if doubted := stopped_in_doubt(probes):
                notes.append(f"{arm}: no fixed-k survival: {doubted} probe rounds ended in doubt before a full block")
            else:
                curves += _product_limit(arm, probes, "probe", resamples, rng, confidence)
        elif problem := informative(mine):
            notes.append(f"{arm}: no fixed-k survival: {problem}")
        else:
            curves += _product_limit(arm, mine, "product-limit", resamples, rng, confidence)
    return curves, notes


def informative(rounds: pd.DataFrame) -> str:
    """Why "not proposed" may depend on what would have been accepted; empty when every short round was cut
    exogenously."""
    if not {"censored", "outcome", "requested"} <= set(rounds.columns):
        return "rounds do not say why they were short, and there is no shadow replay"
    requested = rounds["requested"].to_numpy()
    if len(requested) and requested.min() != requested.max():
        return "the policy varies k, and there is no shadow replay or probe"
    short = (rounds["proposed"] < rounds["requested"]).to_numpy()
    explained = rounds["censored"].isin(EXOGENOUS).to_numpy() | (rounds["outcome"] == "stop").to_numpy()
    left = int((short & ~explained).sum())
    return f"{left} rounds proposed fewer than asked of their own accord, and there is no shadow replay" if left else ""


def stopped_in_doubt(probes: pd.DataFrame) -> int:
    """Probe rounds that a policy ended inside the block: what they did not propose would have been refused more often.

    A proposer without a distribution that finds fewer tokens has no full block to give, and its short one counts as
    not surviving; a draft could always have gone on.
    """
    if not {"entropy", "censored", "outcome", "requested"} <= set(probes.columns):
        return 0
    short = (probes["proposed"] < probes["requested"]).to_numpy() & (
        probes["accepted"] >= probes["proposed"]
    ).to_numpy()
    short &= ~(probes["censored"].isin(EXOGENOUS).to_numpy() | (probes["outcome"] == "stop").to_numpy())
    return sum(e is not None and len(e) > 0 for e in probes.loc[short, "entropy"])


def _cluster(frame: pd.DataFrame) -> npt.NDArray[np.object_]:
    return frame[cluster_column(frame)].to_numpy(object)


def _groups(strata: npt.NDArray[np.object_]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    names = sorted(set(strata))
    out = [(str(name), strata == name) for name in names]
    return [*out, ("*", np.ones(len(strata), bool))] if len(names) > 1 else out


def _shadow(
    arm: str, rounds: pd.DataFrame, shadow: pd.DataFrame, resamples: int, rng: np.random.Generator, confidence: float
) -> list[Curve]:
    """Means over replayed round starts per cluster; round-weighted by how many rounds the cluster really had."""
    key = pd.MultiIndex.from_arrays([shadow["stratum"].to_numpy(object), _cluster(shadow)])
    code, names = pd.factorize(key)
    k = int(shadow["position"].max())
    cell = code * k + shadow["position"].to_numpy(int) - 1
    value = shadow["survival"].to_numpy(float)
    count = np.bincount(cell, minlength=len(names) * k).reshape(len(names), k)
    mean = np.bincount(cell, weights=value, minlength=len(names) * k).reshape(len(names), k)
    mean = np.divide(mean, count, out=np.zeros_like(mean), where=count > 0)
    had = pd.Series(1, index=pd.MultiIndex.from_arrays([rounds["stratum"].to_numpy(object), _cluster(rounds)]))
    weight = had.groupby(level=[0, 1]).sum().reindex(pd.MultiIndex.from_tuples(names)).fillna(0).to_numpy(float)
    strata = np.array([name[0] for name in names], dtype=object)
    below = np.where(count > 0, weight[:, None], 0.0)
    curves: list[Curve] = []
    for stratum, index in _groups(strata):
        curves += ratio_curves(arm, stratum, "fixed-k", "shadow", (mean * below)[index], below[index], resamples, rng,
                               confidence)  # fmt: skip
    return curves


def _product_limit(
    arm: str, rounds: pd.DataFrame, source: str, resamples: int, rng: np.random.Generator, confidence: float
) -> list[Curve]:
    """Kaplan–Meier over positions, round-weighted. A rejection, or a stop inside the block, ends survival."""
    k = int(rounds["proposed"].max())
    accepted = rounds["accepted"].to_numpy(int)
    stopped = (rounds["outcome"] == "stop").to_numpy() if "outcome" in rounds else np.zeros(len(rounds), bool)
    whole = accepted >= k
    cut = rounds["censored"].isin(EXOGENOUS).to_numpy() if "censored" in rounds else np.zeros(len(rounds), bool)
    tested = rounds["tested"].to_numpy(int) if "tested" in rounds else np.minimum(accepted + 1, rounds["proposed"])
    rejected = ~whole & (tested > accepted)
    ends = ~whole & (rejected | stopped | ~cut)
    key = pd.MultiIndex.from_arrays([rounds["stratum"].to_numpy(object), _cluster(rounds)])
    code, names = pd.factorize(key)
    reached = np.minimum(np.where(ends, accepted + 1, accepted), k)
    at = np.arange(1, k + 1)
    event = np.bincount(code[ends] * k + accepted[ends], minlength=len(names) * k).reshape(len(names), k).astype(float)
    counts = np.bincount(code * (k + 1) + reached, minlength=len(names) * (k + 1)).reshape(len(names), k + 1)
    risk = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, at].astype(float)
    strata = np.array([name[0] for name in names], dtype=object)
    return [
        _limit_curve(arm, stratum, source, event[index], risk[index], resamples, rng, confidence)
        for stratum, index in _groups(strata)
    ]


def _limit_curve(
    arm: str, stratum: str, source: str, event: Array, risk: Array, resamples: int, rng: np.random.Generator,
    confidence: float,
) -> Curve:  # fmt: skip
    estimate, clusters = product_limit(event.sum(axis=0), risk.sum(axis=0)), (risk > 0).sum(axis=0).astype(float)
    # Cluster-robust variance: the influence of a cluster on log S_i is −Σ_{j≤i} (d_cj − h_j n_cj) / (n_j (1 − h_j)).
    n = risk.sum(axis=0)
    hazard = np.divide(event.sum(axis=0), n, out=np.zeros_like(n), where=n > 0)
    room = n * (1 - hazard)
    influence = -np.cumsum(np.divide(event - hazard * risk, room, out=np.zeros_like(event), where=room > 0), axis=1)
    factor = np.divide(clusters, clusters - 1, out=np.full_like(clusters, np.nan), where=clusters > 1)
    se = estimate * np.sqrt((influence**2).sum(axis=0) * factor)
    alpha = 1 - confidence
    critical = t_critical(clusters, alpha)
    lower, upper = log_odds_interval(estimate, se, critical, clusters, alpha)
    widest = float(-special.ndtri(alpha / 2 / len(estimate)))
    use = np.isfinite(se) & (se > 0)
    if resamples > 0 and use.any():
        weights = resample_weights(len(event), resamples, rng)
        drawn = product_limit(weights @ event, weights @ risk)[:, use]
        gap = np.abs(np.where(np.isnan(drawn), estimate[use], drawn) - estimate[use]) / se[use]
        widest = float(np.quantile(gap.max(axis=1), confidence))
    wide = np.maximum(critical, widest * critical / -special.ndtri(alpha / 2))
    band_lower, band_upper = log_odds_interval(estimate, se, wide, clusters, alpha / len(estimate))
    return Curve(arm, stratum, "fixed-k", "round", source, estimate, lower, upper, np.fmin(lower, band_lower),
                 np.fmax(upper, band_upper), n.astype(np.int64), len(event))  # fmt: skip


def product_limit(event: Array, risk: Array) -> Array:
    """Π (1 − d_j / n_j) over the last axis; NaN from the first position nobody reached."""
    hazard = np.divide(event, risk, out=np.full_like(event, np.nan, dtype=float), where=risk > 0)
    out: Array = np.cumprod(1 - hazard, axis=-1)
    return out
