"""The champion by itself: what every other arm is compared with. Imports no speculation, which can be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from .draws import Draws, PhiloxDraws
from .finalise import finalised
from .request import Completion, OnTokens, Request
from .round import Decision, Proposal, RoundAborted, greedy_champion_step, stochastic_champion_step
from .session import Cancellation, Champion, DrawsOf, Session


def champion_rounds(session: Session, proposal: Proposal, draws: Draws, remaining: int) -> Decision:
    """One token from the champion."""
    if session.champion.chain.greedy:
        return greedy_champion_step(session.side, session.stops)
    return stochastic_champion_step(session.side, session.stops, draws)


def forced_rounds(session: Session, proposal: Proposal, draws: Draws, remaining: int) -> Decision:
    """One given token, with the champion's own row processed and drawn from at the usual cost."""
    assert session.request.forced is not None
    if len(session.emitted) >= len(session.request.forced):
        raise RoundAborted("forced_exhausted", "the forced tokens end before the request does")
    side = session.side
    side.verify(())
    if session.champion.chain.greedy:
        side.argmax(0)
    else:
        draws.categorical(side.masses(0), "target_baseline", 0)
    token = session.request.forced[len(session.emitted)]
    return Decision([token], 0, 0, "champion_step", session.stops.ends(token))


class ChampionAlone:
    """Arm of kind ``champion_alone``; with ``slowdown`` the dummy that is slower by a known share."""

    exactness: Literal["exact", "approximate"] = "exact"
    residency: tuple[str, ...] = ("champion",)

    def __init__(
        self,
        name: str,
        champion: Champion,
        slowdown: float = 0.0,
        identities: Mapping[str, Any] | None = None,
        draws: DrawsOf = PhiloxDraws,
    ) -> None:
        self.name, self.champion, self.slowdown = name, champion, slowdown
        self.identities, self.draws = dict(identities or {}), draws

    def open(self, request: Request, cancellation: Cancellation | None = None) -> Session:
        """A session that has not begun."""
        rounds = champion_rounds if request.forced is None else forced_rounds
        return Session(
            self.champion, request, rounds, draws=self.draws, cancellation=cancellation, slowdown=self.slowdown
        )

    def generate(
        self, request: Request, on_tokens: OnTokens | None = None, cancellation: Cancellation | None = None
    ) -> Completion:
        if request.forced is not None and len(request.forced) < request.max_new_tokens:
            request = replace(request, max_new_tokens=len(request.forced))
        session = self.open(request, cancellation)
        return finalised(session, session.run(on_tokens), self.identities)
