"""From a run directory to a verdict: every gate of the plan, the algebra, and a look at whether the gates can fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .check import Check
from .evidence import Evidence, load_evidence
from .registry import build_check, checks
from .result import GateResult, Verdict, combine
from .verdict_file import write_verdict

__all__ = ["judge", "judge_evidence", "write_verdict"]


def judge(run_dir: Path | str) -> Verdict:
    """The verdict of a finished run. Raises EvidenceError when unreadable, IncompleteRun before its end."""
    return judge_evidence(load_evidence(run_dir))


def judge_evidence(evidence: Evidence, *, look_back: bool = True) -> Verdict:
    """All gates of the plan on one evidence; ``look_back`` adds self-check and multiverse (a card needs none)."""
    asked, unknown = _asked(evidence)
    results = [*unknown, *evaluate(asked, evidence)]
    extra: dict[str, Any] = {"deviations": [dict(d) for d in evidence.deviations]}
    name, reasons = combine(results)
    parent = evidence.plan.get("parent") or {}
    return Verdict(name, evidence.plan_id, tuple(results), reasons, bool(parent.get("results_seen")), extra)


def _asked(evidence: Evidence) -> tuple[list[Check], list[GateResult]]:
    """The plan's gates; an entry this version does not know is invalid, never skipped."""
    asked, unknown = [], []
    for entry in evidence.plan.get("gates") or ():
        if str(entry.get("id")) in checks():
            asked.append(build_check(entry))
        else:
            unknown.append(GateResult(str(entry.get("id")), "invalid", "this version has no such gate"))
    return asked, unknown


def evaluate(asked: Iterable[Check], evidence: Evidence) -> list[GateResult]:
    """Every gate's result, hardware class and control taken into account."""
    asked = list(asked)
    machine = hardware_difference(evidence)
    results = {check.id: _one(check, evidence, machine) for check in asked}
    control = results.get("control")
    if (
        control is not None
        and control.requirement != "not-applicable"
        and control.status not in ("pass", "not-applicable")
    ):
        for check in asked:
            if check.timing and check.id != "control" and results[check.id].status in ("pass", "fail"):
                results[check.id] = _uncontrolled(results[check.id], control)
    return list(results.values())


def _one(check: Check, evidence: Evidence, machine: str) -> GateResult:
    if check.requirement == "not-applicable":
        return check.result("not-applicable", "the plan declares it not applicable")
    if check.timing and machine:
        return check.result("not-measured", machine)
    try:
        return check.evaluate(evidence)
    except Exception as error:  # a gate that stumbles over its data has found nothing, least of all a pass
        return check.result("invalid", f"could not be computed: {type(error).__name__}: {error}")


def _uncontrolled(result: GateResult, control: GateResult) -> GateResult:
    import dataclasses

    return dataclasses.replace(
        result,
        status="inconclusive",
        reason=f"the control did not hold ({control.reason}); otherwise: {result.reason}",
        details={**result.details, "without_control": result.status},
    )


def hardware_difference(evidence: Evidence) -> str:
    """Why timing gates do not count here; empty when the run was on the plan's hardware class."""
    planned, found = evidence.plan.get("hardware_class"), evidence.environment.get("hardware_class")
    if not planned:
        return ""
    if not isinstance(found, Mapping):
        return "the ledger does not say on what hardware class the run was made"
    different = [k for k in planned if found.get(k) != planned[k]]
    if not different:
        return ""
    said = ", ".join(f"{k} {found.get(k)!r} against {planned[k]!r}" for k in different)
    return f"not the plan's hardware class: {said}"
