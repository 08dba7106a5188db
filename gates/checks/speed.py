"""Gates on end-to-end time: worth it where it was claimed, and never slower where it was not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arms.kinds import KINDS, WITH_DRAFT
from ...harness.wording import counted
from ..alternatives import alternative
from ..check import Check, frozen
from ..evidence import BASELINE, Evidence
from ..intervals import Estimate, Estimates, estimate
from ..pairs import Paired, paired
from ..result import GateResult
from ..three_way import Claim, Line, decide, floor_problem, worst

OVERALL = "overall"


def speedup_of(y: float) -> float:
    """Speed-up exp(−y) of a log time ratio; infinite speed-ups do not exist here (y is finite by construction)."""
    return math.exp(-y)


class TimingCheck(Check):
    timing = True
    column = "total_ns"

    def pairs(self, evidence: Evidence) -> Paired:
        return paired(evidence, evidence.candidate, BASELINE, self.column)

    def disturb(self, evidence: Evidence) -> Evidence:
        """The candidate, four times as slow."""
        return slowed(evidence, evidence.candidate, 4.0, self.column)

    def few(self, evidence: Evidence, name: str, n: int) -> str:
        """Why ``n`` prompts are too few for a confirmatory pass in this stratum; empty when they are not."""
        designated = name in evidence.designated()
        need = int(self.params["designated_prompts" if designated else "prompts"])
        what = "designated stratum" if designated else "stratum"
        return f"{counted(n, 'prompt')}; a pass needs {need} in a {what}" if n < need else ""


def slowed(evidence: Evidence, arm: str, factor: float, column: str = "total_ns") -> Evidence:
    """A copy in which one arm's times are multiplied."""
    if evidence.given:
        given = dict(evidence.given)
        for key, pairs in given.items():
            if key[0] == arm:
                given[key] = scaled(pairs, factor)
        return evidence.replace(given=given)
    frame = evidence.requests.copy()
    if column in frame:
        times = frame[column].astype(float)
        frame[column] = times.where(frame["arm"] != arm, times * factor)
    return evidence.replace(requests=frame)


def scaled(pairs: Paired, factor: float) -> Paired:
    return Paired(
        {k: y + math.log(factor) for k, y in pairs.values.items()},
        pairs.clusters,
        pairs.problems,
        {k: (a * factor, b) for k, (a, b) in pairs.raw.items()},
        pairs.sizes,
    )


def overall_problem(pairs: Paired, weights: Mapping[str, float], overall: Estimate) -> str:
    """Why there is no overall estimate with the plan's weights; empty when there is."""
    for name, weight in weights.items():
        if weight > 0 and pairs.problem(name):
            return f"stratum {name}: {pairs.problem(name)}"
    return floor_problem(overall)


def weighted(pairs: Paired, weights: Mapping[str, float], method: str = "section-3") -> Estimates:
    """Estimates whose overall part covers every weighted stratum, also one that has no pairs (NaN then)."""
    values = dict(pairs.values)
    for name, weight in weights.items():
        if weight > 0 and name not in values:
            values[name] = np.empty((0, 0))
    return estimate(values, weights) if method == "section-3" else alternative(values, weights, method)


def totals_claim(pairs: Paired, weights: Mapping[str, float]) -> Claim:
    """Ratio of weighted total times below 1: the mean of (candidate − champion) over the champion's mean, below 0."""
    base = sum(w * float(np.nanmean(pairs.raw[s][1])) for s, w in weights.items() if w > 0 and s in pairs.raw)
    difference = {s: (arm - champion) / base for s, (arm, champion) in pairs.raw.items()} if base > 0 else {}
    found = weighted(Paired(difference, pairs.clusters, pairs.problems), weights).overall
    return Claim("total time", found, 0.0, show=lambda d: 1 + d, blocked=overall_problem(pairs, weights, found))


class Speedup(TimingCheck):
    id = "speedup"
    asks = "Is the candidate enough faster, end to end, in every designated stratum and overall?"
    defaults = frozen({"minimum": 1.15, "prompts": 20, "designated_prompts": 40})
    thresholds = ("minimum",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        pairs, weights, designated = self.pairs(evidence), evidence.weights(), evidence.designated()
        bound = -math.log(float(self.params["minimum"]))
        found = weighted(pairs, weights, evidence.method)
        too_many = "more than four strata are designated" if len(designated) > 4 else ""
        claims = [
            Claim(
                name,
                found.strata.get(name, NOTHING),
                bound,
                show=speedup_of,
                blocked=pairs.problem(name) or floor_problem(found.strata[name]),
                may_not_pass=too_many or self.few(evidence, name, found.strata[name].n),
            )
            for name in designated
        ]
        thin = next(
            (
                few
                for s, w in weights.items()
                if w > 0 and s in found.strata and (few := self.few(evidence, s, found.strata[s].n))
            ),
            "",
        )
        claims.append(
            Claim(
                OVERALL,
                found.overall,
                bound,
                show=speedup_of,
                blocked=overall_problem(pairs, weights, found.overall),
                may_not_pass=thin,
            )
        )
        status, lines = decide(claims, evidence.alpha)
        total_status, total = decide([totals_claim(pairs, weights)], evidence.alpha)
        if status == "pass" and total_status != "pass":
            status = "inconclusive"
        if total_status == "fail":
            status = "fail"
        return self.result(
            status,
            _said(status, lines, total[0], float(self.params["minimum"])),
            **_fields(
                lines,
                float(self.params["minimum"]),
                sum(e.n for e in found.strata.values()),
                {"total_time": total[0].as_json(), "residency": residency(evidence)},
            ),
        )


NOTHING = Estimate(math.nan, math.nan, math.nan, 0.0, 0, 0)


WITHOUT_DRAFT = tuple(kind for kind in KINDS if kind not in WITH_DRAFT)
"""Kinds of arm that never load a draft; any other may."""


def residency(evidence: Evidence) -> str:
    """Which models the candidate needs resident: performance is judged within one such class, never pooled."""
    kinds = {str(a.get("name")): str(a.get("kind")) for a in evidence.arms()}
    needs_draft = evidence.plan.get("draft") is not None and kinds.get(evidence.candidate) not in WITHOUT_DRAFT
    return "champion+draft" if needs_draft else "champion"


def _fields(lines: list[Line], threshold: float, n: int, details: dict[str, Any]) -> dict[str, Any]:
    overall = next((x for x in lines if x.stratum == OVERALL), None)
    return {
        "estimate": overall.estimate if overall else None,
        "interval": overall.interval if overall else None,
        "threshold": threshold,
        "n": n,
        "unit": "ratio",
        "per_stratum": tuple(x.as_json() for x in lines),
        "details": details,
    }


def _said(status: str, lines: list[Line], total: Line, minimum: float) -> str:
    if status == "pass":
        return f"speed-up at least {minimum:g} overall and in every designated stratum; total time is lower"
    if status == "fail":
        slow = worst(lines, "fail")
        return (
            f"the speed-up is below {minimum:g} in {slow}"
            if slow
            else "the weighted total time is higher than champion-alone's"
        )
    open_ = [f"{x.stratum}: {x.reason}" for x in lines if x.status == "inconclusive"]
    if not open_:
        open_ = [f"{total.stratum}: {total.reason}"]
    return "; ".join(open_[:4])


class NoRegression(TimingCheck):
    id = "no-regression"
    asks = "Is the policy, as deployed, never slower than a small allowance, in any stratum?"
    defaults = frozen({"slowdown": 1.05, "prompts": 20, "designated_prompts": 40})
    thresholds = ("slowdown",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        pairs, weights = self.pairs(evidence), evidence.weights()
        slowdown = float(self.params["slowdown"])
        found = weighted(pairs, weights, evidence.method)
        names = sorted(set(weights) | set(pairs.values) | (set(pairs.problems) - {""}))
        claims = []
        for name in names:
            one = found.strata.get(name, NOTHING)
            claims.append(
                Claim(
                    name,
                    one,
                    math.log(slowdown),
                    show=speedup_of,
                    blocked=pairs.problem(name) or floor_problem(one),
                    may_not_pass=self.few(evidence, name, one.n),
                )
            )
        status, lines = decide(claims, evidence.alpha)
        least = min((x for x in lines if x.estimate is not None), key=lambda x: x.estimate or 0.0, default=None)
        if status == "pass":
            reason = f"no stratum is slower by more than {slowdown - 1:.0%}"
        elif status == "fail":
            reason = f"slower by more than {slowdown - 1:.0%} in {worst(lines, 'fail')}"
        else:
            reason = "; ".join(f"{x.stratum}: {x.reason}" for x in lines if x.status == "inconclusive") or "no stratum"
            reason = reason if len(reason) < 400 else reason[:400] + " …"
        return self.result(
            status,
            reason,
            estimate=least.estimate if least else None,
            interval=least.interval if least else None,
            threshold=1 / slowdown,
            n=sum(x.n for x in lines),
            unit="ratio",
            per_stratum=tuple(x.as_json() for x in lines),
            details={"residency": residency(evidence), "shown": "worst stratum"},
        )
