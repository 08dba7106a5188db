"""What an arm is asked and what it answers: requests, rounds, completions. Types only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from .round import Outcome

FinishReason = Literal["stop", "stop_string", "length", "context", "cancelled", "error"]
Censored = Literal["none", "length", "context", "cancelled"]
"""Why the round proposed or tested fewer than it asked for, when that was exogenous; a stop is terminal instead."""


@dataclass(frozen=True)
class StopPolicy:
    token_ids: tuple[int, ...] = ()
    """Any of these ends the answer; it is the last token emitted."""
    strings: tuple[str, ...] = ()
    """The text ends before the first of these; found across tokens and rounds."""


@dataclass(frozen=True)
class Request:
    request_id: str
    prompt: tuple[int, ...]
    """Token ids, at least one. The last one is the first pending token."""
    max_new_tokens: int
    seed: int
    """Unsigned 64-bit; keys the draws together with prompt, block and arm (`arms/draws.py`)."""
    stop: StopPolicy = StopPolicy()
    stream: str = ""
    """Separates the draws of prompt, block and arm: every distinct stream is an independent family of draws."""
    continues: bool = False
    """The prompt continues the conversation of the request before it in this process (`arms/prefix_cache.py`)."""
    forced: tuple[int, ...] | None = None
    """Timing of stochastic plans: champion-alone decodes exactly these tokens instead of its own choice."""


@dataclass
class RoundRecord:
    """One round. Times in nanoseconds of a monotonic clock."""

    round: int
    context_tokens: int
    """Tokens before this round: prompt and emitted, pending included."""
    requested: int
    """k asked for by the policy."""
    proposed: int
    """Drawn and sent to verification."""
    tested: int
    """Proposals whose acceptance was decided (those after a rejection never are)."""
    accepted: int
    emitted: int
    """Tokens the user gets from this round, correction or bonus included."""
    outcome: Outcome
    censored: Censored = "none"
    draft_ns: int = 0
    """Proposing, catch-up included."""
    verify_ns: int = 0
    """The champion's forward pass."""
    sample_ns: int = 0
    """Processing rows, drawing, accepting, correcting."""
    rollback_ns: int = 0
    other_ns: int = 0
    total_ns: int = 0
    entropy: tuple[float, ...] = ()
    """Entropy of the draft's distribution at each proposed position, nats; empty for deterministic proposers."""
    forced: int = 0
    """Tokens appended because the grammar left exactly one; never counted as proposed or accepted."""
    probe: bool = False
    """Chosen by lot to ask for the largest k, whatever the policy would have asked."""


@dataclass
class Completion:
    tokens: list[int]
    """Emitted ids, stop token included; ids past a stop string are not here."""
    finish_reason: FinishReason
    rounds: list[RoundRecord]
    ttft_ns: int
    """From token ids ready to the first token emitted, prefills included."""
    total_ns: int
    """From token ids ready to the last token, prefills included, loads not."""
    prefill_ns: int = 0
    draft_prefill_ns: int = 0
    cached_tokens: int = 0
    """Tokens of the prompt that the prefix cache had."""
    finalise_ns: int = 0
    champion_calls: int = 0
    draft_calls: int = 0
    text: str | None = None
    failure: str | None = None
    """Named: target_numeric, residual_invariant, proposal_invariant, grammar_dead_end, …"""
    fallback: str | None = None
    """Why champion-alone took over before the first token; None when it did not."""
    counters: dict[str, int] = field(default_factory=dict)
    """draft_numeric, forced_tokens, …"""
    trace: list[dict[str, Any]] = field(default_factory=list)
    """Private, for the replay audit: per round its number, requested, proposals, deterministic, accepted, outcome,
    forced tokens, all emitted tokens, draft_numeric."""
    receipt: dict[str, Any] | None = None
    """Privacy-safe (`arms/receipt.py`)."""


OnTokens = Callable[[list[int]], None]
"""Called with the ids of each emission, in order, never twice for the same token."""


class Arm(Protocol):
    """Turns a request into tokens and a trace."""

    @property
    def name(self) -> str: ...

    @property
    def exactness(self) -> Literal["exact", "approximate"]: ...

    @property
    def residency(self) -> tuple[str, ...]:
        """Which models must be resident: ("champion",) or ("champion", "draft")."""

    def generate(self, request: Request, on_tokens: OnTokens | None = None) -> Completion: ...
