"""Latency, energy and peak memory at once: which arms no other arm beats on all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ...gates.evidence import BASELINE
from ...gates.intervals import estimate
from ...gates.pairs import paired
from ...gates.result import Verdict
from ..records import RunRecords
from ..speedups import OVERALL, speed_cells
from . import style
from .drawn import CannotDraw, Sketch
from .memory import points

TITLE = "What no other arm beats"
ABOUT = (
    "Latency and peak memory relative to champion-alone (1, 1); lower left is better. Ringed arms are on the "
    "frontier: none other is at least as good in everything measured and better in something."
)
BARS = " A bar spans the arm's times in the strata, from best to worst."


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    table = trade_offs(records)
    if len(table) < 2:
        raise CannotDraw("fewer than two arms have both timings and a memory timeline")
    measured = table["energy_ratio"].notna().any()
    fig = style.figure(3.7)
    axes = list(fig.subplots(1, 2 if measured else 1, squeeze=False).ravel())
    _panel(axes[0], table, "memory_ratio", "peak memory, relative to champion-alone", records.arms)
    if measured:
        _panel(axes[1], table.dropna(subset=["energy_ratio"]), "energy_ratio", "energy a token, relative", records.arms)
    else:
        axes[0].text(0.99, 0.98, "energy: not measured on this machine", transform=axes[0].transAxes, ha="right",
        va="top",
                     fontsize=8, fontstyle="italic", color=style.SOFT)  # fmt: skip
    spread = bool((table["worst_stratum_ratio"] > table["best_stratum_ratio"]).any())
    caption = (
        ABOUT
        + (BARS if spread else "")
        + ("" if measured else " Energy was not measured, so the frontier is over latency and memory alone.")
    )
    return Sketch(fig, table, caption, _alt(table, bool(measured)), ("derived", "measured"))


def _panel(ax: Axes, table: pd.DataFrame, column: str, label: str, arms: Sequence[str]) -> None:
    front = table[table["on_frontier"]].sort_values("latency_ratio")
    ax.step(
        front["latency_ratio"], front[column], where="post", color=style.SOFT, linewidth=1.0, dashes=(1, 1.5), zorder=1
    )
    for _, p in table.iterrows():
        how = style.look(str(p["arm"]), arms)
        x, y = p["latency_ratio"], p[column]
        ax.plot([p["best_stratum_ratio"], p["worst_stratum_ratio"]], [y, y], color=how.colour, linewidth=1.0, alpha=0.6)
        if p["on_frontier"]:
            ax.plot(
                [x],
                [y],
                marker="o",
                markersize=14,
                markerfacecolor="none",
                markeredgecolor=style.SOFT,
                linestyle="none",
            )
        ax.plot([x], [y], marker=how.marker, markersize=8, color=how.colour, linestyle="none")
        ax.annotate(style.name(str(p["arm"])), (x, y), xytext=(9, 8), textcoords="offset points", fontsize=8)
    ax.set_xlabel("time of an answer, relative to champion-alone")
    ax.set_ylabel(label)
    ax.margins(x=0.16, y=0.22)


def trade_offs(records: RunRecords) -> pd.DataFrame:
    """A row per arm: latency, memory and energy relative to champion-alone, and whether it is on the frontier."""
    memory = points(records)
    if memory.empty or BASELINE not in set(memory["arm"]):
        return pd.DataFrame()
    base = float(memory.loc[memory["arm"] == BASELINE, "peak_bytes"].iloc[0])
    energy = energy_ratios(records)
    rows = []
    for arm, peak in zip(memory["arm"], memory["peak_bytes"], strict=True):
        if arm == BASELINE:
            ratios = [1.0]
        else:
            cells = dict(speed_cells(records, str(arm)))
            overall = cells.pop(OVERALL, None)
            if overall is None:
                continue
            ratios = [1 / c.value for c in cells.values()]
            mean = 1 / overall.value
        rows.append({
            "arm": arm, "latency_ratio": 1.0 if arm == BASELINE else mean, "best_stratum_ratio": min(ratios),
            "worst_stratum_ratio": max(ratios), "memory_ratio": peak / base, "energy_ratio": energy.get(str(arm),
            np.nan),
        })  # fmt: skip
    table = pd.DataFrame(rows)
    table["on_frontier"] = frontier(table[["latency_ratio", "memory_ratio", "energy_ratio"]])
    return table


def energy_ratios(records: RunRecords) -> Mapping[str, float]:
    """Energy a token relative to champion-alone, by arm; empty where the machine did not tell it."""
    requests = records.table("requests")
    if "energy_uj" not in requests or pd.to_numeric(requests["energy_uj"], errors="coerce").dropna().empty:
        return {}
    weights = records.evidence.weights()
    ratios = {BASELINE: 1.0}
    for arm in records.arms:
        pairs = paired(records.evidence, arm, BASELINE, "energy_uj", per_token=True) if arm != BASELINE else None
        if pairs is not None and all(s in pairs.values for s, w in weights.items() if w > 0):
            mean = estimate(pairs.values, {s: weights.get(s, 0.0) for s in pairs.values}).overall.mean
            if math.isfinite(mean):
                ratios[arm] = math.exp(mean)
    return ratios


def frontier(costs: pd.DataFrame) -> list[bool]:
    """Per row: no other row is at most as costly everywhere and cheaper somewhere. Columns with gaps are left out."""
    values = costs.dropna(axis=1).to_numpy(float)
    return [not any((other <= mine).all() and (other < mine).any() for other in values) for mine in values]


def _alt(table: pd.DataFrame, measured: bool) -> str:
    said = [
        f"{style.name(str(p['arm']))} takes {p['latency_ratio']:.2f} of the time and {p['memory_ratio']:.2f} of the "
        f"memory" + (", on the frontier" if p["on_frontier"] else "")
        for _, p in table.iterrows()
    ]
    return (
        "Scatter of relative latency and memory. "
        + "; ".join(said)
        + ("." if measured else ". Energy was not measured.")
    )
