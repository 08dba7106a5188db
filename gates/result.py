"""What a gate answers, and how answers become a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

Status = Literal["pass", "fail", "inconclusive", "not-measured", "not-applicable", "invalid"]
Requirement = Literal["required", "if-available", "not-applicable"]
VerdictName = Literal["GO", "NO-GO", "INCONCLUSIVE", "INVALID"]

EXIT_CODES: Mapping[VerdictName, int] = {"GO": 0, "NO-GO": 3, "INCONCLUSIVE": 4, "INVALID": 5}


@dataclass(frozen=True)
class GateResult:
    id: str
    status: Status
    reason: str
    """One sentence a reviewer can read: what was found and why it decides."""
    estimate: float | None = None
    interval: tuple[float, float] | None = None
    """Two-sided 95 % unless the gate says otherwise; None where there is none."""
    threshold: float | None = None
    n: int = 0
    """Independent units behind the estimate (prompt clusters unless the gate says otherwise)."""
    requirement: Requirement = "required"
    unit: str = ""
    """Of estimate, interval and threshold: "ratio", "tokens", "bytes", "probability", …"""
    per_stratum: tuple[Mapping[str, Any], ...] = ()
    """One mapping a stratum: stratum, status, estimate, interval, n, reason."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON values only."""

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(f"gate {self.id}: unknown status {self.status!r}")
        numbers = [self.estimate, self.threshold, *(self.interval or ())]
        if self.status == "pass" and any(x is not None and math.isnan(x) for x in numbers):
            raise ValueError(f"gate {self.id}: a NaN cannot pass")


class Gate(Protocol):
    """From tables and plan to a result; never raises for bad data (that is `inconclusive` or `invalid`)."""

    id: str

    def evaluate(self, evidence: Any) -> GateResult: ...


@dataclass(frozen=True)
class Verdict:
    verdict: VerdictName
    plan_id: str
    gates: tuple[GateResult, ...]
    reasons: tuple[str, ...] = ()
    exploratory: bool = False
    """Results had been seen before an amendment: said wherever the verdict appears."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: decision_card, multiverse, self_check, not_shown, deviations, …"""
    evidence: Any = field(default=None, repr=False, compare=False)
    """What it was reached on (`gates.evidence.Evidence`), where that was read from a directory: a report of the same
    run need not read it again. No part of the verdict."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


def combine(results: Iterable[GateResult]) -> tuple[VerdictName, tuple[str, ...]]:
    """The verdict algebra (statistics.md section 4): invalid > fail > required-not-passed > GO; nothing is INVALID."""
    gates = tuple(results)
    if not gates or all(g.requirement == "not-applicable" for g in gates):
        return "INVALID", ("no gate was asked",)
    live = [g for g in gates if g.requirement != "not-applicable"]
    for status, name in (("invalid", "INVALID"), ("fail", "NO-GO")):
        hit = [f"{g.id}: {g.reason}" for g in live if g.status == status]
        if hit:
            return name, tuple(hit)  # type: ignore[return-value]
    if not any(g.requirement == "required" for g in live):
        return "INVALID", ("no required gate was asked",)
    open_ = [
        f"{g.id}: {g.reason}"
        for g in live
        if g.requirement == "required" and g.status not in ("pass", "not-applicable")
    ]
    return ("INCONCLUSIVE", tuple(open_)) if open_ else ("GO", ())
