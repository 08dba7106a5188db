"""Break-even: from which session length on the candidate pays for its own loading and prompt reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ...gates.breakeven import lengths_of
from ...gates.checks.break_even import draft_loads, session_gain, without_loads
from ...gates.checks.speed import weighted
from ...gates.costs import champion_cost
from ...gates.pairs import Paired
from ...gates.result import Verdict
from ..numbers import quantity
from ..records import RunRecords
from . import style
from .drawn import CannotDraw, Sketch

TITLE = "Break-even by session length"
ABOUT = (
    "Time of a whole session with the candidate, its loading and prompt reading included, relative to champion-alone, "
    "by the tokens the session emits; below 1 it pays."
)
SHADED, NOT_SHADED = " Shaded: 95 % interval.", " This sample gives no interval."
MARKED = " The bar on the line of 1 is the set of lengths at which break-even is not excluded (Fieller)."
STRIP = (
    " The grey strip is the declared distribution of session lengths, its middle 90 % and half, which the plan assumes "
    "and this run does not measure."
)
GRID = np.unique(np.round(np.geomspace(4, 20_000, 28)))


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    table = curve(records)
    fig = style.figure(3.9)
    ax = fig.subplots()
    how = style.look(records.candidate, records.arms)
    x = table["session_tokens"].to_numpy(float)
    drawn = table[["ratio", "lower", "upper"]].to_numpy(float)  # limits are NaN where the sample gives none
    top = float(np.clip(np.nanmax(drawn), 1.4, 3.0))
    ax.fill_between(x, table["lower"], np.minimum(table["upper"], 2 * top), color=how.colour, alpha=0.18, linewidth=0)
    ax.plot(x, table["ratio"], color=how.colour, label=style.name(records.candidate))
    ax.axhline(1.0, color=style.INK, linewidth=0.9, dashes=(3, 2))
    ax.set_xscale("log")
    ax.set_xlim(x[0], x[-1])
    bottom = min(0.5, 0.9 * float(np.nanmin(drawn)))
    ax.set_ylim(bottom, top)
    found = n_min(verdict)
    caption = ABOUT + (SHADED if bool(table["lower"].notna().any()) else NOT_SHADED)
    caption += MARKED if _mark(ax, found, x) else ""
    caption += STRIP if _strip(ax, records, bottom, top) else ""
    ticks = [t for t in (5, 10, 30, 100, 300, 1000, 3000, 10_000) if x[0] <= t <= x[-1]]
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("tokens a session emits (logarithmic)")
    ax.set_ylabel("session time against champion-alone")
    return Sketch(fig, table, caption, _alt(table, found, records), ("derived", "assumed"))


def curve(records: RunRecords) -> pd.DataFrame:
    """A row per session length: ``ratio`` with limits, from the gate's own D(M). Raises CannotDraw without a D."""
    evidence = records.evidence
    loads = draft_loads(evidence)
    if isinstance(loads, str):
        raise CannotDraw(loads)
    weights = evidence.weights()
    champion = champion_cost(evidence.requests)
    if not math.isfinite(champion) or champion <= 0:
        raise CannotDraw("champion-alone was not timed")
    gain = gain_by_length(records)
    rows = []
    for tokens in GRID:
        d = without_loads(weighted(gain(float(tokens)), weights).overall, loads)
        if not math.isfinite(d.mean):
            raise CannotDraw("the pairs of candidate and champion-alone give no estimate of the saving")
        low, high = d.limits(evidence.alpha)
        whole = tokens * champion
        rows.append({"session_tokens": tokens, "saving_s": d.mean / 1e9, "saving_lower_s": low / 1e9,
        "saving_upper_s": high / 1e9,
                     "ratio": 1 - d.mean / whole, "lower": 1 - high / whole, "upper": 1 - low / whole})  # fmt: skip
    return pd.DataFrame(rows)


def gain_by_length(records: RunRecords) -> Callable[[float], Paired]:
    """The gate's D(M) before the loads, as a function of M: affine in every cell, so two evaluations give all."""
    strata = records.evidence.weights()
    low, high = (session_gain(records.evidence, dict.fromkeys(strata, m)) for m in (100.0, 200.0))

    def at(tokens: float) -> Paired:
        values = {
            s: y + (tokens - 100.0) / 100.0 * (high.values[s] - y) for s, y in low.values.items() if s in high.values
        }
        return Paired(values, low.clusters, low.problems)

    return at


def n_min(verdict: Verdict) -> Mapping[str, Any]:
    """The gate's confidence set for the break-even length; empty where it has none."""
    for gate in verdict.gates:
        if gate.id == "break-even" and isinstance(gate.details.get("n_min"), Mapping):
            return dict(gate.details["n_min"])
    return {}


def _mark(ax: Axes, found: Mapping[str, Any], x: np.ndarray[Any, Any]) -> bool:
    """Whether there was a set of lengths to draw."""
    if not found or found.get("only_never"):
        return False
    low, high = _finite(found.get("lower"), x[0]), _finite(found.get("upper"), x[-1])
    ax.plot([max(low, x[0]), min(high, x[-1])], [1, 1], color=style.INK, linewidth=4, solid_capstyle="butt", alpha=0.75)
    if found.get("estimate") is not None and x[0] <= found["estimate"] <= x[-1]:
        ax.plot([found["estimate"]], [1], marker="D", markersize=6, color=style.INK, linestyle="none")
        ax.annotate(
            f"N min {found['estimate']:,.0f}",
            (found["estimate"], 1),
            xytext=(4, 8),
            textcoords="offset points",
            fontsize=8.5,
        )
    return True


def _finite(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else float(otherwise)


def _strip(ax: Axes, records: RunRecords, bottom: float, top: float) -> bool:
    """Whether the plan declares lengths to draw."""
    try:
        lengths = [lengths_of(records.plan, s) for s in records.strata]
    except (ValueError, KeyError, TypeError):
        return False
    tokens = np.concatenate([x.tokens for x in lengths])
    weights = np.concatenate([x.weights for x in lengths])
    order = np.argsort(tokens, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    places = np.minimum(np.searchsorted(share, [0.05, 0.25, 0.5, 0.75, 0.95]), len(tokens) - 1)
    at = [float(t) for t in tokens[order][places]]
    y = bottom + 0.05 * (top - bottom)
    for low, high, width in ((at[0], at[4], 5), (at[1], at[3], 10)):
        ax.plot([low, high], [y, y], color=style.SOFT, alpha=0.35, linewidth=width, solid_capstyle="butt")
    ax.plot([at[2]], [y], marker="|", markersize=11, color=style.INK, linestyle="none")
    ax.annotate(
        "assumed session lengths", (at[4], y), xytext=(6, -3), textcoords="offset points", fontsize=8, color=style.SOFT
    )
    return True


def _limits(row: Any) -> str:
    return f"({row['lower']:.2f} to {row['upper']:.2f})" if math.isfinite(row["lower"]) else "(no interval)"


def _alt(table: pd.DataFrame, found: Mapping[str, Any], records: RunRecords) -> str:
    said = [
        f"{row['session_tokens']:,.0f} tokens {row['ratio']:.2f} {_limits(row)}"
        for _, row in table.iloc[[4, 12, 18, 24]].iterrows()
    ]
    if found.get("only_never"):
        end = "No session length pays."
    elif found:
        upper = (
            "no upper end" if not isinstance(found.get("upper"), int | float) else quantity(found["upper"], "tokens")
        )
        end = f"Break-even lies between {quantity(found.get('lower'), 'tokens')} and {upper}."
    else:
        end = "The gate gives no break-even length."
    return f"Falling curve of relative session time for {style.name(records.candidate)}: {'; '.join(said)}. {end}"
