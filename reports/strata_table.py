"""One row a stratum: what the gates found there, and the plain counts behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ..gates.result import Verdict
from .explain import STATUS_WORDS, SYMBOLS
from .numbers import NONE, interval, quantity
from .records import RunRecords
from .speedups import OVERALL, Cell, speed_cells


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
class StrataTable:
    rows: Sequence[StratumRow]
    one: float
    """Where a speed-up of 1 lies on the axis of the interval drawings, in percent."""

    @property
    def with_intervals(self) -> bool:
        return any(row.limits != NONE for row in self.rows)


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


def strata_table(records: RunRecords, verdict: Verdict) -> StrataTable:
    """A row per stratum and one overall: the gate's numbers where it has them, else the same estimate, not gated."""
    gated = {str(r.get("stratum")): r for r in speed_rows(verdict)}
    named = {str(r.get("stratum")): r for g in verdict.gates if g.id == "speedup" for r in g.per_stratum}
    gated = {**{k: v for k, v in named.items() if k not in gated}, **gated}
    cells = speed_cells(records, records.candidate)
    found = {s: _found(gated.get(s), cells.get(s)) for s in [*records.strata, OVERALL]}
    axis = axis_of(list(found.values()))
    quality = {str(r.get("stratum")): r for g in verdict.gates if g.id == "quality" for r in g.per_stratum}
    rounds, requests = records.table("rounds"), records.table("requests")
    mine = rounds.loc[(rounds["arm"] == records.candidate).to_numpy(), ["stratum", "proposed", "accepted", "emitted"]]
    asked = requests[requests["arm"] == records.candidate] if not requests.empty else requests
    weights = records.evidence.weights()
    rows = []
    for stratum in records.plan["strata"]:
        name = str(stratum["name"])
        traced = mine[mine["stratum"] == name] if not mine.empty else mine
        checked = asked[asked["stratum"] == name] if not asked.empty else asked
        row = _row(name, found[name], axis, traced, _quality(quality.get(name), checked))
        rows.append(replace(row, designated=bool(stratum.get("designated")), prompts=len(stratum["prompts"]),
                            weight=quantity(weights.get(name), "share")))  # fmt: skip
    if len(rows) > 1:
        last = _row(OVERALL, found[OVERALL], axis, mine, _quality(quality.get(OVERALL), asked))
        rows.append(replace(last, prompts=sum(r.prompts for r in rows), weight=quantity(1.0, "share")))
    return StrataTable(tuple(rows), axis.percent(1.0) if axis else 50.0)


def _found(gated: Mapping[str, Any] | None, cell: Cell | None) -> Mapping[str, Any]:
    if gated is not None and gated.get("estimate") is not None:
        return gated
    if cell is None:
        return gated or {}
    limits = [cell.low, cell.high] if math.isfinite(cell.low) and math.isfinite(cell.high) else None
    return {"status": "not gated", **(gated or {}), "estimate": cell.value, "interval": limits}


def _row(name: str, found: Mapping[str, Any], axis: Axis | None, rounds: pd.DataFrame, quality: str) -> StratumRow:
    status = str(found.get("status", "not-measured"))
    limits, estimate = found.get("interval"), found.get("estimate")
    place = None
    if axis and limits and _positive(estimate) and all(_positive(x) for x in limits):
        place = (axis.percent(limits[0]), axis.percent(float(estimate or 1)), axis.percent(limits[1]))
    proposed, total = (int(rounds["proposed"].sum()), len(rounds)) if not rounds.empty else (0, 0)
    return StratumRow(
        name=name, designated=False, weight="", prompts=0, speedup=quantity(estimate, "ratio"),
        limits=interval(limits, "ratio"), status=status, symbol=SYMBOLS.get(status, "–"),
        words=STATUS_WORDS.get(status, status), reason=str(found.get("reason", "")),
        tokens_per_round=f"{rounds['emitted'].sum() / total:.2f}" if total else NONE,
        accepted_share=quantity(rounds["accepted"].sum() / proposed, "share") if proposed else NONE, quality=quality,
        place=place,
    )  # fmt: skip


def _quality(found: Mapping[str, Any] | None, requests: pd.DataFrame) -> str:
    scores = (
        pd.to_numeric(requests["quality"], errors="coerce").dropna() if not requests.empty else pd.Series(dtype=float)
    )
    if len(scores):
        return quantity(float(scores.mean()), "share")
    return NONE if found is None else quantity(found.get("estimate"), str(found.get("unit", "")))
