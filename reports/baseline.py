"""A candidate beside the draft in use: what the last adopted verdict measured, and what this one did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..gates.result import GateResult, Verdict
from .files import ReportError
from .gate_texts import gate_text
from .markdown import code, table
from .numbers import interval, quantity
from .stored_verdict import read_stored_verdict


@dataclass(frozen=True)
class Difference:
    gate: str
    unit: str
    before: float | None
    before_interval: tuple[float, float] | None
    now: float | None
    now_interval: tuple[float, float] | None
    word: str
    """better, worse, or not told apart: worse and better only where the intervals do not meet."""


def read_baseline(path: Path) -> dict[str, Any]:
    """The last adopted verdict. Raises ReportError where it is missing, of another version, or was never a GO."""
    file = path / "verdict.json" if path.is_dir() else path
    if not file.is_file():
        raise ReportError(
            f"{file}: the baseline is missing; commit the verdict.json of the draft in use, or leave --baseline out"
        )
    value = read_stored_verdict(file)
    if value["verdict"] != "GO" or value["exploratory"]:
        mark = "exploratory " if value["exploratory"] else ""
        raise ReportError(f"{file}: an {mark}{value['verdict']} verdict was never adopted, so it is no baseline")
    return value


def differences(baseline: Mapping[str, Any], verdict: Verdict) -> list[Difference]:
    """Gates with a directed threshold and an estimate in both, in the verdict's order."""
    before = {g["id"]: g for g in baseline["gates"]}
    return [
        _difference(before[g.id], g)
        for g in verdict.gates
        if g.id in before and gate_text(g.id).bound in (">=", "<=") and _both(before[g.id], g)
    ]


def _both(before: Mapping[str, Any], now: GateResult) -> bool:
    return before.get("estimate") is not None and now.estimate is not None and before.get("unit", "") == now.unit


def _difference(before: Mapping[str, Any], now: GateResult) -> Difference:
    limits = before.get("interval")
    old = (float(limits[0]), float(limits[1])) if limits and None not in limits else None
    word = "not told apart"
    if old is not None and now.interval is not None:
        higher, lower = now.interval[0] > old[1], now.interval[1] < old[0]
        up = gate_text(now.id).bound == ">="
        word = "better" if (higher if up else lower) else "worse" if (lower if up else higher) else word
    return Difference(now.id, now.unit, float(before["estimate"]), old, now.estimate, now.interval, word)


def render_differences(found: list[Difference], baseline: Mapping[str, Any]) -> str:
    """Markdown; says what the comparison is worth."""
    if not found:
        return "### Against the draft in use\n\nNo gate has numbers in both verdicts."
    rows = [
        [code(d.gate), f"{quantity(d.before, d.unit)} {interval(d.before_interval, d.unit)}",
         f"{quantity(d.now, d.unit)} {interval(d.now_interval, d.unit)}", d.word]
        for d in found
    ]  # fmt: skip
    text = table(["Gate", "In use", "Candidate", "Candidate is"], rows)
    return (
        f"### Against the draft in use\n\nBaseline: plan {code(str(baseline['plan_id'])[:12])}. Two runs at two "
        f"times; only "
        f"intervals that do not meet are called better or worse, and the gates above decide alone.\n\n{text}"
    )
