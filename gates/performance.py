"""Paired performance, reported beside the gates: the distribution of speed-ups, time per token, TTFT, bursts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from .evidence import Evidence, warm
from .pairs import Paired

Array = npt.NDArray[np.float64]


def speedup_ecdf(pairs: Paired, weights: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Empirical distribution of per-prompt speed-up exp(−y), y averaged over blocks: stratum ("*" is all), speedup,
    share.

    "*" weights the strata by ``weights`` (equal when None), so that a stratum of many prompts does not speak for all.
    """
    parts, values, masses = [], [], []
    total = sum((weights or {}).get(s, 1.0 if weights is None else 0.0) for s in pairs.values) or 1.0
    for stratum, y in pairs.values.items():
        speed = np.sort(np.exp(-np.nanmean(y, axis=1)))
        n = len(speed)
        parts.append(pd.DataFrame({"stratum": stratum, "speedup": speed, "share": np.arange(1, n + 1) / n}))
        weight = (1.0 if weights is None else weights.get(stratum, 0.0)) / total
        values.append(speed)
        masses.append(np.full(n, weight / n))
    if not parts:
        return pd.DataFrame(columns=["stratum", "speedup", "share"])
    both, mass = np.concatenate(values), np.concatenate(masses)
    order = np.argsort(both, kind="stable")
    parts.append(pd.DataFrame({"stratum": "*", "speedup": both[order], "share": np.cumsum(mass[order])}))
    return pd.concat(parts, ignore_index=True)


def quantile_ratios(pairs: Paired, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> pd.DataFrame:
    """Candidate's quantile of the outcome over champion-alone's, per stratum and level: the whole shape, not its
    middle."""
    lines = [
        {"stratum": s, "level": q, "ratio": float(np.nanquantile(arm, q) / np.nanquantile(base, q))}
        for s, (arm, base) in pairs.raw.items()
        for q in levels
    ]
    return pd.DataFrame(lines, columns=["stratum", "level", "ratio"])


def per_token(evidence: Evidence) -> pd.DataFrame:
    """Per arm and stratum over warm requests: mean TTFT (ms), decode time per further token (TPOT, ms), tokens a
    second.

    TPOT = (total − TTFT) / (tokens − 1), requests of one token left out. Empty when the table lacks the columns.
    """
    columns = ["arm", "stratum", "ttft_ms", "tpot_ms", "tokens_per_s", "n"]
    frame = evidence.requests
    if frame.empty or not {"arm", "stratum", "ttft_ns", "total_ns", "new_tokens"} <= set(frame.columns):
        return pd.DataFrame(columns=columns)
    rows = warm(frame)
    later = rows["new_tokens"].astype(float) - 1
    work = rows[["arm", "stratum"]].assign(
        ttft_ms=rows["ttft_ns"] / 1e6,
        tpot_ms=(rows["total_ns"] - rows["ttft_ns"]) / 1e6 / later.where(later > 0),
        total=rows["total_ns"].astype(float),
        tokens=rows["new_tokens"].astype(float),
    )
    grouped = work.groupby(["arm", "stratum"], observed=True, sort=True)
    sums = grouped[["total", "tokens"]].sum()
    table = grouped[["ttft_ms", "tpot_ms"]].mean()
    table = table.assign(tokens_per_s=sums["tokens"] / sums["total"] * 1e9, n=grouped.size())
    return table.reset_index()[columns]


def burst_gaps(rounds: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Time between bursts of emitted tokens: quantiles of a round's duration (ms) per stratum. A user sees bursts."""
    columns = ["stratum", "p50_ms", "p95_ms", "p99_ms", "rounds"]
    if rounds.empty or not {"arm", "stratum", "total_ns"} <= set(rounds.columns):
        return pd.DataFrame(columns=columns)
    mine = rounds.loc[(rounds["arm"] == arm).to_numpy(), ["stratum", "total_ns"]]
    lines = [
        [str(s), *(float(x) / 1e6 for x in np.quantile(r["total_ns"].to_numpy(float), (0.5, 0.95, 0.99))), len(r)]
        for s, r in mine.groupby("stratum", observed=True, sort=True)
    ]
    return pd.DataFrame(lines, columns=columns)
