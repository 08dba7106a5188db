"""From a run directory to a verdict: every gate of the plan, the algebra, and a look at whether the gates can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.errors import IntegrityError
from .check import Check
from .evidence import Evidence, load_evidence
from .multiverse import GATES, has_exclusions, multiverse, no_interval
from .not_shown import not_shown
from .plan_shape import misshapen
from .registry import build_check, checks
from .result import GateResult, Verdict, combine
from .selfcheck import self_check
from .verdict_file import write_verdict

__all__ = ["judge", "judge_evidence", "write_verdict"]


def judge(run_dir: Path | str) -> Verdict:
    """The verdict of a finished run. Raises EvidenceError when unreadable, IncompleteRun before its end, IntegrityError
    for a plan that was never frozen."""
    evidence = load_evidence(run_dir)
    if problem := misshapen(evidence):
        raise IntegrityError(
            f"{run_dir}: no verdict can be reached on this plan ({problem}); `draftgate verify` says what else is wrong"
        )
    return dataclasses.replace(judge_evidence(evidence), evidence=evidence)


def judge_evidence(evidence: Evidence, *, look_back: bool = True) -> Verdict:
    """All gates of the plan on one evidence; ``look_back`` adds self-check and multiverse (a card needs none)."""
    asked, unknown = _asked(evidence)
    results = [*unknown, *evaluate(asked, evidence)]
    results = _with_all_data(asked, evidence, results)
    name, reasons = combine(results)
    extra: dict[str, Any] = {"deviations": [dict(d) for d in evidence.deviations]}
    parent = evidence.plan.get("parent") or {}
    if look_back:
        checked = self_check(asked, evidence, results)
        loose = [line["gate"] for line in checked if not line["held"]]
        if loose:
            name = "INVALID"
            reasons = tuple(f"self-check: {g} passes on a copy disturbed so that it must not" for g in loose) + reasons
        extra |= {
            "self_check": checked,
            "multiverse": multiverse(asked, evidence, results),
            "not_shown": not_shown(evidence, results),
            "decision_card": evidence.decision_card,
            "splits": by_split(asked, evidence),
        }
    return Verdict(name, evidence.plan_id, tuple(results), reasons, bool(parent.get("results_seen")), extra)


def _with_all_data(asked: list[Check], evidence: Evidence, results: list[GateResult]) -> list[GateResult]:
    """Exclusions may not decide: a timing gate that says something else on all the data is inconclusive."""
    if not has_exclusions(evidence):
        return results
    timing = [check for check in asked if check.timing]
    other = {r.id: r for r in evaluate(timing, evidence.replace(with_excluded=True))}
    out = []
    for result in results:
        all_data = other.get(result.id)
        if all_data is not None and all_data.status != result.status and result.status in ("pass", "fail"):
            reason = f"{result.status} without the excluded pairs, {all_data.status} with them: {all_data.reason}"
            result = dataclasses.replace(result, status="inconclusive", reason=reason)
        out.append(result)
    return out


def by_split(asked: list[Check], evidence: Evidence) -> list[dict[str, Any]]:
    """The timing gates on open and on reserve prompts apart, where the plan has both. Reported; the verdict pools
    them."""
    split = {
        (str(s["name"]), str(p["id"])): str(p.get("split", "open"))
        for s in evidence.plan.get("strata", ())
        for p in s.get("prompts", ())
    }
    if len(set(split.values())) < 2 or evidence.requests.empty:
        return []
    frame = evidence.requests
    of_row = np.array([split.get(k, "") for k in zip(frame["stratum"], frame["prompt_id"], strict=True)])
    lines = []
    for name in sorted(set(split.values())):
        part = evidence.replace(requests=frame[of_row == name])
        for check in asked:
            if check.id in GATES:
                found = check.answer(part)
                lines.append({"split": name, "gate": check.id, "status": found.status, "estimate": found.estimate,
                              "interval": found.interval, "no_interval": no_interval(found, part),
                              "n": found.n})  # fmt: skip
    return lines


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
    return check.answer(evidence)


def _uncontrolled(result: GateResult, control: GateResult) -> GateResult:
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
