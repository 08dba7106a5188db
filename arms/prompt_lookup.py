"""Prompt lookup: the continuation of the most recent earlier occurrence of the longest suffix n-gram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .draws import Draws
from .errors import ArmError
from .model_free import ModelFree
from .policies import LARGEST_K
from .proposer import Hidden, Proposer
from .round import Proposal


class NgramIndex:
    """Where each n-gram of a growing sequence ended last, its very end excluded; constant work per token."""

    def __init__(self, min_ngram: int, max_ngram: int) -> None:
        self.sizes = range(max_ngram, min_ngram - 1, -1)
        self.ends: dict[tuple[int, ...], int] = {}
        """n-gram -> index just past its most recent occurrence that something follows."""
        self.indexed = 0
        """n-grams that end before this index are in."""

    def extend(self, context: Sequence[int]) -> None:
        """Take in the n-grams that by now have a follower."""
        ends = self.ends
        for end in range(self.indexed + 1, len(context)):
            for n in self.sizes:
                if n <= end:
                    ends[tuple(context[end - n : end])] = end
        self.indexed = max(self.indexed, len(context) - 1)

    def longest(self, context: Sequence[int]) -> tuple[int, int]:
        """(n, index of the first token after the match) of the longest suffix seen before; (0, 0) when none was."""
        length = len(context)
        for n in self.sizes:
            if n <= length:
                end = self.ends.get(tuple(context[length - n :]))
                if end is not None:
                    return n, end
        return 0, 0


def copied(context: Sequence[int], begin: int, k: int, stop_ids: frozenset[int]) -> list[int]:
    """k tokens from ``begin`` on; past the end the copy goes on reading itself. Ends after a stop token."""
    period = len(context) - begin
    tokens: list[int] = []
    for i in range(k):
        token = context[begin + i] if i < period else tokens[i - period]
        tokens.append(token)
        if token in stop_ids:
            break
    return tokens


class PromptLookup(ModelFree):
    """Proposer of one request."""

    def __init__(self, k: int, min_ngram: int, max_ngram: int, stop_ids: frozenset[int]) -> None:
        super().__init__(k, stop_ids)
        self.index = NgramIndex(min_ngram, max_ngram)

    def prefill(self, prompt: Sequence[int]) -> None:
        self.index.extend(prompt)

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        self.index.extend(context)
        n, begin = self.index.longest(context)
        return Proposal(copied(context, begin, k, self.stop_ids) if n else [])

    def fingerprint(self) -> dict[str, object]:
        return {"ngrams": hash(frozenset(self.index.ends.items())), "indexed": self.index.indexed}

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        fresh = PromptLookup(self.maximum, self.index.sizes[-1], self.index.sizes[0], self.stop_ids)
        fresh.index.extend(context[: self.index.indexed + 1])
        return fresh


def lookup_settings(spec: Mapping[str, Any]) -> tuple[int, int, int]:
    """(k, min_ngram, max_ngram) of an arm entry. Raises ArmError."""
    k, low, high = spec.get("k", 5), spec.get("min_ngram", 2), spec.get("max_ngram", 4)
    for name, value in (("k", k), ("min_ngram", low), ("max_ngram", high)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_K:
            raise ArmError(f"prompt_lookup.{name} must be a whole number in [1, {LARGEST_K}], not {value!r}")
    if low > high:
        raise ArmError(f"prompt_lookup.min_ngram = {low} is above max_ngram = {high}")
    return k, low, high
