"""What a process keeps of its last request, so that the next one does not read again what both begin with.

Serving engines do so by default (vLLM's automatic prefix caching, llama.cpp's ``cache_prompt``). What is kept is what
would be computed again, bit for bit: keys, values and hidden states are functions of the token ids alone. How much of
it a request may use is declared, and the same in every arm: one that continues the last request's conversation, all
that both begin with; any other, at most the ``preamble``, what the chat template puts before the first words. Else a
prompt that is asked twice (as a warm-up, say) would find itself read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .engine.contract import Cache
from .proposer import Proposer


@dataclass
class Kept:
    """A request that has ended, with everything still open."""

    tokens: Sequence[int]
    """What the champion's cache holds."""
    cache: Cache
    proposer: Proposer | None

    def close(self) -> None:
        self.cache.close()
        if self.proposer is not None:
            self.proposer.close()


class PrefixCache:
    """One request deep; of one arm in one process."""

    def __init__(self, preamble: int) -> None:
        """``preamble``: tokens that a request which continues nothing may take over."""
        self.preamble = preamble
        self.last: Kept | None = None

    def give(self, kept: Kept) -> None:
        """Keep a request in place of the one before."""
        if self.last is not None:
            self.last.close()
        self.last = kept

    def take(self) -> Kept | None:
        """What is kept, to be closed by the caller."""
        kept, self.last = self.last, None
        return kept

    def usable(self, kept: Kept, prompt: Sequence[int], continues: bool) -> int:
        """Leading tokens of ``prompt`` (its last one, the first pending, excluded) that need not be read."""
        most = min(len(kept.tokens), len(prompt) - 1)
        if not continues:
            most = min(most, self.preamble)
        n = 0
        while n < most and kept.tokens[n] == prompt[n]:
            n += 1
        return n
