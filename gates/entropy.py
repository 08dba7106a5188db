"""Acceptance against the entropy of the proposal: does the draft know when it will be refused?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .acceptance import linearised, log_odds_interval, t_critical
from .evidence import cluster_column

COLUMNS = ("arm", "bin", "low", "high", "entropy", "acceptance", "lower", "upper", "tested", "clusters")


def entropy_calibration(rounds: pd.DataFrame, bins: int = 10, confidence: float = 0.95) -> pd.DataFrame:
    """Share accepted of the proposals whose acceptance was decided, by bins of the draft's entropy (nats), per arm.

    ``rounds`` needs ``arm, stratum, prompt_id, accepted, tested, entropy`` (a list a round, one value a proposed
    position; empty for deterministic proposers, which are left out). Bins hold equal numbers of proposals; intervals by
    prompt cluster. Empty when nothing has an entropy.
    """
    parts = []
    if len(rounds) and {"entropy", "tested", "accepted"} <= set(rounds.columns):
        kept = ["arm", "stratum", cluster_column(rounds), "tested", "accepted", "entropy"]
        told = np.fromiter((e is not None and len(e) > 0 for e in rounds["entropy"]), bool, len(rounds))
        for arm, mine in rounds.loc[told, kept].groupby("arm", observed=True, sort=True):
            table = _one(mine, bins, 1 - confidence)
            if table is not None:
                parts.append(table.assign(arm=str(arm)))
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)] if parts else pd.DataFrame(columns=list(COLUMNS))


def _one(rounds: pd.DataFrame, bins: int, alpha: float) -> pd.DataFrame | None:
    length = np.array([len(e) for e in rounds["entropy"]])
    value = np.concatenate(list(rounds["entropy"])).astype(float)
    position = np.arange(len(value)) - np.repeat(np.cumsum(length) - length, length)
    tested = np.repeat(rounds["tested"].to_numpy(int), length) > position
    accepted = np.repeat(rounds["accepted"].to_numpy(int), length) > position
    family = rounds["stratum"].astype(str) + "\x00" + rounds[cluster_column(rounds)].astype(str)
    cluster, names = pd.factorize(family)
    cluster = np.repeat(cluster, length)
    use = tested & np.isfinite(value)
    value, accepted, cluster = value[use], accepted[use], cluster[use]
    if not len(value):
        return None
    edges = np.unique(np.quantile(value, np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, value, side="right") - 1, 0, max(0, len(edges) - 2))
    k = int(place.max()) + 1
    cell, size = cluster * k + place, len(names) * k
    below = np.asarray(np.bincount(cell, minlength=size).reshape(-1, k), float)
    above = np.asarray(np.bincount(cell, weights=accepted, minlength=size).reshape(-1, k), float)
    total = below.sum(axis=0)
    share = np.divide(above.sum(axis=0), total, out=np.full(k, np.nan), where=total > 0)
    se, clusters = linearised(above, below, share)
    critical = t_critical(clusters, alpha)
    lower, upper = log_odds_interval(share, se, critical, clusters, alpha)
    mean = np.divide(np.bincount(place, weights=value, minlength=k), total, out=np.full(k, np.nan), where=total > 0)
    table = pd.DataFrame(
        {
            "bin": np.arange(k),
            "low": edges[:k],
            "high": edges[1 : k + 1] if len(edges) > 1 else edges[:k],
            "entropy": mean,
            "acceptance": share,
            "lower": lower,
            "upper": upper,
            "tested": total.astype(int),
            "clusters": clusters.astype(int),
        }
    )
    return table[table["tested"] > 0]
