"""Lookup where it has a long match, else the draft: chosen before anything is drawn, from authoritative text alone."""

from __future__ import annotations

from collections.abc import Sequence

from .draws import Draws
from .proposer import Hidden, Proposer
from .round import Proposal
from .suffix_automaton import SuffixLookup


class Hybrid:
    """Proposer of one request. The draft catches up on the rounds it did not propose in."""

    def __init__(self, lookup: SuffixLookup, draft: Proposer) -> None:
        self.lookup, self.draft = lookup, draft
        self.state_layers = draft.state_layers
        self.copying = False
        """The next round belongs to the lookup."""

    @property
    def calls(self) -> int:
        return self.draft.calls

    @property
    def forward_ns(self) -> int:
        return self.draft.forward_ns

    @property
    def maximum(self) -> int:
        return max(self.lookup.maximum, self.draft.maximum)

    def _choose(self, context: Sequence[int]) -> None:
        self.lookup.prefill(context)
        self.copying = self.lookup.automaton.match >= self.lookup.min_match

    def prefill(self, prompt: Sequence[int]) -> None:
        self.draft.prefill(prompt)
        self._choose(prompt)

    def take_over(self, previous: Proposer | None, n: int) -> bool:
        return self.draft.take_over(previous.draft if isinstance(previous, Hybrid) else None, n)

    def requested(self) -> int:
        return self.lookup.maximum if self.copying else self.draft.requested()

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        self._choose(context)  # tokens a grammar has forced since the last round count too
        if self.copying:
            return self.lookup.propose(context, min(k, self.lookup.maximum), draws)
        return self.draft.propose(context, min(k, self.draft.maximum), draws)

    def settle(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        mine = (0, 0, 0) if self.copying else (proposed, tested, accepted)
        self.draft.settle(context, *mine)
        self._choose(context)

    def observe(self, tokens: Sequence[int], hidden: Hidden) -> None:
        self.draft.observe(tokens, hidden)

    def abandon(self) -> None:
        self.draft.abandon()

    def fingerprint(self) -> dict[str, object]:
        return {**self.draft.fingerprint(), **self.lookup.fingerprint(), "copying": self.copying}

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        lookup = self.lookup.twin(context)
        assert isinstance(lookup, SuffixLookup)
        fresh = Hybrid(lookup, self.draft.twin(context, hidden))
        fresh.copying = lookup.automaton.match >= lookup.min_match
        return fresh

    def close(self) -> None:
        self.draft.close()
