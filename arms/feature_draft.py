"""The feature draft as a proposer: it drafts from the champion's own hidden states, and falls back on nothing else.

Place x of its cache needs the champion's state of token x and token x + 1. After a round the states of what the
champion has consumed come in through `observe`, and the next round begins by feeding them; what was fed on the
draft's own estimates is always rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import cast

import numpy as np
import numpy.typing as npt

from .draws import Draws
from .engine.contract import Engine
from .engine.feature import FeatureEngine
from .neural_draft import CHUNK, NeuralDraft, Truncation
from .policies import Policy
from .processors import ProcessorChain
from .proposer import Hidden, Proposer
from .round import Proposal


class FeatureDraft(NeuralDraft):
    """Proposer of one request; everything that is not about feeding is `NeuralDraft`'s."""

    def __init__(
        self,
        engine: FeatureEngine,
        chain: ProcessorChain,
        policy: Policy,
        prompt: Sequence[int],
        stop_ids: frozenset[int],
        longest: int,
    ) -> None:
        truncation = Truncation("stop", engine.context_limit, 1)
        ids = np.asarray(engine.output_ids, np.int64)
        super().__init__(cast(Engine, engine), chain, policy, truncation, prompt, stop_ids, longest, ids)
        self.drafting = engine
        self.state_layers = None if self.course.declined else engine.inner_layers
        self.states = engine.state_rows(longest + 1)
        """The champion's states by place."""
        self.seen = 0
        """Places of `states` filled."""
        self._estimate: Hidden | None = None

    def observe(self, tokens: Sequence[int], hidden: Hidden) -> None:
        self.states[self.seen : self.seen + len(hidden)] = hidden
        self.seen += len(hidden)

    def take_over(self, previous: Proposer | None, n: int) -> bool:
        if self.state_layers is None:
            return True
        if not isinstance(previous, FeatureDraft) or previous.seen < n:
            return False
        self.observe((), previous.states[:n])
        places = min(n - 1, previous.cache.length, self.cache.capacity)  # place n - 1 needs the token after it
        self.cache.adopt(previous.cache, places)
        return True

    def prefill(self, prompt: Sequence[int]) -> None:
        if not self.course.declined and self.truncation.start(len(prompt), self.maximum) is not None:
            self._feed_pairs(prompt, len(prompt) - 2)

    def _feed_pairs(self, context: Sequence[int], end: int) -> None:
        """Feed places up to ``end``, in chunks, for good."""
        while self.cache.length < end:
            begin = self.cache.length
            stop = min(begin + CHUNK, end)
            tx = self.cache.begin()
            try:
                self.drafting.draft(tx, self.states[begin:stop], context[begin + 1 : stop + 1], "none")  # type: ignore[arg-type]
            except BaseException:
                tx.rollback()
                raise
            tx.commit_prefix(stop - begin)

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        if len(context) < 2:
            return Proposal()  # there is no state yet to draft from
        return super().propose(context, k, draws)

    def _caught_up(self, context: Sequence[int], start: int) -> list[int]:
        """Tokens still to feed, each with the state before it; the pending one last."""
        self._estimate = None
        if len(context) - 1 - self.cache.length > CHUNK:
            self._feed_pairs(context, len(context) - 2)
        return list(context[self.cache.length + 1 :])

    def _forward(self, feed: list[int]) -> npt.NDArray[np.float32]:
        assert self.tx is not None
        begin = self.cache.length + self.tx.appended
        features = self.states[begin : begin + len(feed)] if self._estimate is None else self._estimate
        started = perf_counter_ns()
        logits, states = self.drafting.draft(self.tx, features, feed)  # type: ignore[arg-type]
        self.forward_ns += perf_counter_ns() - started
        self.calls += 1
        self._estimate = states[-1:]
        row: npt.NDArray[np.float32] = logits[0]
        return row

    def settle(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        if self.tx is not None:
            self.tx.commit_prefix(min(self.fed, self.tx.appended))  # only what was fed on true states stays
            self.tx = None
        super().settle(context, proposed, tested, accepted)

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        fresh = FeatureDraft(
            self.drafting, self.chain, self.policy, context[: self.state.prompt_tokens], self.stop_ids, self.longest
        )
        fresh.observe(context, self.states[: self.seen] if hidden is None else hidden)
        fresh._feed_pairs(context, self.cache.length)
        fresh._follow(context)
        return fresh
