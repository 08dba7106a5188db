"""Gate on the tail: how many requests became clearly slower. A mean cannot see a rare regression."""

from __future__ import annotations

import math

import numpy as np

from ...harness.wording import counted
from ..check import frozen
from ..evidence import Evidence
from ..intervals import FLOOR_PROMPTS
from ..result import GateResult, Status
from ..weighted_share import weighted_share
from .speed import TimingCheck, residency


class Tail(TimingCheck):
    id = "tail"
    asks = "How many requests became more than a tenth slower?"
    defaults = frozen({"slower": 1.10, "share": 0.05})
    thresholds = ("slower", "share")

    def evaluate(self, evidence: Evidence) -> GateResult:
        pairs, weights = self.pairs(evidence), evidence.weights()
        slower, share = float(self.params["slower"]), float(self.params["share"])
        # A prompt is slower when its mean over blocks is: a single noisy block is timing, not a regression.
        hits = {
            s: (np.nanmean(y, axis=1) > math.log(slower)).astype(float)
            for s, y in pairs.values.items()
            if len(y) and weights.get(s, 0.0) > 0
        }
        missing = [s for s, w in weights.items() if w > 0 and s not in hits]
        if missing:
            return self.result("inconclusive", f"stratum {missing[0]}: {pairs.problem(missing[0])}", threshold=share)
        found = weighted_share(hits, weights, evidence.alpha)
        status: Status = "inconclusive"
        if found.n < FLOOR_PROMPTS:
            reason = f"{counted(found.n, 'prompt')}; at least {FLOOR_PROMPTS} are needed"
        elif found.upper <= share:
            status, reason = "pass", f"at most {found.upper:.1%} of requests are slower by more than {slower - 1:.0%}"
        elif found.lower > share:
            status, reason = "fail", f"at least {found.lower:.1%} of requests are slower by more than {slower - 1:.0%}"
        else:
            reason = (
                f"between {found.lower:.1%} and {found.upper:.1%} of requests are slower by more than {slower - 1:.0%}"
            )
        lines = [
            {"stratum": s, "status": status, "estimate": float(x.mean()), "interval": None, "n": len(x),
             "reason": f"{int(x.sum())} of {counted(len(x), 'prompt')}"}
            for s, x in hits.items()
        ]  # fmt: skip
        return self.result(
            status, reason, estimate=found.estimate, interval=(found.lower, found.upper), threshold=share, n=found.n,
            unit="share", per_stratum=tuple(lines), details={"slower": slower, "residency": residency(evidence)},
        )  # fmt: skip
