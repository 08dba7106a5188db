"""A second model as the proposer: its own cache and processors, fed every authoritative token it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from .draws import Draws
from .engine.contract import Cache, Engine, Logits, NonFinite, Transaction
from .errors import ArmError
from .masses import TOTAL, Masses, RowError, widen
from .policies import Policy
from .processors import ProcessorChain
from .proposer import Hidden, Proposer
from .round import Proposal

CHUNK = 256


@dataclass(frozen=True)
class Truncation:
    """What a draft with a short context sees: everything while it fits, then the newest tokens, cut in strides.

    The first token it sees is a function of the context length and K alone. ``stop``: propose nothing once full.
    """

    kind: str
    capacity: int
    stride: int

    @classmethod
    def of(cls, spec: Mapping[str, Any] | None, context_limit: int) -> Truncation:
        """``{"kind": "tail" | "stop", "stride": n}``; stride defaults to a quarter of the draft's context."""
        spec = dict(spec or {"kind": "tail"})
        kind, stride = spec.pop("kind", None), spec.pop("stride", max(1, context_limit // 4))
        if kind not in ("tail", "stop") or spec:
            raise ArmError("a draft's truncation is {kind: tail | stop, stride: tokens}, and nothing else")
        if isinstance(stride, bool) or not isinstance(stride, int) or not 1 <= stride <= context_limit:
            raise ArmError(f"truncation.stride must be a whole number in [1, {context_limit}], not {stride!r}")
        return cls(str(kind), context_limit, stride)

    def start(self, context_tokens: int, largest_k: int) -> int | None:
        """Index of the first token the draft sees in a round with this context; None: it proposes nothing."""
        over = context_tokens + largest_k - self.capacity
        if over <= 0:
            return 0
        start = -(-over // self.stride) * self.stride
        return None if self.kind == "stop" or start >= context_tokens else start


class NeuralDraft:
    """Proposer of one request. At temperature 0 it proposes its argmax, as a deterministic proposer."""

    state_layers: Sequence[int] | None = None

    def __init__(
        self,
        engine: Engine,
        chain: ProcessorChain,
        policy: Policy,
        truncation: Truncation,
        prompt: Sequence[int],
        stop_ids: frozenset[int],
        longest: int,
        output_ids: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """``longest``: most tokens the request can reach. ``output_ids``: the token of each logit, of a draft whose
        output vocabulary is reduced; the others have p = 0."""
        self.engine, self.chain, self.policy, self.truncation = engine, chain, policy, truncation
        self.stop_ids, self.longest, self.output_ids = stop_ids, longest, output_ids
        self.maximum = policy.maximum
        self.course = policy.open(len(prompt), longest - len(prompt))
        self.calls = self.forward_ns = 0
        self.state = chain.open(prompt)
        self.start = truncation.start(len(prompt), self.maximum) or 0
        self.cache: Cache = self._new_cache()
        self.tx: Transaction | None = None
        self.broken = False
        """Authoritative text gave NaN or Inf without any row being asked for: nothing is proposed in this request."""
        self.fed = 0
        """Authoritative tokens of the open transaction, ahead of the proposals."""
        self._rows: list[Masses] = []
        self._short: Masses | None = None
        """The last row at the draft's own width, where rows are narrow."""
        self._written: list[npt.NDArray[np.int64]] = []
        self._kept: list[int] = []
        """Of each buffer of `_rows`, the tokens that have mass in it, and how many, where rows are narrow."""
        self._full: npt.NDArray[np.float32] | None = None

    @cached_property
    def narrow(self) -> bool:
        """Rows can be processed at the draft's own width: only its tokens matter, they are in order, none is edited."""
        ids = self.output_ids
        return ids is not None and self.chain.plain and bool((ids[1:] > ids[:-1]).all())

    def _new_cache(self) -> Cache:
        return self.engine.new_cache(max(1, min(self.truncation.capacity, self.longest + self.maximum)))

    # -- a request ---------------------------------------------------------------------------------------------------

    def prefill(self, prompt: Sequence[int]) -> None:
        if self.course.declined or self.truncation.start(len(prompt), self.maximum) is None:
            return
        try:
            self._feed(prompt[self.start + self.cache.length : -1])
        except NonFinite:
            self.broken = True

    def take_over(self, previous: Proposer | None, n: int) -> bool:
        if isinstance(previous, NeuralDraft) and not (self.course.declined or previous.broken):
            if self.start == previous.start == 0:
                self.cache.adopt(previous.cache, min(n, previous.cache.length, self.cache.capacity))
        return True

    def _feed(self, tokens: Sequence[int]) -> None:
        for begin in range(0, len(tokens), CHUNK):
            tx = self.cache.begin()
            try:
                self.engine.verify_linear(tx, tokens[begin : begin + CHUNK], "none")
            except BaseException:
                tx.rollback()
                raise
            tx.commit_prefix(len(tokens[begin : begin + CHUNK]))

    def requested(self) -> int:
        return self.course.requested()

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        start = self.truncation.start(len(context), self.maximum)
        if start is None or self.course.declined:
            return Proposal()
        try:
            feed = [] if self.broken else self._caught_up(context, start)
        except NonFinite:
            self.broken = True
        if self.broken:
            return Proposal(numeric=True)
        proposal = Proposal(rows=None if draws is None else [])
        entropy: list[float] = []
        mark = self._begin(context, len(feed))
        while len(proposal.tokens) < k:
            try:
                token, probability, top, bits = self._draw(feed, len(proposal.tokens), draws, proposal)
            except (NonFinite, RowError):
                proposal.numeric = True  # what was drawn stays and is verified: dropping it would not be exact
                self.abandon()
                break
            proposal.tokens.append(token)
            entropy.append(bits)
            self.state.push(token)
            if token in self.stop_ids or not self.course.go_on(len(proposal.tokens), probability, top, bits):
                break
            if self.state.grammar is not None and self.state.forced() is not None:
                break
            feed = [token]
        self.state.rollback(mark)
        proposal.entropy = tuple(entropy)
        return proposal

    def _caught_up(self, context: Sequence[int], start: int) -> list[int]:
        """Bring the cache to the window of this round; the tokens still to feed, the pending one last."""
        if start != self.start:
            self.cache.close()
            self.start, self.cache = start, self._new_cache()
        lacking = list(context[start + self.cache.length :])
        if len(lacking) > CHUNK:
            self._feed(lacking[:-1])
            lacking = lacking[-1:]
        return lacking

    def _begin(self, context: Sequence[int], lacking: int) -> int:
        self._follow(context)
        self.tx, self.fed = self.cache.begin(), lacking
        return self.state.mark()

    def _follow(self, context: Sequence[int]) -> None:
        for token in context[len(self.state.history) :]:
            self.state.push(token)

    def _draw(
        self, feed: list[int], i: int, draws: Draws | None, proposal: Proposal
    ) -> tuple[int, float, float, float]:
        """(token, its probability, the row's largest probability, the row's entropy); keeps the row."""
        logits = self._forward(feed)
        if draws is None:
            token, entropy, top = self._peak(logits)
            return token, top, top, entropy
        ids, row = self.output_ids if self.narrow else None, self._buffer(i)
        if ids is None:
            drawn = self.state.masses(self._spread(logits), row, entropy=True)
            largest = int(drawn.max()) if self.course.needs_peak else 0
        else:
            drawn, largest = self._masses_short(logits, ids, i)
        at = draws.categorical(drawn, "draft_sample", i)
        assert proposal.rows is not None
        proposal.rows.append(row)
        token = at if ids is None else int(ids[at])
        return token, int(drawn[at]) / TOTAL, largest / TOTAL, self.state.entropy

    def _masses_short(self, logits: npt.NDArray[np.float32], ids: npt.NDArray[np.int64], i: int) -> tuple[Masses, int]:
        """The row at the draft's own width, written into buffer i at its tokens; and its largest mass.

        With ids in order and nothing edited, the law of the short row is that of the long one without its zeros, and
        the same number draws the same token from either.
        """
        if self._short is None:
            self._short = np.empty(len(ids), np.uint64)
        short = self.state.masses(logits, self._short, entropy=True)
        self._kept[i], largest = widen(short, ids, self._rows[i], self._written[i], self._kept[i])
        return short, largest

    def _forward(self, feed: list[int]) -> npt.NDArray[np.float32]:
        assert self.tx is not None
        started = perf_counter_ns()
        logits: Logits = self.engine.verify_linear(self.tx, feed, "last")
        self.forward_ns += perf_counter_ns() - started
        self.calls += 1
        row: npt.NDArray[np.float32] = logits[0]
        return row

    def _peak(self, logits: npt.NDArray[np.float32]) -> tuple[int, float, float]:
        if not self.narrow:
            return self.state.peak(self._spread(logits))
        at, entropy, top = self.state.peak(logits)
        assert self.output_ids is not None
        return int(self.output_ids[at]), entropy, top

    def _spread(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self.output_ids is None:
            return logits
        if self._full is None:
            self._full = np.full(self.chain.vocabulary, -np.inf, np.float32)
        self._full[self.output_ids] = logits
        return self._full

    def _buffer(self, i: int) -> Masses:
        while len(self._rows) <= i:
            self._rows.append(np.zeros(self.chain.vocabulary, np.uint64))
            self._written.append(
                np.empty(len(self.output_ids) if self.narrow and self.output_ids is not None else 0, np.int64)
            )
            self._kept.append(0)
        return self._rows[i]

    # -- after a round -----------------------------------------------------------------------------------------------

    def settle(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        if self.tx is not None:
            self.tx.commit_prefix(min(self.fed + accepted, self.tx.appended))
            self.tx = None
        self._follow(context)
        if proposed:
            self.course.observe(proposed, tested, accepted)

    def observe(self, tokens: Sequence[int], hidden: Hidden) -> None:
        return None

    def abandon(self) -> None:
        if self.tx is not None:
            self.tx.rollback()
            self.tx = None

    def fingerprint(self) -> dict[str, object]:
        return {
            "draft_cache": (self.start, self.cache.length, self.cache.fingerprint()),
            "draft_processors": self.state.fingerprint(),
        }

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        prompt = context[: self.state.prompt_tokens]
        fresh = NeuralDraft(
            self.engine, self.chain, self.policy, self.truncation, prompt, self.stop_ids, self.longest, self.output_ids
        )
        fresh.start = self.start
        fresh._feed(context[self.start : self.start + self.cache.length])
        fresh._follow(context)
        return fresh

    def close(self) -> None:
        self.abandon()
        self.cache.close()
