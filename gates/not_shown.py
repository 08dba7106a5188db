"""What a verdict does not show: said at its end, every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .evidence import Evidence
from .result import GateResult

MEASUREMENTS = ("cold_loads", "contention", "memory_formula", "energy", "overhead")
"""Audit records that measure and decide nothing by themselves."""


def not_shown(evidence: Evidence, results: Sequence[GateResult]) -> list[str]:
    """Sentences, from the general to this run's own gaps."""
    plan = evidence.plan
    prompts = sum(len(s.get("prompts", ())) for s in plan.get("strata", ()))
    lines = [
        f"Prompts unlike the {prompts} of this plan: intervals speak of prompts like these, so weighted.",
        "Several requests at once: every request was decoded alone.",
        "Machines of another hardware class: the timing gates speak of the plan's class alone.",
        "Regressions rarer than the sample can hold"
        + (f": nothing is known below about one prompt in {max(1, prompts // 3)}." if prompts else "."),
    ]
    if evidence.greedy:
        lines.append("Sampled decoding: this plan is greedy.")
    else:
        lines.append("Other temperatures and processors than the plan's.")
    if any(p.get("split") == "reserve" for s in plan.get("strata", ()) for p in s.get("prompts", ())):
        lines.append(
            "That reserve prompts were never read: where they lie in a public repository, sealing is a procedure."
        )
    for result in results:
        if result.requirement == "not-applicable":
            lines.append(f"{result.id}: the plan declares it not applicable.")
        elif result.status == "not-measured" or (result.requirement, result.status) == ("if-available", "inconclusive"):
            lines.append(f"{result.id}: {result.reason}.")
    for name, bodies in evidence.audits.items():
        bad = [b for b in bodies if not b.get("ok")]
        if bad and name in MEASUREMENTS:
            detail = bad[0].get("detail")
            why = detail.get("reason", "failed") if isinstance(detail, Mapping) else "failed"
            lines.append(f"What the measurement {name} would have shown: {why}.")
    asked = {r.id for r in results}
    for name, what in (("energy", "Energy"), ("control", "That the clock was true: no control arm was asked for")):
        if name not in asked:
            lines.append(f"{what}: the plan has no such gate." if name == "energy" else f"{what}.")
    return lines
