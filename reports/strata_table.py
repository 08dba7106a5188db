"""One row a stratum: what the gates found there, and the plain counts behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..gates.result import Verdict
from .explain import STATUS_WORDS, SYMBOLS
from .numbers import NONE, interval, quantity
from .records import RunRecords


@dataclass(frozen=True)
class StratumRow:
    name: str
    designated: bool
    weight: str
    prompts: int
    speedup: str
    limits: str
    status: str
    symbol: str
    words: str
    reason: str
    tokens_per_round: str
    accepted_share: str
    quality: str
    place: tuple[float, float, float] | None
    """Lower limit, estimate, upper limit as percent of the common axis, for the little interval drawing."""


@dataclass(frozen=True)
class Axis:
    """Logarithmic axis shared by all rows."""

    low: float
    high: float

    def percent(self, value: float) -> float:
        part = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return round(100 * min(max(part, 0.0), 1.0), 2)


def axis_of(rows: Sequence[Mapping[str, Any]]) -> Axis | None:
    ends = [float(x) for r in rows for x in [*(r.get("interval") or ()), r.get("estimate")] if _positive(x)]
    if not ends:
        return None
    return Axis(min(*ends, 0.9) / 1.02, max(*ends, 1.1) * 1.02)


def _positive(x: Any) -> bool:
    return isinstance(x, int | float) and math.isfinite(x) and x > 0


def speed_rows(verdict: Verdict) -> Sequence[Mapping[str, Any]]:
    """Per-stratum speed-ups, from the first gate that has them in every stratum."""
    found = [
        g.per_stratum for id_ in ("no-regression", "speedup") for g in verdict.gates if g.id == id_ and g.per_stratum
    ]
    return max(found, key=len, default=())


def stratum_rows(records: RunRecords, verdict: Verdict) -> list[StratumRow]:
    speeds = speed_rows(verdict)
    by_name = {str(r.get("stratum")): r for r in speeds}
    quality = {str(r.get("stratum")): r for g in verdict.gates if g.id == "quality" for r in g.per_stratum}
    axis = axis_of(speeds)
    rounds, requests = records.table("rounds"), records.table("requests")
    mine = rounds[rounds["arm"] == records.candidate] if not rounds.empty else rounds
    checked = requests[requests["arm"] == records.candidate] if not requests.empty else requests
    return [
        _row(s, by_name.get(s["name"], {}), quality.get(s["name"]), axis, mine, checked)
        for s in records.plan.get("strata", [])
    ]


def _row(
    stratum: Mapping[str, Any],
    found: Mapping[str, Any],
    quality: Mapping[str, Any] | None,
    axis: Axis | None,
    rounds: pd.DataFrame,
    requests: pd.DataFrame,
) -> StratumRow:
    name, status = str(stratum["name"]), str(found.get("status", "not-measured"))
    limits, estimate = found.get("interval"), found.get("estimate")
    place = None
    if axis and limits and _positive(estimate) and all(_positive(x) for x in limits):
        place = (axis.percent(limits[0]), axis.percent(float(estimate or 1)), axis.percent(limits[1]))
    here = rounds[rounds["stratum"] == name] if not rounds.empty else rounds
    proposed, total = (int(here["proposed"].sum()), len(here)) if not here.empty else (0, 0)
    return StratumRow(
        name,
        bool(stratum.get("designated")),
        quantity(stratum.get("weight"), "share"),
        len(stratum.get("prompts", [])),
        quantity(estimate, "ratio"),
        interval(limits, "ratio"),
        status,
        SYMBOLS.get(status, "?"),
        STATUS_WORDS.get(status, status),
        str(found.get("reason", "")),
        f"{here['emitted'].sum() / total:.2f}" if total else NONE,
        quantity(here["accepted"].sum() / proposed, "share") if proposed else NONE,
        _quality(quality, requests, name),
        place,
    )


def _quality(found: Mapping[str, Any] | None, requests: pd.DataFrame, name: str) -> str:
    if requests.empty:
        scores = pd.Series(dtype=float)
    else:
        scores = pd.to_numeric(requests.loc[requests["stratum"] == name, "quality"], errors="coerce").dropna()
    if len(scores):
        return quantity(float(scores.mean()), "share")
    return NONE if found is None else quantity(found.get("estimate"), str(found.get("unit", "")))
