"""The words of one round: what is proposed, what a verification answers, what was decided; and the champion's own step.

Rows of a verification count from 0; row i is processed with the history prompt + emitted (pending included) +
proposals[:i] and predicts proposals[i]; the row after the last proposal predicts the bonus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .draws import Draws
from .masses import Masses

Outcome = Literal["accepted_all", "rejected", "stop", "length", "champion_step", "failed"]
"""How a round ended: bonus drawn; correction drawn; a stop token inside the block; the budget used up inside the
block; k = 0, one champion token; aborted."""


class RoundAborted(Exception):
    """The round emits nothing and the request ends. ``name`` is one of the named failures of a completion."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name


@dataclass
class Proposal:
    tokens: list[int] = field(default_factory=list)
    rows: list[Masses] | None = None
    """Row i is the distribution tokens[i] was really drawn from; None: deterministic, one-hot at each token."""
    entropy: tuple[float, ...] = ()
    """Of each row, nats; empty for deterministic proposers."""
    numeric: bool = False
    """The draft met NaN, Inf or a row without a valid token and stopped there; the tokens already drawn stay."""


class Verification(Protocol):
    """The champion over one block. Rows are asked for in order and only up to the first rejection."""

    def verify(self, proposals: Sequence[int]) -> None:
        """The forward pass over pending + proposals. Raises RoundAborted (target_numeric)."""

    def masses(self, i: int) -> Masses:
        """Row i as q; valid until the next row is asked for. Raises RoundAborted (target_numeric, grammar_dead_end)."""

    def argmax(self, i: int) -> int:
        """The greedy choice of row i. Raises as `masses`."""


class Stops(Protocol):
    def ends(self, token: int) -> bool:
        """Take the next authoritative token; True when the answer ends with it."""


@dataclass
class Decision:
    emitted: list[int]
    """Authoritative tokens in order: accepted proposals, then the correction or the bonus."""
    accepted: int
    tested: int
    outcome: Outcome
    terminal: bool
    """The last emitted token ends the answer."""


def greedy_champion_step(champion: Verification, stops: Stops) -> Decision:
    """k = 0: the champion's argmax after the pending token."""
    champion.verify(())
    token = champion.argmax(0)
    return Decision([token], 0, 0, "champion_step", stops.ends(token))


def stochastic_champion_step(champion: Verification, stops: Stops, draws: Draws) -> Decision:
    """k = 0: a draw from the champion's row after the pending token."""
    champion.verify(())
    token = draws.categorical(champion.masses(0), "target_baseline", 0)
    return Decision([token], 0, 0, "champion_step", stops.ends(token))
