"""What a record says against what the interpreter derived: tokens first, then the account of them, then the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .interpreter import Interpreter, Step
from .trace import Trace


@dataclass(frozen=True)
class Mismatch:
    """The first thing in one request that cannot have happened as recorded."""

    request_id: str
    position: int
    """Emitted tokens before it."""
    round: int
    what: str
    recorded: Any
    derived: Any
    margin: float | None = None

    def body(self) -> dict[str, Any]:
        tokens = {}
        if self.what == "token":
            tokens = {"arm_token": self.recorded, "champion_token": self.derived}
        reason = f"{self.what}: recorded {self.recorded}, derived {self.derived}"
        return {
            "request_id": self.request_id,
            "position": self.position,
            "round": self.round,
            "reason": reason,
            "margin": self.margin,
            **tokens,
        }


def differences(trace: Trace, number: int, step: Step) -> Mismatch | None:
    """The first thing round ``number`` says that was not so: tokens first, then the account of them."""
    row, private = trace.rounds[number], trace.steps[number]
    at = step.context_tokens - len(trace.prompt)

    def mismatch(what: str, recorded: Any, derived: Any, position: int = at) -> Mismatch:
        margin = None if step.margin != step.margin else step.margin
        return Mismatch(trace.request_id, position, number, what, recorded, derived, margin)

    emitted = list(private["tokens"])
    for i, token in enumerate(step.tokens):
        if i >= len(emitted) or emitted[i] != token:
            return mismatch("token", emitted[i] if i < len(emitted) else None, token, at + i)
    if len(emitted) > len(step.tokens):
        return mismatch("token", emitted[len(step.tokens)], None, at + len(step.tokens))
    said = {
        "proposals": list(private["proposals"]),
        "forced": list(private["forced"]),
        "context_tokens": row["context_tokens"],
        "requested": row["requested"],
        "proposed": row["proposed"],
        "tested": row["tested"],
        "accepted": row["accepted"],
        "emitted": row["emitted"],
        "outcome": row["outcome"],
        "censored": row["censored"],
        "forced_tokens": row["forced_tokens"],
        "probe": bool(row["probe"]),
        "round": row["round"],
    }
    derived = {
        "proposals": step.proposals,
        "forced": step.forced,
        "context_tokens": step.context_tokens,
        "requested": step.requested,
        "proposed": len(step.proposals),
        "tested": step.tested,
        "accepted": step.accepted,
        "emitted": len(step.tokens),
        "outcome": step.outcome,
        "censored": step.censored,
        "forced_tokens": len(step.forced),
        "probe": step.probe,
        "round": number,
    }
    return next((mismatch(k, said[k], derived[k]) for k in said if said[k] != derived[k]), None)


def end_differences(trace: Trace, interpreter: Interpreter) -> Mismatch | None:
    """The request's output, end and totals against the sum of what was derived."""
    number, at = len(trace.rounds), len(interpreter.new)
    said = {
        "rounds": (len(trace.rounds), trace.totals.get("rounds", len(trace.rounds))),
        "output": list(trace.output),
        "finish_reason": trace.finish_reason,
        "new_tokens": trace.totals.get("new_tokens"),
        "proposed in all": trace.totals.get("proposed"),
        "accepted in all": trace.totals.get("accepted"),
    }
    derived = {
        "rounds": (interpreter.rounds, interpreter.rounds),
        "output": interpreter.new,
        "finish_reason": interpreter.finish,
        "new_tokens": at,
        "proposed in all": interpreter.proposed,
        "accepted in all": interpreter.accepted,
    }
    for what, value in said.items():
        if value != derived[what]:
            return Mismatch(trace.request_id, at, number, what, value, derived[what])
    return None
