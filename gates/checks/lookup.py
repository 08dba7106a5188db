"""Gate against the free alternative: a neural draft has to be clearly faster than copying from the prompt."""

from __future__ import annotations

import math

from ..check import frozen
from ..evidence import Evidence
from ..pairs import paired
from ..result import GateResult
from ..three_way import Claim, decide
from .speed import OVERALL, WITHOUT_DRAFT, TimingCheck, overall_problem, speedup_of, weighted

LOOKUP = "prompt_lookup"


class BeatsLookup(TimingCheck):
    id = "beats-lookup"
    asks = "Is the neural draft worth its weights, compared with prompt lookup, which needs none?"
    defaults = frozen({"ratio": 1.05})
    thresholds = ("ratio",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        kinds = {str(a.get("name")): str(a.get("kind")) for a in evidence.arms()}
        if kinds.get(evidence.candidate) in WITHOUT_DRAFT:
            return self.result("not-applicable", "the candidate has no weights of its own to justify")
        rival = next((name for name, kind in kinds.items() if kind == LOOKUP), None)
        if rival is None:
            return self.result("not-measured", "the plan has no prompt-lookup arm to compare with")
        ratio, weights = float(self.params["ratio"]), evidence.weights()
        pairs = paired(evidence, evidence.candidate, rival, per_token=not evidence.greedy)
        found = weighted(pairs, weights, evidence.method)
        claim = Claim(OVERALL, found.overall, -math.log(ratio), show=speedup_of,
                      blocked=overall_problem(pairs, weights, found.overall))  # fmt: skip
        status, lines = decide([claim], evidence.alpha)
        line = lines[0]
        reason = {
            "pass": f"at least {ratio:g} times as fast as prompt lookup overall",
            "fail": f"less than {ratio:g} times as fast as prompt lookup overall",
        }.get(status, line.reason)
        return self.result(status, reason, estimate=line.estimate, interval=line.interval, threshold=ratio,
                           n=line.n, unit="ratio", details={"per_token": not evidence.greedy})  # fmt: skip
