"""Where the time of an answer goes, step by step: load, both prefills, draft, verify, correct, sync, output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from ...gates.evidence import BASELINE
from ...gates.result import Verdict
from ..records import RunRecords
from . import style
from .drawn import CannotDraw, Sketch

TITLE = "Where the time goes"
ABOUT = (
    "Mean seconds of one request in a fresh process, each phase starting where the one before ends. Loads are medians "
    "over cold starts, everything else means over warm requests."
)
DASHED = " The dashed line is champion-alone's end."
WHISKER = " The whisker spans the block means of the whole answer."
PHASES: Mapping[str, tuple[str, str]] = {
    "load_ns": ("champion load", style.SOFT), "draft_load_ns": ("draft load", style.ORANGE),
    "prefill_ns": ("champion prefill", style.SKY), "draft_prefill_ns": ("draft prefill", style.ORANGE),
    "draft_ns": ("draft", style.VERMILLION), "verify_ns": ("verify", style.BLUE), "sample_ns": ("correct",
    style.PURPLE),
    "rollback_ns": ("roll back", style.PURPLE), "other_ns": ("synchronise, rest", style.GREEN),
    "finalise_ns": ("output", style.GREEN),
}  # fmt: skip
"""Phase column to its name and colour."""
_IN_ROUNDS = ("draft_ns", "verify_ns", "sample_ns", "rollback_ns", "other_ns")


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    table = phases(records)
    arms = [a for a in records.arms if a in set(table["arm"]) and a not in style.CONTROLS]
    if not arms:
        raise CannotDraw("no request is recorded")
    fig = style.figure(1.5 * len(arms) + 0.8)
    axes = list(fig.subplots(len(arms), 1, sharex=True, squeeze=False).ravel())
    ends = {arm: float(table.loc[table["arm"] == arm, "seconds"].sum()) for arm in arms}
    longest = max(max(ends.values()), float(table["whole_upper"].max()))
    for ax, arm in zip(axes, arms, strict=True):
        _steps(ax, table[table["arm"] == arm], longest)
        ax.set_title(f"{style.name(arm)}: {ends[arm]:.3g} s", fontsize=9)
        ax.set_xlim(0, longest * 1.14)
        if BASELINE in ends:
            ax.axvline(ends[BASELINE], color=style.INK, linewidth=0.9, dashes=(3, 2))
    axes[-1].set_xlabel("seconds since the process asked for its models")
    caption = ABOUT + (DASHED if BASELINE in ends else "")
    caption += WHISKER if bool((table["whole_upper"] > table["whole_lower"]).any()) else ""
    return Sketch(fig, table, caption, _alt(table, arms, ends), ("measured",))


def phases(records: RunRecords) -> pd.DataFrame:
    """A row per arm and phase: ``seconds``, ``start``; ``whole_lower`` and ``whole_upper`` span the blocks' means."""
    requests, rounds = records.table("requests"), records.table("rounds")
    if requests.empty:
        return pd.DataFrame(columns=["arm", "phase", "seconds", "start", "whole_lower", "whole_upper"])
    warm = requests[requests["entry"] != "cold"]
    sums = pd.DataFrame()
    if len(rounds):
        counted = rounds.loc[(rounds["entry"] != "cold").to_numpy(), ["arm", *_IN_ROUNDS]]
        sums = counted.groupby("arm")[list(_IN_ROUNDS)].sum()
    rows = []
    for arm in dict.fromkeys(requests["arm"]):
        mine, all_mine = warm[warm["arm"] == arm], requests[requests["arm"] == arm]
        if mine.empty:
            continue
        seconds = {c: _load(all_mine, c) for c in ("load_ns", "draft_load_ns")}
        seconds |= {c: float(mine[c].mean()) / 1e9 for c in ("prefill_ns", "draft_prefill_ns", "finalise_ns")}
        seconds |= {
            c: float(sums.loc[[arm], c].sum()) / len(mine) / 1e9 if arm in sums.index else 0.0 for c in _IN_ROUNDS
        }
        loads = seconds["load_ns"] + seconds["draft_load_ns"]
        blocks = loads + mine.groupby("block")["total_ns"].mean() / 1e9
        start = 0.0
        for column, (phase, _) in PHASES.items():
            if seconds[column] > 0:
                rows.append({"arm": arm, "phase": phase, "seconds": seconds[column], "start": start,
                             "whole_lower": blocks.min(), "whole_upper": blocks.max()})  # fmt: skip
                start += seconds[column]
    return pd.DataFrame(rows)


def _load(requests: pd.DataFrame, column: str) -> float:
    loads = requests.loc[requests[column] > 0, column]
    return float(loads.median()) / 1e9 if len(loads) else 0.0


def _steps(ax: Axes, table: pd.DataFrame, longest: float) -> None:
    colours = dict(PHASES.values())
    names = list(table["phase"])
    for row, (_, step) in enumerate(table.iterrows()):
        ax.barh(row, step["seconds"], left=step["start"], height=0.72, color=colours[str(step["phase"])], linewidth=0)
        end = float(step["start"] + step["seconds"])
        ax.text(end + 0.008 * longest, row, f"{1000 * step['seconds']:.3g} ms", va="center", fontsize=7,
                bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6})  # fmt: skip
        if row:
            ax.plot([step["start"]] * 2, [row - 1, row], color=style.SOFT, linewidth=0.6)
    whole = table.iloc[-1]
    if whole["whole_upper"] > whole["whole_lower"]:
        ax.errorbar([(whole["whole_lower"] + whole["whole_upper"]) / 2], [len(names) - 0.4],
                    xerr=[(whole["whole_upper"] - whole["whole_lower"]) / 2], color=style.INK, capsize=2.5,
                    linewidth=1)  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.1, -0.6)
    ax.tick_params(axis="y", length=0, labelsize=7.5)
    ax.grid(axis="y", visible=False)


def _alt(table: pd.DataFrame, arms: Sequence[str], ends: Mapping[str, float]) -> str:
    parts = []
    for arm in arms:
        mine = table[table["arm"] == arm].sort_values("seconds", ascending=False)
        top = ", ".join(f"{r['phase']} {1000 * r['seconds']:.3g} ms" for _, r in mine.head(3).iterrows())
        parts.append(f"{style.name(arm)} takes {ends[arm]:.3g} seconds, mostly {top}")
    return "Waterfall of phases for each arm. " + "; ".join(parts) + "."
