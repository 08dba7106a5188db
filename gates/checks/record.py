"""Gates on the record itself: identities match, and every scheduled request is there exactly once. Else INVALID."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ...harness.schedule import Schedule
from ...harness.wording import counted
from ..check import Check
from ..evidence import Evidence
from ..result import GateResult


class Identity(Check):
    id = "identity"
    asks = "Are plan, ledger, tables and every bound artifact what was frozen?"

    def evaluate(self, evidence: Evidence) -> GateResult:
        problems = [*evidence.table_problems]
        first = next((r for r in evidence.ledger.records if r.get("kind") == "plan"), None)
        if evidence.ledger.problem:
            problems.append(f"ledger: {evidence.ledger.problem}")
        if first is None:
            problems.append("ledger: no plan record")
        else:
            said = str((first.get("body") or {}).get("plan_id"))
            if said != evidence.plan_id:
                problems.append(f"ledger opens with plan {said[:12]}, plan.json is {evidence.plan_id[:12]}")
        problems += [f"identity deviation: {_said(d)}" for d in evidence.deviations if _breaks_identity(d)]
        problems += _attempts(evidence)
        checked = _judged(evidence.ledger.records)
        if problems:
            return self.result("invalid", "; ".join(problems[:5]), n=checked, details={"problems": problems})
        return self.result("pass", f"plan, tables and a chain of {counted(checked, 'record')} agree", n=checked)

    def disturb(self, evidence: Evidence) -> Evidence:
        return evidence.replace(plan_id="0" * 64)


def _judged(records: Sequence[Mapping[str, Any]]) -> int:
    """Records a verdict rests on: not the verdicts at the end, or judging again would write other bytes."""
    count = len(records)
    while count and records[count - 1].get("kind") == "verdict":
        count -= 1
    return count


def _breaks_identity(deviation: Any) -> bool:
    kind = str(deviation.get("kind", deviation.get("name", "")))
    return kind.startswith("identity") or bool(deviation.get("invalidates"))


def _said(deviation: Any) -> str:
    return str(
        deviation.get("reason") or deviation.get("detail") or deviation.get("kind") or deviation.get("name") or ""
    )


def _attempts(evidence: Evidence) -> list[str]:
    """More candidates tried on these prompts than the plan's alpha was divided for."""
    for record in evidence.ledger.records:
        if record.get("kind") == "plan":
            used = (record.get("body") or {}).get("attempt")
            budget = int(evidence.plan.get("attempts_budget", 1) or 1)
            if isinstance(used, int) and used > budget:
                return [f"attempt {used} on these prompts; the plan's budget is {budget}"]
    return []


class Complete(Check):
    id = "complete"
    asks = "Does every scheduled request have its record, exactly once?"

    def evaluate(self, evidence: Evidence) -> GateResult:
        frame = evidence.requests
        keys = ["arm", "stratum", "prompt_id", "block", "turn", "entry"]
        if frame.empty or not set(keys) <= set(frame.columns):
            return self.result("invalid", "no request was recorded")
        scheduled = schedule(evidence.plan)
        if not scheduled:
            return self.result("invalid", "the plan schedules no request")
        seen = Counter(zip(*(frame[k] for k in keys), strict=True))
        missing = [key for key in scheduled if key not in seen]
        foreign = [key for key in seen if key not in scheduled]
        twice = [key for key, count in seen.items() if count > 1]
        problems = []
        if missing:
            of = counted(len(scheduled), "scheduled request")
            problems.append(f"{len(missing)} of {of} without a record, first {_name(missing[0])}")
        if twice:
            problems.append(f"{counted(len(twice), 'request')} recorded more than once, first {_name(twice[0])}")
        if foreign:
            problems.append(f"{counted(len(foreign), 'record')} never scheduled, first {_name(foreign[0])}")
        problems += _rounds_without_request(evidence)
        problems += [
            f"accounting: {(body.get('detail') or {}).get('reason', 'counts contradict each other')}"
            for body in evidence.audits.get("accounting", ())
            if not body.get("ok")
        ]
        details = {
            "scheduled": len(scheduled),
            "recorded": len(frame),
            "missing": len(missing),
            "foreign": len(foreign),
        }
        if problems:
            return self.result("invalid", "; ".join(problems), n=len(scheduled), details=details)
        return self.result(
            "pass", f"all {len(scheduled)} scheduled requests are recorded once", n=len(scheduled), details=details
        )

    def disturb(self, evidence: Evidence) -> Evidence:
        return evidence.replace(requests=evidence.requests.iloc[:-1])


def schedule(plan: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    """(arm, stratum, prompt, block, turn, entry) of every request the plan asks for."""
    return {(i.arm, i.stratum, i.prompt_id, i.block, i.turn, i.entry) for i in Schedule(plan).requests()}


def _rounds_without_request(evidence: Evidence) -> list[str]:
    rounds: pd.DataFrame = evidence.rounds
    if rounds.empty or "request_id" not in rounds or "request_id" not in evidence.requests:
        return []
    foreign = set(rounds["request_id"].unique()) - set(evidence.requests["request_id"])
    return [f"{counted(len(foreign), 'request')} with rounds but no record"] if foreign else []


def _name(key: tuple[Any, ...]) -> str:
    return f"{key[0]} · {key[1]}/{key[2]} · block {key[3]}"
