"""The champion within one request: its cache, its open transaction, and the processed rows of one verification."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns

import numpy as np

from .engine.contract import Cache, Engine, Logits, NonFinite, Rows, Transaction
from .grammar import GrammarError
from .masses import Masses, NoValidToken, RowError
from .processors import ChainState
from .proposer import Hidden
from .round import RoundAborted


class ChampionSide:
    """Implements `round.Verification`. The history in ``state`` includes the pending token and any forced ones.

    layers: as `Proposer.state_layers`.
    """

    def __init__(self, engine: Engine, cache: Cache, state: ChainState, layers: Sequence[int] | None = None) -> None:
        self.engine, self.cache, self.state, self.state_layers = engine, cache, state, layers
        self.calls = 0
        """Forward calls, prefill excluded."""
        self.forward_ns = 0
        self.tx: Transaction | None = None
        self.block: Sequence[int] = ()
        self.logits: Logits | None = None
        self.hidden: Hidden | None = None
        self.before = 0
        """Length of the history before the block: row i needs history[:before] + block[:i]."""
        self.lead = 0
        """Authoritative tokens consumed ahead of the block in this call; the last of them gives row 0."""
        self._row: Masses | None = None

    def feed(self, tokens: Sequence[int]) -> Hidden | None:
        """Prefill: consume and commit tokens; no logits are computed."""
        self.tx = self.cache.begin()
        _, hidden = self._forward(tokens, "none")
        self.tx.commit_prefix(len(tokens))
        self.tx = None
        return hidden

    def verify(self, proposals: Sequence[int]) -> None:
        self.block, self.before = proposals, len(self.state.history)
        lacking = self.state.history[self.cache.length :]
        self.lead = len(lacking)
        self.tx = self.cache.begin()
        started = perf_counter_ns()
        self.logits, self.hidden = self._forward([*lacking, *proposals], "all" if proposals else "last")
        self.forward_ns += perf_counter_ns() - started
        self.calls += 1

    def _forward(self, tokens: Sequence[int], rows: Rows) -> tuple[Logits, Hidden | None]:
        assert self.tx is not None
        try:
            if self.state_layers is not None:
                return self.engine.verify_with_hidden(self.tx, tokens, rows, self.state_layers)
            return self.engine.verify_linear(self.tx, tokens, rows), None
        except NonFinite as error:
            raise RoundAborted("target_numeric", str(error)) from error

    def masses(self, i: int) -> Masses:
        logits = self._at(i)
        if self._row is None:
            self._row = np.empty(logits.shape[0], np.uint64)
        try:
            return self.state.masses(logits, self._row)
        except (RowError, GrammarError) as error:
            raise self._failed(error) from error

    def argmax(self, i: int) -> int:
        logits = self._at(i)
        try:
            return self.state.argmax(logits)
        except (RowError, GrammarError) as error:
            raise self._failed(error) from error

    def _at(self, i: int) -> Logits:
        """Raw row i, with the state's history brought to what the row follows."""
        assert self.logits is not None
        reached = len(self.state.history) - self.before
        if reached > i:
            self.state.rollback(self.before + i)
        for token in self.block[reached:i]:
            self.state.push(token)
        first = self.logits.shape[0] - len(self.block) - 1  # rows ahead of it belong to forced tokens
        row: Logits = self.logits[first + i]
        return row

    def _failed(self, error: Exception) -> RoundAborted:
        dead = isinstance(error, GrammarError) or (isinstance(error, NoValidToken) and self.state.grammar is not None)
        return RoundAborted("grammar_dead_end" if dead else "target_numeric", str(error))

    def settle(self, emitted: Sequence[int], accepted: int) -> tuple[list[int], Hidden] | None:
        """Commit the lead and the accepted proposals, drop the rest, bring the history to what was emitted.

        Without a verification (only forced tokens, terminal) the tokens but the last are consumed now. Returns what the
        champion has consumed, with hidden states, when those are wanted.
        """
        if self.tx is None:
            lacking = self.state.history[self.cache.length : -1]
            fed = self.feed(lacking) if lacking else None
            return None if fed is None else (lacking, fed)
        tokens = [*self.state.history[self.cache.length : self.before], *self.block[:accepted]]
        self.tx.commit_prefix(self.lead + accepted)
        self.tx = None
        self.state.rollback(self.before + accepted)
        reached = len(self.state.history) - self.before
        for token in emitted[reached:]:
            self.state.push(token)
        return None if self.hidden is None else (tokens, self.hidden[: len(tokens)])

    def abandon(self) -> None:
        if self.tx is not None:
            self.tx.rollback()
            self.tx = None
