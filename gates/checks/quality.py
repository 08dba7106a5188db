"""Gate on quality: the strata's task checks come out no worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ...harness.wording import counted
from ..check import Check, frozen
from ..evidence import BASELINE, Evidence, cluster_column, warm
from ..intervals import estimate
from ..result import GateResult
from ..three_way import Claim, decide, floor_problem, worst
from .greedy import KEYS, compare

RETIMED = (
    "champion-alone only re-timed the candidate's sampled answers, so it has no scores of its own to compare with; "
    "exact-law speaks for them"
)


class Quality(Check):
    id = "quality"
    asks = "Do the task checks (valid JSON, exact extraction, code that runs, language and length) come out no worse?"
    defaults = frozen({"margin": 0.05})
    thresholds = ("margin",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        margin = float(self.params["margin"])
        table = quality_pairs(evidence)
        if isinstance(table, str):
            return self.result("not-measured", table, threshold=-margin, unit="0…1")
        means = {
            str(s): {"candidate": float(r["quality"].mean()), "champion": float(r["quality_champion"].mean())}
            for s, r in table.groupby("stratum", observed=True)
        }
        same = compare(evidence.requests, evidence.candidate)
        n = int(table[["stratum", "prompt_id"]].drop_duplicates().shape[0])
        details: dict[str, Any] = {"means": means}
        if evidence.greedy and not isinstance(same, str) and not same["differs"].any():
            worse = int((table["quality"] != table["quality_champion"]).sum())
            if worse:
                return self.result("inconclusive", f"{worse} equal answers were scored differently: a check is not "
                                   "deterministic", n=n, threshold=-margin, unit="0…1", details=details)  # fmt: skip
            scores = counted(len(table), "task score")
            return self.result("pass", f"every answer equals champion-alone's, and so do {scores}",
                               estimate=0.0, threshold=-margin, n=n, unit="0…1", details=details)  # fmt: skip
        found = estimate(differences(table))
        claims = [Claim(s, one, -margin, below=False, blocked=floor_problem(one)) for s, one in found.strata.items()]
        status, lines = decide(claims, evidence.alpha)
        least = min(lines, key=lambda x: x.estimate if x.estimate is not None else 0.0)
        reason = {
            "pass": f"no stratum's task score falls by more than {margin:g}",
            "fail": f"the task score falls by more than {margin:g} in {worst(lines, 'fail')}",
        }.get(status, "; ".join(f"{x.stratum}: {x.reason}" for x in lines if x.status == "inconclusive"))
        return self.result(status, reason, estimate=least.estimate, interval=least.interval, threshold=-margin, n=n,
                           unit="0…1", per_stratum=tuple(x.as_json() for x in lines), details=details)  # fmt: skip

    def unmeasurable(self, plan: Mapping[str, Any]) -> str:
        sampled = float((plan.get("decoding") or {}).get("temperature") or 0.0) > 0
        return RETIMED if sampled else ""

    def disturb(self, evidence: Evidence) -> Evidence:
        frame = evidence.requests.copy()
        mine = (frame["arm"] == evidence.candidate) & frame["quality"].notna()
        frame.loc[mine, "quality"] = -1.0
        return evidence.replace(requests=frame)


def quality_pairs(evidence: Evidence) -> pd.DataFrame | str:
    """Scores of the same request on candidate and champion-alone, each on its own text; a sentence when there are
    none."""
    frame = evidence.requests
    if frame.empty or "quality" not in frame or frame["quality"].notna().sum() == 0:
        return "no prompt has a task check"
    rows = warm(frame)
    base = rows[(rows["arm"] == BASELINE).to_numpy()]
    if "forced" in base:
        base = base[~base["forced"].to_numpy(bool)]
    if base.empty:
        return RETIMED
    family = ["family_id"] if "family_id" in rows else []
    mine = rows[(rows["arm"] == evidence.candidate).to_numpy()][[*KEYS, *family, "quality"]]
    table = mine.merge(base[[*KEYS, "quality"]], on=KEYS, suffixes=("", "_champion")).dropna(
        subset=["quality", "quality_champion"]
    )
    return table if len(table) else "no request was scored on both arms"


def differences(table: pd.DataFrame) -> dict[str, np.ndarray[Any, Any]]:
    """Candidate minus champion-alone by stratum [clusters, blocks]."""
    cluster = cluster_column(table)
    work = table.assign(difference=table["quality"] - table["quality_champion"])
    return {
        str(s): rows.pivot_table(index=cluster, columns="block", values="difference", aggfunc="mean").to_numpy(float)
        for s, rows in work.groupby("stratum", observed=True)
    }
