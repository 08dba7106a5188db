"""Lookup by a suffix automaton over prompt and output: the longest earlier match of any length, not of a few.

The automaton (Blumer et al., 1985) grows with the text in amortised constant work a token; beside it walks the state of
the longest suffix that also occurs earlier. Of several occurrences a recent one is followed: the newest end is written
back along at most `LINKS` suffix links, so it is a fixed function of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .draws import Draws
from .errors import ArmError
from .model_free import ModelFree
from .policies import LARGEST_K
from .prompt_lookup import copied
from .proposer import Hidden, Proposer
from .round import Proposal

LINKS = 32


class SuffixAutomaton:
    """Of the text taken in so far; `match` is the longest suffix of it that also ends earlier."""

    def __init__(self) -> None:
        self.next: list[dict[int, int]] = [{}]
        self.link = [-1]
        self.length = [0]
        self.end = [0]
        """Index just past a recent occurrence of the state's strings."""
        self.last = 0
        self.size = 0
        self._at = 0
        self.match = 0
        """Length of the longest suffix seen before."""
        self.follows = 0
        """Index of the token that followed that earlier occurrence."""

    def take(self, token: int) -> None:
        """The text grows by one token."""
        self._advance(token)
        self._extend(token)

    def _advance(self, token: int) -> None:
        at, match = self._at, self.match
        while at and token not in self.next[at]:
            at = self.link[at]
            match = self.length[at]
        if token in self.next[at]:
            at = self.next[at][token]
            match += 1
        self._at, self.match = at, match
        self.follows = self.end[at]

    def _extend(self, token: int) -> None:
        self.size += 1
        new = self._state({}, self.length[self.last] + 1, self.size)
        at = self.last
        while at != -1 and token not in self.next[at]:
            self.next[at][token] = new
            at = self.link[at]
        if at == -1:
            self.link[new] = 0
        else:
            target = self.next[at][token]
            if self.length[at] + 1 == self.length[target]:
                self.link[new] = target
            else:
                self.link[new] = self._split(at, token, target)
        self.last = new
        self._mark_recent(self.link[new])

    def _split(self, at: int, token: int, target: int) -> int:
        clone = self._state(dict(self.next[target]), self.length[at] + 1, self.end[target])
        self.link[clone] = self.link[target]
        while at != -1 and self.next[at].get(token) == target:
            self.next[at][token] = clone
            at = self.link[at]
        self.link[target] = clone
        if self._at == target and self.match <= self.length[clone]:
            self._at = clone
        return clone

    def _state(self, transitions: dict[int, int], length: int, end: int) -> int:
        self.next.append(transitions)
        self.link.append(-1)
        self.length.append(length)
        self.end.append(end)
        return len(self.next) - 1

    def _mark_recent(self, at: int) -> None:
        for _ in range(LINKS):
            if at <= 0:
                return
            self.end[at] = self.size
            at = self.link[at]


class SuffixLookup(ModelFree):
    """Proposer of one request."""

    def __init__(self, k: int, min_match: int, stop_ids: frozenset[int]) -> None:
        super().__init__(k, stop_ids)
        self.min_match = min_match
        self.automaton = SuffixAutomaton()

    def _take(self, context: Sequence[int]) -> None:
        for token in context[self.automaton.size :]:
            self.automaton.take(token)

    def prefill(self, prompt: Sequence[int]) -> None:
        self._take(prompt)

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        self._take(context)
        if self.automaton.match < self.min_match:
            return Proposal()
        return Proposal(copied(context, self.automaton.follows, k, self.stop_ids))

    def fingerprint(self) -> dict[str, object]:
        automaton = self.automaton
        return {"automaton": (automaton.size, len(automaton.next), automaton.match, automaton.follows)}

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        fresh = SuffixLookup(self.maximum, self.min_match, self.stop_ids)
        fresh._take(context[: self.automaton.size])
        return fresh


def suffix_settings(spec: Mapping[str, Any]) -> tuple[int, int]:
    """(k, min_match) of an arm entry. Raises ArmError."""
    k, match = spec.get("k", 5), spec.get("min_match", 2)
    for name, value in (("k", k), ("min_match", match)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_K:
            raise ArmError(f"suffix_automaton.{name} must be a whole number in [1, {LARGEST_K}], not {value!r}")
    return k, match
