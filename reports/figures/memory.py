"""Peak resident memory against latency, a point per arm, told apart by what has to be resident."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ...gates.checks.speed import WITHOUT_DRAFT
from ...gates.result import Verdict
from ..records import RunRecords
from . import style
from .drawn import CannotDraw, Sketch

TITLE = "Memory against latency"
ABOUT = (
    "Worst peak resident memory of the arm's processes (kernel high-water mark, loading included) against the median "
    "time of a warm request. Bars span the processes of the arm (memory) and the middle half of the requests (time)."
)
ENVELOPE = " The dashed line is the plan's envelope."
MIB = 2.0**20


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    table = points(records)
    if table.empty:
        raise CannotDraw("this run holds no memory timeline")
    fig = style.figure(3.5)
    ax = fig.subplots()
    for _, p in table.iterrows():
        how = style.look(str(p["arm"]), records.arms)
        x, y = p["median_s"], p["peak_bytes"] / MIB
        ax.errorbar(
            [x], [y], xerr=[[x - p["quarter_s"]], [p["three_quarters_s"] - x]],
            yerr=[[y - p["lowest_peak_bytes"] / MIB], [0.0]], color=how.colour, marker=how.marker, markersize=8,
            capsize=3,
            linewidth=1.1, linestyle="none",
        )  # fmt: skip
        ax.annotate(
            f"{style.name(str(p['arm']))}\n{p['residency']} resident",
            (x, y),
            xytext=(7, 7),
            textcoords="offset points",
            fontsize=8,
        )
    envelope = records.plan.get("memory_envelope_bytes")
    top, bottom = table["peak_bytes"].max() / MIB, table["lowest_peak_bytes"].min() / MIB
    room = max(top - bottom, 0.04 * top)
    ax.set_ylim(bottom - 0.35 * room, top + 0.45 * room)
    near = envelope / MIB if envelope and envelope / MIB < 1.5 * top else None
    if near is not None:
        ax.axhline(near, color=style.INK, linewidth=0.9, dashes=(3, 2))
        ax.set_ylim(top=max(top + 0.45 * room, near * 1.04))
    ax.set_xlabel("median seconds of a warm request")
    ax.set_ylabel("peak resident MiB")
    ax.margins(x=0.15)
    return Sketch(fig, table, ABOUT + ("" if near is None else ENVELOPE), _alt(table), ("measured",))


def residency(records: RunRecords, arm: str) -> str:
    """Which models must be in memory for an arm, in words."""
    kind = next((a.get("kind") for a in records.plan.get("arms", []) if a["name"] == arm), "")
    drafted = records.plan.get("draft") and kind not in WITHOUT_DRAFT
    return "champion and draft" if drafted else "champion only"


def points(records: RunRecords) -> pd.DataFrame:
    """A row per arm: peak and lowest process peak in bytes, quartiles of warm request time in seconds."""
    memory, requests = records.table("memory"), records.table("requests")
    rows = []
    if memory.empty or requests.empty:
        return pd.DataFrame()
    peaks = memory.groupby(["arm", "unit"])["peak_resident_bytes"].max()
    warm = requests[requests["entry"] != "cold"]
    for arm in records.arms:
        seconds = warm.loc[warm["arm"] == arm, "total_ns"] / 1e9
        if arm not in peaks.index.get_level_values(0) or seconds.empty or arm in style.CONTROLS:
            continue
        mine = peaks[arm]
        rows.append({
            "arm": arm, "residency": residency(records, arm), "peak_bytes": float(mine.max()),
            "lowest_peak_bytes": float(mine.min()), "processes": len(mine), "median_s": float(seconds.median()),
            "quarter_s": float(seconds.quantile(0.25)), "three_quarters_s": float(seconds.quantile(0.75)),
            "requests": len(seconds),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _alt(table: pd.DataFrame) -> str:
    said: Sequence[str] = [
        f"{style.name(str(p['arm']))} peaks at {p['peak_bytes'] / MIB:.0f} MiB with a median of {p['median_s']:.3g} "
        f"seconds"
        for _, p in table.iterrows()
    ]
    return "Scatter of peak memory against median latency. " + "; ".join(said) + "."
