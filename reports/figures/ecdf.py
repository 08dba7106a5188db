"""The distribution of per-request speed-ups: no regression hides behind a mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...gates.result import Verdict
from ..numbers import count
from ..records import RunRecords
from . import style
from .drawn import CannotDraw, Sketch
from .pairs import paired_speedups

TITLE = "Speed-up of every single request"
ABOUT = "Share of requests with at most the speed-up on the axis, against champion-alone on the same prompt and block."


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    """One panel a stratum after one for all; the grey step is all strata together."""
    pairs = paired_speedups(records)
    arms = [a for a in records.arms if a in set(pairs["arm"]) and a not in style.CONTROLS]
    if pairs.empty or not arms:
        raise CannotDraw("no request of a candidate arm has its champion-alone counterpart")
    strata = [s for s in records.strata if s in set(pairs["stratum"])]
    low, high = np.quantile(pairs["speedup"], [0.002, 0.998])
    low, high = min(low, 0.8) / 1.03, max(high, 1.25) * 1.03
    fig, axes = style.small_multiples(len(strata) + 1)
    axes[0].set_xscale("log")
    axes[0].set_xlim(low, high)
    axes[0].set_ylim(0, 1)
    ticks = [t for t in (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0) if low <= t <= high]
    axes[0].set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes[0].set_xticks([], minor=True)
    axes[0].set_yticks([0, 0.5, 1.0], ["0", "½", "1"])
    parts = {key: part.to_numpy() for key, part in pairs.groupby(["stratum", "arm"], observed=True)["speedup"]}
    for place, (ax, stratum) in enumerate(zip(axes, [None, *strata], strict=True)):
        ax.axvspan(low, 1 / 1.1, color=style.VERMILLION, alpha=0.09, linewidth=0)
        ax.axvline(1.0, color=style.SOFT, linewidth=0.9, dashes=(3, 2))
        for arm in arms:
            mine = [part for (s, a), part in parts.items() if a == arm and stratum in (None, s)]
            x, share = steps(np.concatenate(mine) if mine else np.empty(0))
            how = style.look(arm, records.arms)
            ax.step(
                x,
                share,
                where="post",
                color=how.colour,
                linestyle=how.dash,
                linewidth=1.4,
                label=style.name(arm) if place == 0 else None,
            )
        ax.set_title("all strata" if stratum is None else stratum, fontsize=7.8)
    style.label_all(
        fig, "speed-up of a request (logarithmic; shaded: more than 10 % slower)", "share of requests", len(arms)
    )
    return Sketch(fig, _tidy(pairs, arms), _caption(pairs, arms), _alt(pairs, arms), ("measured",))


def steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The empirical distribution function of ``values``, at most 400 steps, with its start at 0."""
    ordered = np.sort(values[np.isfinite(values)])
    if not len(ordered):
        return np.empty(0), np.empty(0)
    share = np.arange(1, len(ordered) + 1) / len(ordered)
    if len(ordered) > 400:
        keep = np.unique(np.linspace(0, len(ordered) - 1, 400).astype(int))
        ordered, share = ordered[keep], share[keep]
    return np.concatenate([ordered[:1], ordered]), np.concatenate([[0.0], share])


def _tidy(pairs: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    kept = pairs[pairs["arm"].isin(arms)].sort_values(["arm", "stratum", "speedup"], kind="stable")
    return kept[["arm", "stratum", "prompt_id", "block", "turn", "speedup"]].reset_index(drop=True)


def _slower(pairs: pd.DataFrame, arm: str) -> tuple[float, float, int]:
    mine = pairs.loc[pairs["arm"] == arm, "speedup"]
    return float(mine.median()), float((mine < 1 / 1.1).mean()), len(mine)


def _caption(pairs: pd.DataFrame, arms: Sequence[str]) -> str:
    return (
        ABOUT
        + " Steps left of the dashed line are requests that became slower. Timings are warm requests; loads are not "
        "in them."
    )


def _alt(pairs: pd.DataFrame, arms: Sequence[str]) -> str:
    parts = [
        f"{style.name(arm)}: median {median:.2f} times, {100 * slow:.1f} % of {count(n, 'request')} more "
        "than 10 % slower"
        for arm in arms
        for median, slow, n in [_slower(pairs, arm)]
    ]
    return "Step curves of per-request speed-up by stratum. " + "; ".join(parts) + "."
