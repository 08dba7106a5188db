"""One engine's logits along a sequence, read for the auditor: one token a call, from a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arms.engine.contract import Engine
from .law import Logits


class Reading:
    """A committed part that only grows, and a tail that is tried and rolled back."""

    def __init__(self, engine: Engine, capacity: int, chunk: int = 64) -> None:
        """``chunk``: tokens a call while the prompt is taken in, all but its last token."""
        self.engine, self.chunk = engine, chunk
        self.cache = engine.new_cache(max(1, min(capacity, engine.context_limit)))
        self.known: list[int] = []
        self.tail: list[int] = []
        self.tx: Any = None
        self.base: Logits | None = None
        self.row: Logits | None = None

    def after(self, tokens: Sequence[int], tail: Sequence[int] = ()) -> Logits:
        """Raw logits [n] after ``tokens`` + ``tail``; ``tokens`` extend those of the calls before, tails come and go.

        Raises ValueError for a step back, and what the engine raises.
        """
        tokens, tail = list(tokens), list(tail)
        if self.tx is not None and (tokens != self.known or tail[: len(self.tail)] != self.tail):
            self._drop()
        if tokens[: len(self.known)] != self.known:
            raise ValueError("a reading only goes forwards")
        self._grow(tokens)
        for token in tail[len(self.tail) :]:
            if self.tx is None:
                self.tx = self.cache.begin()
            self.row = self.engine.verify_linear(self.tx, [token], "last")[0]
            self.tail.append(token)
        row = self.row if self.tail else self.base
        assert row is not None
        return row

    def _grow(self, tokens: list[int]) -> None:
        """Take in what is new; logits are computed after the last token only, as nobody asks for the others."""
        size = self.chunk if not self.known else 1
        lacking = tokens[len(self.known) :]
        for begin in range(0, len(lacking) - 1, size):
            self._commit(lacking[begin : min(begin + size, len(lacking) - 1)], "none")
        if lacking:
            self.base = self._commit(lacking[-1:], "last")[0]

    def _commit(self, part: list[int], rows: Any) -> Any:
        tx = self.cache.begin()
        try:
            out = self.engine.verify_linear(tx, part, rows)
        except BaseException:
            tx.rollback()
            raise
        tx.commit_prefix(len(part))
        self.known = [*self.known, *part]
        return out

    def _drop(self) -> None:
        self.tx.rollback()
        self.tx, self.tail, self.row = None, [], None

    def close(self) -> None:
        if self.tx is not None:
            self._drop()
        self.cache.close()
