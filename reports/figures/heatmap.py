"""Arms against strata: a panel for speed and one for quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...gates.evidence import BASELINE
from ...gates.result import Verdict
from ..records import RunRecords
from ..speedups import Cell, speed_cells
from . import style
from .drawn import CannotDraw, Sketch

TITLE = "Every arm in every stratum"
ABOUT = (
    "Left: end-to-end speed-up over champion-alone (geometric mean). Right: mean score of the task checks. Blue is "
    "better than champion-alone, orange is worse. A dash: not measured, or no check in that stratum."
)
WITH_INTERVALS = (
    " Below a speed-up: its 95 % interval, where the sample gives one; a frame marks those that exclude no change."
)
WITHOUT_INTERVALS = " This sample gives no intervals."


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    arms = [a for a in records.arms if a != BASELINE and a not in style.CONTROLS]
    speed = {(arm, s): c for arm in arms for s, c in speed_cells(records, arm).items()}
    if not speed:
        raise CannotDraw("no arm has paired timings")
    quality = quality_cells(records, [BASELINE, *arms])
    strata = records.strata
    fig = style.figure(0.33 * len(strata) + 1.15)
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=[len(arms), len(arms) + 1])
    for ax, columns, title in ((left, arms, "speed-up"), (right, [BASELINE, *arms], "quality (task checks)")):
        _frame(ax, columns, strata, title)
    for (arm, stratum), c in speed.items():
        if stratum in strata:
            clear = c.low > 1 or c.high < 1
            text = f"{c.value:.2f}×\n{c.low:.2f} to {c.high:.2f}" if math.isfinite(c.low) else f"{c.value:.2f}×"
            _paint(left, arms.index(arm), strata.index(stratum), math.log(c.value) / math.log(2), text, clear)
    for (arm, stratum), score in quality.items():
        base = quality.get((BASELINE, stratum))
        shade = 0.0 if base is None else 4 * (score - base)
        _paint(right, [BASELINE, *arms].index(arm), strata.index(stratum), shade, f"{100 * score:.0f} %", False)
    for x, arm in enumerate([BASELINE, *arms]):
        for y, stratum in enumerate(strata):
            if arm != BASELINE and (arm, stratum) not in speed:
                left.text(x - 1, y, "–", ha="center", va="center", color=style.SOFT)
            if (arm, stratum) not in quality:
                right.text(x, y, "–", ha="center", va="center", color=style.SOFT)
    drawn = any(math.isfinite(c.low) for (_, stratum), c in speed.items() if stratum in strata)
    caption = ABOUT + (WITH_INTERVALS if drawn else WITHOUT_INTERVALS)
    return Sketch(fig, _tidy(speed, quality), caption, _alt(speed, arms), ("derived", "measured"))


def quality_cells(records: RunRecords, arms: Sequence[str]) -> dict[tuple[str, str], float]:
    requests = records.table("requests")
    if requests.empty:
        return {}
    scored = requests.assign(quality=pd.to_numeric(requests["quality"], errors="coerce")).dropna(subset=["quality"])
    scored = scored[scored["arm"].isin(arms) & scored["stratum"].isin(records.strata)]
    means = scored.groupby(["arm", "stratum"])["quality"].mean()
    table = means.reset_index()
    return {
        (str(a), str(s)): float(v) for a, s, v in zip(table["arm"], table["stratum"], table["quality"], strict=True)
    }


def _frame(ax: Axes, columns: Sequence[str], rows: Sequence[str], title: str) -> None:
    ax.set_title(title)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xticks(range(len(columns)), [style.name(c) for c in columns])
    ax.set_yticks(range(len(rows)), list(rows))
    ax.grid(False)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)


def _paint(ax: Axes, x: int, y: int, shade: float, text: str, framed: bool) -> None:
    """A cell: ``shade`` from −1 (worst) to 1 (best) sets how strongly it is tinted."""
    colour = style.BLUE if shade >= 0 else style.VERMILLION
    strength = 0.06 + 0.44 * min(abs(shade), 1.0)
    edge = colour if framed else style.GRID
    ax.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, facecolor=colour, alpha=strength, linewidth=0))
    ax.add_patch(
        Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, fill=False, edgecolor=edge, linewidth=1.4 if framed else 0.6)
    )
    head, *rest = text.split("\n")
    ax.text(x, y - (0.17 if rest else 0), head, ha="center", va="center", fontsize=8, fontweight="bold")
    for line in rest:
        ax.text(x, y + 0.23, line, ha="center", va="center", fontsize=6.2, color=style.INK)


def _tidy(speed: Mapping[tuple[str, str], Cell], quality: Mapping[tuple[str, str], float]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {"panel": "speedup", "arm": a, "stratum": s, "value": c.value, "lower": c.low, "upper": c.high, "n": c.n}
        for (a, s), c in speed.items()
    ]
    rows += [{"panel": "quality", "arm": a, "stratum": s, "value": v} for (a, s), v in quality.items()]
    return pd.DataFrame(rows, columns=["panel", "arm", "stratum", "value", "lower", "upper", "n"])


def _alt(speed: Mapping[tuple[str, str], Cell], arms: Sequence[str]) -> str:
    parts = []
    for arm in arms:
        mine = {s: c for (a, s), c in speed.items() if a == arm}
        if mine:
            best, worst = max(mine, key=lambda s: mine[s].value), min(mine, key=lambda s: mine[s].value)
            parts.append(f"{style.name(arm)} is fastest in {best} ({mine[best].value:.2f} times) and "
                         f"slowest in {worst} ({mine[worst].value:.2f} times)")  # fmt: skip
    return "Table of arms by strata, coloured by speed-up and by quality. " + "; ".join(parts) + "."
