"""Several candidates side by side: one column of facts each, and what forbids to compare them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..gates.result import Verdict
from .explain import VERDICT_SYMBOLS, explain, requires_speed
from .files import ReportError
from .gate_texts import gate_text
from .markdown import code, safe, table
from .numbers import NONE, interval, quantity
from .records import RunRecords, load_records
from .speedups import Cell, speed_cells

SHOWN = ("speedup", "no-regression", "tail", "ttft", "break-even", "beats-lookup", "memory", "energy")


@dataclass(frozen=True)
class Side:
    """One run in the comparison."""

    name: str
    records: RunRecords
    verdict: Verdict


def load_sides(directories: Sequence[Path], services: Any) -> list[Side]:
    """Every run judged from its own records. Raises ReportError for fewer than two, or the same folder twice."""
    if len(directories) < 2:
        raise ReportError("compare needs at least two run directories")
    if len({d.resolve() for d in directories}) < len(directories):
        raise ReportError("the same run directory is given twice")
    sides = []
    for path, name in zip(directories, short_names(directories), strict=True):
        records = load_records(path)
        sides.append(Side(name, records, services.judge(path)))
    return sides


def short_names(directories: Sequence[Path]) -> list[str]:
    """Folder names, with as many parents as it takes to tell them apart."""
    parts = [d.resolve().parts for d in directories]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(p[-depth:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    return [str(d) for d in directories]


def hindrances(sides: Sequence[Side]) -> list[str]:
    """Why these runs do not measure the same thing; empty when they do."""
    first, found = sides[0], []
    for side in sides[1:]:
        for what, take in _SAME.items():
            if take(first.records.plan) != take(side.records.plan):
                found.append(f"{side.name} differs from {first.name} in {what}")
    found += [
        f"{side.name}: its plan does not require the speed-up, so its verdict does not rest on speed"
        for side in sides
        if not requires_speed(side.verdict)
    ]
    budgets = {int(s.records.plan.get("attempts_budget", 1)) for s in sides}
    if len(sides) > min(budgets):
        found.append(
            f"{len(sides)} candidates on one prompt set, but a plan declares a budget of {min(budgets)}: picking "
            f"the best "
            "of them is not confirmed by its own verdict"
        )
    return found


_SAME: Mapping[str, Any] = {
    "the champion": lambda p: (p.get("champion") or {}).get("sha256"),
    "the prompts": lambda p: {
        s["name"]: sorted(str(x.get("ids_sha256")) for x in s.get("prompts", ())) for s in p["strata"]
    },
    "stratum weights": lambda p: {s["name"]: s.get("weight") for s in p["strata"]},
    "decoding": lambda p: p.get("decoding"),
    "the answer length": lambda p: (p.get("schedule") or {}).get("max_new_tokens"),
    "the hardware class": lambda p: p.get("hardware_class"),
}


def rows(sides: Sequence[Side]) -> list[tuple[str, list[str]]]:
    """Label and one cell per side."""
    listed: list[tuple[str, list[str]]] = [
        ("verdict", [_verdict(s.verdict) for s in sides]),
        ("plan", [s.verdict.plan_id[:12] for s in sides]),
        ("candidate", [s.records.candidate for s in sides]),
        ("draft", [_draft(s.records.plan) for s in sides]),
        ("speed-up required", ["yes" if requires_speed(s.verdict) else "no" for s in sides]),
        ("tokens a round", [_tokens(s.records) for s in sides]),
    ]
    for id in SHOWN:
        cells = [_gate(s.verdict, id) for s in sides]
        if any(c != NONE for c in cells):
            listed.append((gate_text(id).title, cells))
    speeds = [speed_cells(s.records, s.records.candidate) for s in sides]
    for name in dict.fromkeys(n for c in speeds for n in c):
        cells = [_speed(c.get(name)) for c in speeds]
        listed.append((f"speed-up, {name}", cells))
    listed.append(("not passed", [_open(s.verdict) for s in sides]))
    return listed


def _speed(cell: Cell | None) -> str:
    if cell is None:
        return NONE
    limits = interval((cell.low, cell.high), "ratio")
    return quantity(cell.value, "ratio") + ("" if limits == NONE else f" {limits}")


def _verdict(verdict: Verdict) -> str:
    return f"{VERDICT_SYMBOLS[verdict.verdict]} {verdict.verdict}" + (" (exploratory)" if verdict.exploratory else "")


def _draft(plan: Mapping[str, Any]) -> str:
    draft = plan.get("draft") or {}
    return f"{draft['name']} {quantity(draft.get('bytes'), 'bytes')}" if draft.get("name") else "none"


def _tokens(records: RunRecords) -> str:
    rounds = records.table("rounds")
    mine = rounds[rounds["arm"] == records.candidate] if len(rounds) else rounds
    return f"{mine['emitted'].sum() / len(mine):.2f}" if len(mine) else NONE


def _gate(verdict: Verdict, id: str) -> str:
    gate = next((g for g in verdict.gates if g.id == id), None)
    if gate is None or gate.status == "not-applicable":
        return NONE
    told = explain(gate)
    limits = interval(gate.interval, gate.unit)
    return " ".join(x for x in (told.symbol, told.estimate, limits) if x != NONE)


def _open(verdict: Verdict) -> str:
    return ", ".join(g.id for g in verdict.gates if g.status not in ("pass", "not-applicable")) or "nothing"


def render_markdown(sides: Sequence[Side]) -> str:
    lines = [table(["", *(code(s.name) for s in sides)], [[safe(a), *map(safe, b)] for a, b in rows(sides)])]
    lines += [f"> **Careful:** {safe(text)}" for text in hindrances(sides)]
    return "\n\n".join(lines) + "\n"


def render_json(sides: Sequence[Side]) -> str:
    from ..gates.verdict_file import as_json

    value = {
        "format": "draftgate-compare/1",
        "hindrances": hindrances(sides),
        "runs": [
            {"name": s.name, "candidate": s.records.candidate,
            "draft": (s.records.plan.get("draft") or {}).get("sha256"),
             "verdict": as_json(s.verdict)}
            for s in sides
        ],
    }  # fmt: skip
    return json.dumps(value, allow_nan=False)
