"""An arm that proposes: any proposer before the exact rounds, and the champion alone when it breaks at the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, Literal

from . import speculation
from .champion_alone import ChampionAlone, champion_rounds
from .draws import Draws, PhiloxDraws
from .finalise import finalised
from .proposer import Proposer
from .request import Completion, OnTokens, Request
from .round import Decision, Proposal
from .session import Cancellation, Champion, DrawsOf, Session

RECOVERABLE = ("draft_failed", "proposal_invariant", "residual_invariant")
"""Failures of the proposing side: before the first token the champion alone may take over, which is recorded."""


def speculative_rounds(session: Session, proposal: Proposal, draws: Draws, remaining: int) -> Decision:
    """The exact round, or the champion's own step when nothing was proposed."""
    if not proposal.tokens:
        return champion_rounds(session, proposal, draws, remaining)
    if session.champion.chain.greedy:
        return speculation.greedy_round(proposal, session.side, session.stops, remaining)
    return speculation.stochastic_round(proposal, session.side, draws, session.stops, remaining)


class SpeculativeArm:
    """Exact by construction: whatever is proposed, the champion's distribution decides."""

    exactness: Literal["exact", "approximate"] = "exact"

    def __init__(
        self,
        name: str,
        champion: Champion,
        open_proposer: Callable[[Request], Proposer],
        residency: tuple[str, ...],
        probe_rate: float = 0.0,
        identities: Mapping[str, Any] | None = None,
        draws: DrawsOf = PhiloxDraws,
    ) -> None:
        self.name, self.champion, self.open_proposer, self.residency = name, champion, open_proposer, residency
        self.probe_rate, self.identities, self.draws = probe_rate, dict(identities or {}), draws

    def open(self, request: Request, cancellation: Cancellation | None = None) -> Session:
        """A session that has not begun."""
        return Session(
            self.champion,
            request,
            speculative_rounds,
            self.open_proposer(request),
            self.draws,
            cancellation,
            self.probe_rate,
        )

    def generate(
        self, request: Request, on_tokens: OnTokens | None = None, cancellation: Cancellation | None = None
    ) -> Completion:
        started = perf_counter_ns()
        session = self.open(request, cancellation)
        completion = session.run(on_tokens)
        if completion.failure in RECOVERABLE and not completion.tokens:
            return self._fallback(request, on_tokens, cancellation, completion, started)
        return finalised(session, completion, self.identities)

    def _fallback(
        self,
        request: Request,
        on_tokens: OnTokens | None,
        cancellation: Cancellation | None,
        broken: Completion,
        started: int,
    ) -> Completion:
        """Champion-alone from the prompt; its times count from the start of the first attempt, whose rounds stay."""
        lost = perf_counter_ns() - started
        alone = ChampionAlone(self.name, self.champion, 0.0, self.identities, self.draws)
        completion = alone.generate(request, on_tokens, cancellation)
        completion.fallback = broken.failure
        for record in completion.rounds:
            record.round += len(broken.rounds)
        completion.rounds = broken.rounds + completion.rounds
        completion.ttft_ns += lost
        completion.total_ns += lost
        completion.prefill_ns += broken.prefill_ns
        completion.draft_prefill_ns = broken.draft_prefill_ns
        completion.champion_calls += broken.champion_calls
        completion.draft_calls = broken.draft_calls
        for name, count in broken.counters.items():
            completion.counters[name] = completion.counters.get(name, 0) + count
        return completion
