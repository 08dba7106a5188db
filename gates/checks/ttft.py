"""Gate on the time to first token, by prompt length: a second model reads the prompt, and the user waits for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..check import frozen
from ..costs import labels
from ..evidence import BASELINE, Evidence, cluster_column
from ..intervals import FLOOR_PROMPTS, estimate
from ..pairs import Paired, paired
from ..result import GateResult
from ..three_way import Claim, decide, floor_problem, worst
from .speed import TimingCheck, residency


class TimeToFirstToken(TimingCheck):
    id = "ttft"
    asks = "Does the first token come as soon as before, for short and for long prompts?"
    defaults = frozen({"ratio": 1.10, "edges": (256, 1024)})
    thresholds = ("ratio",)
    column = "ttft_ns"

    def pairs(self, evidence: Evidence) -> Paired:
        given = evidence.given.get((evidence.candidate, BASELINE, self.column))
        if given is not None:
            return given  # type: ignore[no-any-return]
        return paired(
            evidence, evidence.candidate, BASELINE, self.column, group=length_class(evidence, self.params["edges"])
        )

    def evaluate(self, evidence: Evidence) -> GateResult:
        ratio, pairs = float(self.params["ratio"]), self.pairs(evidence)
        found = estimate(pairs.values)
        claims = [
            Claim(name, one, math.log(ratio), show=math.exp, blocked=pairs.problem(name) or floor_problem(one))
            for name, one in found.strata.items()
        ]
        status, lines = decide(claims, evidence.alpha)
        problem = pairs.problems.get("") or next((f"{k}: {v}" for k, v in pairs.problems.items()), "")
        if problem and status == "pass":
            status = "inconclusive"
        if status == "pass":
            reason = f"the time to first token rises by at most {ratio - 1:.0%} in every class of prompt length"
        elif status == "fail":
            slow = worst(lines, "fail")
            reason = f"the time to first token rises by more than {ratio - 1:.0%} for prompts of {slow} tokens"
        else:
            reason = problem or "; ".join(f"{x.stratum} tokens: {x.reason}" for x in lines if x.status != "pass")
        high = max((x for x in lines if x.estimate is not None), key=lambda x: x.estimate or 0.0, default=None)
        return self.result(
            status, reason or "no prompt was timed", estimate=high.estimate if high else None,
            interval=high.interval if high else None, threshold=ratio, n=sum(x.n for x in lines), unit="ratio",
            details={"by_prompt_tokens": [x.as_json() for x in lines], "residency": residency(evidence),
                     "shown": "worst class"},
        )  # fmt: skip


def length_class(evidence: Evidence, edges: Sequence[float]) -> pd.Series[str]:
    """The class of prompt length of every request row. A class of fewer clusters than an interval needs joins its
    smaller neighbour: lengths are known at freeze, so nothing of the outcome is used."""
    frame = evidence.requests
    if "prompt_tokens" not in frame or frame.empty:
        return pd.Series("any", index=frame.index, dtype="object")
    edges = sorted(float(e) for e in edges)
    place = np.searchsorted(edges, frame["prompt_tokens"].to_numpy(float), side="right")
    mine = (frame["arm"] == evidence.candidate).to_numpy()
    family = frame["stratum"].astype(str) + "/" + frame[cluster_column(frame)].astype(str)
    clusters = [int(family[mine & (place == i)].nunique()) for i in range(len(edges) + 1)]
    while len(clusters) > 1 and min(clusters) < FLOOR_PROMPTS:
        small = int(np.argmin(clusters))
        beside = [i for i in (small - 1, small + 1) if 0 <= i < len(clusters)]
        left = min(small, min(beside, key=lambda i: clusters[i]))
        clusters[left : left + 2] = [clusters[left] + clusters[left + 1]]
        del edges[left]
        place = np.where(place > left, place - 1, place)
    names = labels([int(e) for e in edges]) if edges else ["any"]
    return pd.Series(np.array(names, object)[place], index=frame.index)
