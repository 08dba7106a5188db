"""The three-way rule: pass, fail or inconclusive from one-sided limits, over one stratum or many (section 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..harness.wording import counted
from .holm import holm
from .intervals import FLOOR_PROMPTS, Estimate

Outcome = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Line:
    """One stratum (or "overall") inside a gate."""

    stratum: str
    status: Outcome
    estimate: float | None
    interval: tuple[float, float] | None
    n: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {
            "stratum": self.stratum,
            "status": self.status,
            "estimate": self.estimate,
            "interval": list(self.interval) if self.interval else None,
            "n": self.n,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Claim:
    """One estimate against one bound. ``show`` maps y to the unit shown, and may reverse it (exp(−y))."""

    name: str
    estimate: Estimate
    bound: float
    """In y."""
    below: bool = True
    """The claim is "y lies below the bound"; else above."""
    show: Callable[[float], float] = float
    blocked: str = ""
    """Why this one may not pass or fail, whatever its numbers."""
    may_not_pass: str = ""
    """Why this one may fail but not pass (too few prompts for a confirmatory GO)."""


def floor_problem(estimate: Estimate, floor: int = FLOOR_PROMPTS) -> str:
    """Below 12 prompts, or with one block, nothing is decided."""
    if estimate.n < floor:
        return f"{counted(estimate.n, 'prompt')}; an interval needs at least {floor}"
    if estimate.blocks < 2:
        return "one block; block effects cannot be seen"
    return "" if estimate.usable else "no usable estimate"


def decide(claims: Sequence[Claim], alpha: float) -> tuple[Outcome, list[Line]]:
    """Pass when every claim's limit lies beyond its bound at ``alpha``, uncorrected (intersection–union); fail when
    Holm over the claims rejects one in the opposite direction; else inconclusive. No claims: inconclusive."""
    p_true = {c.name: _p(c, for_claim=True) for c in claims}
    p_false = holm({c.name: _p(c, for_claim=False) for c in claims})
    lines = []
    for c in claims:
        numbers = c.estimate.usable
        limits = c.estimate.limits(alpha) if numbers else (math.nan, math.nan)
        told = numbers and (not c.blocked or c.estimate.tells(alpha))
        shown = sorted(c.show(x) for x in limits) if told else None
        status: Outcome = "inconclusive"
        if c.blocked:
            reason = c.blocked
        elif p_false[c.name] <= alpha:
            status, reason = "fail", "the opposite limit lies beyond the bound (Holm over strata)"
        elif p_true[c.name] <= alpha and not c.may_not_pass:
            status, reason = "pass", "the limit lies beyond the bound"
        elif p_true[c.name] <= alpha:
            reason = c.may_not_pass
        else:
            reason = "the interval reaches the bound"
        mean = c.show(c.estimate.mean) if math.isfinite(c.estimate.mean) else None
        lines.append(Line(c.name, status, mean, (shown[0], shown[1]) if shown else None, c.estimate.n, reason))
    if any(line.status == "fail" for line in lines):
        return "fail", lines
    if lines and all(line.status == "pass" for line in lines):
        return "pass", lines
    return "inconclusive", lines


def _p(claim: Claim, for_claim: bool) -> float:
    if claim.blocked:
        return 1.0
    estimate, below = claim.estimate, claim.below
    return estimate.p_below(claim.bound) if below == for_claim else estimate.p_above(claim.bound)


def worst(lines: Sequence[Line], status: str) -> str:
    """The strata of one status, for a reason: "code (0.97), chat (0.99)"."""
    hit = [x for x in lines if x.status == status]
    return ", ".join(f"{x.stratum} ({x.estimate:.3g})" if x.estimate is not None else x.stratum for x in hit)
