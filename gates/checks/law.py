"""The gate on sampling: answers follow the champion's own law. Tests can only fail it; equality needs an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..check import Check, frozen
from ..distribution import pit_family, shift
from ..evidence import Evidence
from ..result import GateResult

REPLAYED = ("replay", "enumeration")
"""Audits without which nothing passes."""
ALSO = ("battery", "fresh_state", "monte_carlo", "pit")
"""Audits that fail the gate where they are there and not in order."""


class ExactLaw(Check):
    id = "exact-law"
    asks = "Do sampled answers follow the champion's own distribution?"
    defaults = frozen({"delta": 0.01})
    thresholds = ("delta",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        if evidence.greedy:
            return self.result("not-applicable", "the plan is greedy; exact-greedy speaks about it")
        delta = float(self.params["delta"])
        broken = [
            f"audit {name} is not in order: {_said(b)}" for name in (*REPLAYED, *ALSO) for b in _bad(evidence, name)
        ]
        broken += _content_fallbacks(evidence)
        if broken:
            return self.result(
                "fail", "; ".join(broken[:3]), threshold=delta, unit="probability", details={"broken": broken}
            )
        scores = evidence.scores
        mine = scores[(scores["arm"] == evidence.candidate).to_numpy()] if "arm" in scores else scores
        if mine.empty:
            return self.result(
                "inconclusive", "no token was scored against the champion's distribution", threshold=delta
            )
        terms = mine["in_excess"].to_numpy(float) - mine["excess_mass"].to_numpy(float)
        if not np.isfinite(terms).all():
            return self.result(
                "inconclusive", f"{int((~np.isfinite(terms)).sum())} scores are not numbers", threshold=delta
            )
        moved = shift(mine, evidence.alpha, delta)
        family = pit_family(mine, {"shift": moved.p_value})
        rejected = family.rejected(evidence.alpha)
        n = int(mine[["stratum", "prompt_id"]].drop_duplicates().shape[0]) if "prompt_id" in mine else len(mine)
        common: dict[str, Any] = {
            "estimate": moved.sequence.mean, "interval": (moved.sequence.lower, moved.sequence.upper), "threshold":
            delta,
            "n": n, "unit": "probability",
            "details": {
                "tokens": len(mine), "p_values": family.p_values, "adjusted": family.adjusted,
                "log_e": float(moved.evidence.log_e[-1]), "rejected_at": moved.evidence.rejected_at,
                "mean_tv": float(mine["tv"].mean()) if "tv" in mine else None,
            },
        }  # fmt: skip
        if rejected or moved.outside:
            what = ", ".join(rejected) or "the shift towards the draft"
            return self.result("fail", f"the answers do not follow the champion's law: {what}", **common)
        missing = [name for name in REPLAYED if not evidence.audits.get(name)]
        if missing:
            return self.result("inconclusive", f"no {' and no '.join(missing)} audit in the record", **common)
        if moved.inside:
            reason = f"replay and enumeration hold, and the shift lies inside ±{delta:.1%} over {len(mine)} tokens"
            return self.result("pass", reason, **common)
        return self.result("inconclusive", f"nothing speaks against exactness, but {len(mine)} tokens do not place the "
                           f"shift inside ±{delta:.1%}", **common)  # fmt: skip

    def disturb(self, evidence: Evidence) -> Evidence:
        scores = evidence.scores.copy()
        return evidence.replace(scores=scores.assign(in_excess=True, pit_ratio=scores["pit_ratio"] ** 3))


def _bad(evidence: Evidence, name: str) -> list[Any]:
    return [body for body in evidence.audits.get(name, ()) if not body.get("ok")]


def _said(body: Any) -> str:
    detail = body.get("detail") or {}
    return str(detail.get("reason") or detail.get("first") or f"{body.get('n', 0)} checked")


def _content_fallbacks(evidence: Evidence) -> list[str]:
    """A fallback or retry chosen because of content biases the law, like a dropped token."""
    frame = evidence.requests
    if frame.empty or "fallback" not in frame:
        return []
    mine = frame[(frame["arm"] == evidence.candidate).to_numpy()]
    hit = mine["fallback"].fillna("").astype(str).str.contains("content")
    return [f"{int(hit.sum())} requests fell back because of their content"] if hit.any() else []
