"""The control: the clock sees nothing where there is nothing, and a planted slowdown as what it is.

A miss says that the measurement is not to be trusted, never that the draft is bad: inconclusive, not fail.
"""

from __future__ import annotations

import math

from ..check import frozen
from ..drift import drift, order_effects, same_model_arms
from ..evidence import BASELINE, Evidence
from ..intervals import Estimate
from ..pairs import paired
from ..result import GateResult
from ..three_way import Line
from .speed import TimingCheck, overall_problem, slowed, weighted


class Control(TimingCheck):
    id = "control"
    asks = "Does the clock see nothing where there is nothing, and a planted slowdown as what it is?"
    defaults = frozen({"aa": 0.01, "dummy": 0.01, "drift": 0.02})
    thresholds = ("aa", "dummy", "drift")

    def evaluate(self, evidence: Evidence) -> GateResult:
        again, dummy = same_model_arms(evidence.arms())
        aa, margin, most = (float(self.params[k]) for k in ("aa", "dummy", "drift"))
        lines = []
        if again is None:
            lines.append(Line("A/A", "inconclusive", None, None, 0, "the plan has no second champion-alone arm"))
        else:
            lines.append(self._within(evidence, "A/A", again, -aa, aa))
        if dummy is None:
            lines.append(Line("dummy", "inconclusive", None, None, 0, "the plan has no slowed dummy arm"))
        else:
            name, slowdown = dummy
            lines.append(self._within(evidence, "dummy", name, slowdown - margin, slowdown + margin))
        pairs, weights = paired(evidence, evidence.candidate), evidence.weights()
        moved = drift(pairs.values, weights)
        blocked = overall_problem(pairs, weights, weighted(pairs, weights).overall)
        lines.append(_line("drift", moved, -most, most, evidence.alpha, blocked))
        missed = [x for x in lines if x.status != "pass"]
        first = lines[0]
        reason = "; ".join(f"{x.stratum}: {x.reason}" for x in missed)
        effects = order_effects(evidence.requests)
        return self.result(
            "inconclusive" if missed else "pass",
            reason or "A/A, slowed dummy and drift lie within their margins", estimate=first.estimate,
            interval=first.interval, threshold=1 + aa, n=first.n, unit="ratio",
            details={"parts": [x.as_json() for x in lines], "order_effects": effects.to_dict("records")},
        )  # fmt: skip

    def _within(self, evidence: Evidence, what: str, arm: str, low: float, high: float) -> Line:
        pairs, weights = paired(evidence, arm, BASELINE), evidence.weights()
        found = weighted(pairs, weights).overall
        return _line(what, found, low, high, evidence.alpha, overall_problem(pairs, weights, found))

    def disturb(self, evidence: Evidence) -> Evidence:
        again, _ = same_model_arms(evidence.arms())
        return slowed(evidence, again or BASELINE, 1.5)


def _line(what: str, found: Estimate, low: float, high: float, alpha: float, blocked: str) -> Line:
    """Pass when the interval lies inside (1 + low, 1 + high), and excludes "no change" where that lies outside."""
    if blocked or not found.usable:
        why = blocked or "too few blocks and strata to tell drift from block effects"
        mean = math.exp(found.mean) if math.isfinite(found.mean) else None
        return Line(what, "inconclusive", mean, None, found.n, why)
    lower, upper = (math.exp(x) for x in found.limits(alpha))
    inside = lower >= 1 + low and upper <= 1 + high
    reason = (
        "within its margin" if inside else f"[{lower:.4f}, {upper:.4f}] is not inside [{1 + low:.3f}, {1 + high:.3f}]"
    )
    return Line(what, "pass" if inside else "inconclusive", math.exp(found.mean), (lower, upper), found.n, reason)
