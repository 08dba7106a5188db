"""Before a verdict is shown, every gate that passed runs once more on a copy of its evidence that must not pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .check import Check
from .evidence import Evidence
from .result import GateResult


def self_check(asked: Sequence[Check], evidence: Evidence, results: Sequence[GateResult]) -> list[dict[str, Any]]:
    """One line a passed gate: the status on the disturbed copy, and whether the gate held (did not pass)."""
    passed = {r.id for r in results if r.status == "pass"}
    lines = []
    for check in asked:
        if check.id not in passed:
            continue
        try:
            disturbed = check.disturb(evidence)
            status = "invalid" if disturbed is None else check.evaluate(disturbed).status
            reason = "" if disturbed is not None else "nothing could be disturbed"
        except Exception as error:  # a gate that breaks on disturbed data has at least not passed it
            status, reason = "invalid", f"{type(error).__name__}: {error}"
        lines.append({"gate": check.id, "status": status, "held": status != "pass", "reason": reason})
    return lines
