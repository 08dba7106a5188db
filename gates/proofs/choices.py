"""Every outcome of a randomised procedure, with its exact probability.

`Choices` stands where the shipped code expects its draws. It does not draw: it follows a script of branch numbers,
opens the first branch where the script ends, and multiplies exact probabilities. `outcomes` runs a procedure again and
again, depth first, until no branch is left. Whatever the procedure is (a whole session, say), it must be a pure
function of its draws: build its state afresh inside the callable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


class TreeTooLarge(Exception):
    """More outcomes than the caller allowed for."""


@dataclass(frozen=True)
class Choice:
    """One decision on a path: what kind, where, which of how many branches."""

    kind: str
    """``categorical`` or ``accept``."""
    domain: str
    position: int
    value: int
    """The index drawn, or 1 for accepted and 0 for rejected."""
    branch: int
    branches: int
    probability: Fraction


@dataclass
class Choices:
    """Scripted draws: the `Draws` protocol over exact probabilities instead of a generator."""

    script: tuple[int, ...] = ()
    trail: list[Choice] = field(default_factory=list)
    probability: Fraction = Fraction(1)

    def categorical(self, masses: npt.NDArray[np.uint64], domain: str, position: int, total: int = 0) -> int:
        """An index of an integer row with its share of the row's own sum; a stated total is not believed."""
        weights = [(int(x), int(masses[x])) for x in np.flatnonzero(masses)]
        total = sum(w for _, w in weights)
        return self._choose("categorical", domain, position, [(x, Fraction(w, total)) for x, w in weights])

    def accept(self, q_y: int, p_y: int, position: int) -> bool:
        """Accept a proposal whose masses are ``q_y`` and ``p_y``: probability min(1, q/p)."""
        chance = min(Fraction(1), Fraction(int(q_y), int(p_y)))
        options = [(1, chance), (0, 1 - chance)]
        return bool(self._choose("accept", "accept_uniform", position, [o for o in options if o[1] > 0]))

    def _choose(self, kind: str, domain: str, position: int, options: list[tuple[int, Fraction]]) -> int:
        if not options:
            raise ZeroDivisionError(f"{domain} at {position}: a draw from a row without mass")
        depth = len(self.trail)
        branch = self.script[depth] if depth < len(self.script) else 0
        value, chance = options[branch]
        self.trail.append(Choice(kind, str(domain), position, value, branch, len(options), chance))
        self.probability *= chance
        return value

    def next_script(self) -> tuple[int, ...] | None:
        """The script of the next path, depth first; None after the last."""
        for depth in range(len(self.trail) - 1, -1, -1):
            if self.trail[depth].branch + 1 < self.trail[depth].branches:
                return (*(c.branch for c in self.trail[:depth]), self.trail[depth].branch + 1)
        return None


@dataclass(frozen=True)
class Outcome(Generic[T]):
    result: T
    probability: Fraction
    trail: tuple[Choice, ...]


def outcomes(
    procedure: Callable[[Any], T], limit: int = 1_000_000, kind: Callable[[tuple[int, ...]], Any] = Choices
) -> Iterator[Outcome[T]]:
    """Each path of ``procedure``; the probabilities sum to exactly 1. Raises TreeTooLarge past ``limit`` paths.

    ``procedure`` is called with fresh choices each time, made by ``kind`` from their script.
    """
    script: tuple[int, ...] | None = ()
    for _ in range(limit):
        if script is None:
            return
        choices = kind(script)
        result = procedure(choices)
        yield Outcome(result, choices.probability, tuple(choices.trail))
        script = choices.next_script()
    if script is not None:
        raise TreeTooLarge(f"more than {limit} outcomes")
