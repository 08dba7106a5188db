"""What every gate of ours shares: its parameters, what it needs, and how it is disturbed to see that it can fail."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from .evidence import Evidence
from .result import GateResult, Requirement, Status


def frozen(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters that nobody changes in passing."""
    return MappingProxyType(dict(values))


class Check:
    """One gate with its parameters. ``evaluate`` never raises for bad data."""

    id: ClassVar[str]
    asks: ClassVar[str]
    """The question in plain words."""
    defaults: ClassVar[Mapping[str, Any]] = frozen({})
    thresholds: ClassVar[tuple[str, ...]] = ()
    """Parameters a plan must state itself; the rest may be left out."""
    default_requirement: ClassVar[Requirement] = "required"
    timing: ClassVar[bool] = False
    """A timing gate counts only on the plan's hardware class, and only when the control held."""

    def __init__(self, params: Mapping[str, Any] | None = None, requirement: Requirement = "required") -> None:
        self.params = {**self.defaults, **(params or {})}
        self.requirement: Requirement = requirement

    def evaluate(self, evidence: Evidence) -> GateResult:
        raise NotImplementedError

    def answer(self, evidence: Evidence) -> GateResult:
        """`evaluate`; a gate that stumbles over its data has found nothing, least of all a pass."""
        try:
            return self.evaluate(evidence)
        except Exception as error:
            return self.result("invalid", f"could not be computed: {type(error).__name__}: {error}")

    def unmeasurable(self, plan: Mapping[str, Any]) -> str:
        """Why no run of this plan can measure what the gate asks; empty when one can. Said before anything is run."""
        return ""

    def disturb(self, evidence: Evidence) -> Evidence | None:
        """A copy of the evidence on which this gate must not pass; None where it has nothing of its own to disturb."""
        raise NotImplementedError

    def result(self, status: Status, reason: str, **fields: Any) -> GateResult:
        return GateResult(self.id, status, reason, requirement=self.requirement, **fields)
