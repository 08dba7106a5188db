"""The multiverse: the verdict's own gates under other reasonable analyses. A flip is printed beside the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..harness.wording import counted
from .alternatives import METHODS
from .check import Check
from .evidence import Evidence
from .result import GateResult

GATES = ("speedup", "no-regression", "tail", "ttft", "beats-lookup")
METHOD_GATES = ("speedup", "no-regression", "beats-lookup")


def variants(evidence: Evidence) -> Iterator[tuple[str, Evidence]]:
    """Name and evidence of every other analysis: weights, exclusions, interval method, mean against median."""
    strata = [dict(s) for s in evidence.plan.get("strata", ())]
    if len(strata) > 1:
        sizes = [float(len(s.get("prompts", ()))) for s in strata]
        for name, weights in (("equal weights", [1.0] * len(strata)), ("weights by prompts", sizes)):
            changed = [{**s, "weight": w} for s, w in zip(strata, weights, strict=True)]
            yield name, evidence.replace(plan={**evidence.plan, "strata": changed})
    if has_exclusions(evidence):
        yield "all data", evidence.replace(with_excluded=True)
    for method in METHODS:
        yield (
            {"median": "median, percentile interval"}.get(method, f"{method} interval"),
            evidence.replace(method=method),
        )


def has_exclusions(evidence: Evidence) -> bool:
    frame = evidence.requests
    return "excluded" in frame and bool((frame["excluded"].fillna("") != "").any())


def multiverse(asked: Sequence[Check], evidence: Evidence, results: Sequence[GateResult]) -> list[dict[str, Any]]:
    """One line a gate and variant: status, estimate, interval, and whether it flips what the plan's own analysis
    said."""
    said = {r.id: r for r in results}
    lines: list[dict[str, Any]] = []
    worlds = list(variants(evidence))
    for check in asked:
        own = said.get(check.id)
        if check.id not in GATES or own is None or own.status not in ("pass", "fail", "inconclusive"):
            continue
        before = str(own.details.get("without_control", own.status))
        for name, world in worlds:
            if world.method != evidence.method and check.id not in METHOD_GATES:
                continue
            other = check.answer(world)
            lines.append({
                "gate": check.id, "variant": name, "status": other.status, "estimate": other.estimate,
                "interval": other.interval, "no_interval": no_interval(other, world), "flips": other.status != before,
            })  # fmt: skip
    return lines


def no_interval(result: GateResult, evidence: Evidence) -> str:
    """From what no interval of an estimate could be made: ``one block``, ``2 prompts``. Empty where there is one."""
    if result.interval is not None or result.estimate is None:
        return ""
    if evidence.method == Evidence.method and int((evidence.plan.get("schedule") or {}).get("blocks") or 0) < 2:
        return "one block"
    lines = result.per_stratum or result.details.get("by_prompt_tokens") or ()
    n = next((int(line["n"]) for line in lines if line.get("estimate") == result.estimate), result.n)
    return counted(n, "prompt")
