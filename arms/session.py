"""A request's life: prefill, rounds, emission, stops, cancellation, failure. Knows no particular way of proposing.

Invariant between rounds: ``cache.length == len(history) - 1``, the last token of the history being the pending one
(after a terminal block the last emitted token may have been consumed as well). A token reaches the user once, after the
champion's cache is committed; nothing that was reported is ever taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from .champion_side import ChampionSide
from .draws import Draws, PhiloxDraws
from .engine.contract import Engine, EngineError
from .errors import ArmError
from .forced import before_forced, take_forced
from .masses import RowError
from .prefix_cache import Kept, PrefixCache
from .processors import ProcessorChain
from .proposer import Proposer
from .request import Completion, FinishReason, OnTokens, Request, RoundRecord
from .round import Decision, Proposal, RoundAborted
from .stops import StopWatcher, TextDecoder

CHUNK = 256
"""Prompt tokens per prefill call."""


class Cancellation:
    """Cancels a request from another thread or from a callback: results of an older epoch are never emitted."""

    def __init__(self) -> None:
        self.epoch = 0

    def cancel(self) -> None:
        self.epoch += 1


class Rounds(Protocol):
    """How a session decides one round; supplied by the arm."""

    def __call__(self, session: Session, proposal: Proposal, draws: Draws, remaining: int) -> Decision: ...


DrawsOf = Callable[[int, str, int], Draws]
"""(seed, stream, round) -> the chance of that round."""


@dataclass(frozen=True)
class Champion:
    """The authoritative side: an engine, its compiled processors, and how its text is read."""

    engine: Engine
    chain: ProcessorChain
    decoder: Callable[[], TextDecoder] | None = None
    prefix_cache: PrefixCache | None = None
    """None: nothing outlives a request."""

    def capacity(self, request: Request) -> int:
        """The same in every arm, so that every arm ends at the same token."""
        return min(self.engine.context_limit, len(request.prompt) + request.max_new_tokens)


class Session:
    """One request on one arm. `run` is the whole life; `prefill` and `step` are its parts, for proofs."""

    def __init__(
        self,
        champion: Champion,
        request: Request,
        rounds: Rounds,
        proposer: Proposer | None = None,
        draws: DrawsOf = PhiloxDraws,
        cancellation: Cancellation | None = None,
        probe_rate: float = 0.0,
        slowdown: float = 0.0,
    ) -> None:
        """Raises ArmError when the prompt is empty, holds a token outside the vocabulary, or leaves no room."""
        check_request(champion.engine, request)
        self.champion, self.request, self.rounds, self.proposer = champion, request, rounds, proposer
        self.draws_of, self.probe_rate, self.slowdown = draws, probe_rate, slowdown
        self.cancellation = cancellation or Cancellation()
        self.epoch = self.cancellation.epoch
        self.capacity = champion.capacity(request)
        self.cache = champion.engine.new_cache(max(self.capacity, 1))
        self.state = champion.chain.open(request.prompt)
        self.side = ChampionSide(
            champion.engine, self.cache, self.state, None if proposer is None else proposer.state_layers
        )
        self.stops = StopWatcher(request.stop, champion.decoder)
        self.emitted: list[int] = []
        self.records: list[RoundRecord] = []
        self.trace: list[dict[str, Any]] = []
        self.counters: dict[str, int] = {}
        self.finish: FinishReason | None = None
        self.failure: str | None = None
        self.prefill_ns = self.draft_prefill_ns = 0
        self.closed = False
        self.cached_tokens = 0
        """Of the prompt, not read because the prefix cache had them."""

    @property
    def context(self) -> list[int]:
        """Prompt and emitted tokens, pending last. Read it, do not change it."""
        return self.state.history

    @property
    def remaining(self) -> int:
        return self.request.max_new_tokens - len(self.emitted)

    # -- life --------------------------------------------------------------------------------------------------------

    def run(self, on_tokens: OnTokens | None = None) -> Completion:
        """From token ids to the last token. Named failures are in the completion; only user errors are raised."""
        start = last = perf_counter_ns()
        first: int | None = None
        try:
            self.prefill()
            while not self.finished():
                before = len(self.emitted)
                self.step()
                last = perf_counter_ns()
                if len(self.emitted) > before:
                    first = first if first is not None else last
                    if on_tokens is not None:
                        on_tokens(self.emitted[before:])
            if not self.records:
                last = perf_counter_ns()
        finally:
            self.close()
        return Completion(
            tokens=self.emitted,
            finish_reason=self.finish or "error",
            rounds=self.records,
            ttft_ns=(first if first is not None else last) - start,
            total_ns=last - start,
            prefill_ns=self.prefill_ns,
            draft_prefill_ns=self.draft_prefill_ns,
            cached_tokens=self.cached_tokens,
            champion_calls=self.side.calls,
            draft_calls=self.proposer.calls if self.proposer is not None else 0,
            failure=self.failure,
            counters=self.counters,
            trace=self.trace,
        )

    def prefill(self) -> None:
        """Feed both models the prompt up to its last token, which becomes the first pending one."""
        started = perf_counter_ns()
        self._guarded(self._prefill_champion)
        self.prefill_ns = self._slowed(started)
        if self.proposer is not None and self.failure is None:
            started = perf_counter_ns()
            self._guarded(self._prefill_draft)
            self.draft_prefill_ns = perf_counter_ns() - started

    def _prefill_champion(self) -> None:
        prompt = self.request.prompt
        self.cached_tokens = self._take_over()
        for begin in range(self.cached_tokens, len(prompt) - 1, CHUNK):
            self._fresh()
            tokens = prompt[begin : min(begin + CHUNK, len(prompt) - 1)]
            hidden = self.side.feed(tokens)
            if hidden is not None and self.proposer is not None:
                self.proposer.observe(tokens, hidden)

    def _take_over(self) -> int:
        """Copy what the prefix cache has of this prompt; tokens taken."""
        store = self.champion.prefix_cache
        kept = None if store is None else store.take()
        if store is None or kept is None:
            return 0
        try:
            n = store.usable(kept, self.request.prompt, self.request.continues)
            if n == 0 or (self.proposer is not None and not self.proposer.take_over(kept.proposer, n)):
                return 0
            self.cache.adopt(kept.cache, n)
            return n
        finally:
            kept.close()

    def _prefill_draft(self) -> None:
        assert self.proposer is not None
        try:
            self.proposer.prefill(self.request.prompt)
        except EngineError as error:
            raise RoundAborted("draft_failed", str(error)) from error

    def finished(self) -> bool:
        """Whether the request has ended; names the reason."""
        if self.finish is None:
            if self.cancellation.epoch != self.epoch:
                self.finish = "cancelled"
            elif self.remaining <= 0:
                self.finish = "length"
            elif len(self.context) > self.capacity:
                self.finish = "context"
        return self.finish is not None

    def step(self) -> RoundRecord:
        """One round. Afterwards either its tokens are emitted and every cache agrees, or the request has failed."""
        started = perf_counter_ns()
        record = RoundRecord(len(self.records), len(self.context), 0, 0, 0, 0, 0, "failed")
        self.records.append(record)
        self._guarded(lambda: self._round(record))
        spent = self._slowed(started)
        record.total_ns = spent
        record.other_ns = spent - record.draft_ns - record.verify_ns - record.sample_ns - record.rollback_ns
        return record

    # -- one round ---------------------------------------------------------------------------------------------------

    def _round(self, record: RoundRecord) -> None:
        forced = self._take_forced()
        terminal = bool(forced) and self.stops.reason is not None
        proposal, decision = Proposal(), None
        if not terminal and self.remaining > len(forced) and len(self.context) <= self.capacity:
            draws = self.draws_of(self.request.seed, self.request.stream, record.round)
            proposal = self._propose(record, draws, len(forced))
            began, verified = perf_counter_ns(), self.side.forward_ns
            decision = self.rounds(self, proposal, draws, self.remaining - len(forced))
            record.verify_ns = self.side.forward_ns - verified
            record.sample_ns = perf_counter_ns() - began - record.verify_ns
        self._fresh()
        began = perf_counter_ns()
        self._settle(record, proposal, decision or Decision([], 0, 0, "champion_step", terminal), forced)
        record.rollback_ns = perf_counter_ns() - began

    def _take_forced(self) -> list[int]:
        if self.state.grammar is None or self.request.forced is not None:
            return []
        return take_forced(self.state, self.stops, self.remaining, self.capacity)

    def _propose(self, record: RoundRecord, draws: Draws, forced: int) -> Proposal:
        proposer = self.proposer
        if proposer is None:
            return Proposal()
        record.probe = self._probe(record.round)
        record.requested = proposer.maximum if record.probe else proposer.requested()
        remaining, room = self.remaining - forced, self.capacity - len(self.context)
        k = min(record.requested, remaining, room)
        if k < 1:
            record.censored = "context" if k < record.requested else "none"
            return Proposal()
        began = perf_counter_ns()
        try:
            proposal = proposer.propose(self.context, k, None if self.champion.chain.greedy else draws)
        except (EngineError, RowError) as error:
            raise RoundAborted("draft_failed", str(error)) from error
        if proposal.rows is None and self.state.grammar is not None:
            proposal.tokens = before_forced(self.state, self.stops.ids, proposal.tokens)
        record.draft_ns = perf_counter_ns() - began
        record.proposed = len(proposal.tokens)
        record.entropy = proposal.entropy[: record.proposed]
        if k < record.requested and record.proposed == k:
            record.censored = "length" if k == remaining else "context"
        if proposal.numeric:
            self._count("draft_numeric")
        return proposal

    def _probe(self, round: int) -> bool:
        if not self.probe_rate:
            return False
        coin = PhiloxDraws(self.request.seed, self.request.stream, round).uniform(1 << 32, "policy", 0)
        return coin <= self.probe_rate * (1 << 32)

    def _settle(self, record: RoundRecord, proposal: Proposal, decision: Decision, forced: list[int]) -> None:
        """Commit what is authoritative, roll back the rest, emit."""
        kept = self.side.settle(decision.emitted, decision.accepted)
        emitted = forced + decision.emitted
        if self.proposer is not None:
            if kept is not None:
                self.proposer.observe(*kept)
            self.proposer.settle(self.context, record.proposed, decision.tested, decision.accepted)
        self.emitted += emitted
        record.tested, record.accepted, record.outcome = decision.tested, decision.accepted, decision.outcome
        record.emitted, record.forced = len(emitted), len(forced)
        if decision.outcome == "length":
            record.censored = "length"
        if forced:
            self._count("forced_tokens", len(forced))
        if decision.terminal:
            self.finish = self.stops.reason
        self.trace.append(
            {
                "round": record.round, "requested": record.requested, "proposals": list(proposal.tokens),
                "deterministic": proposal.rows is None, "accepted": decision.accepted, "outcome": decision.outcome,
                "forced": forced, "tokens": emitted, "draft_numeric": proposal.numeric,
            }
        )  # fmt: skip

    # -- failure, cancellation, time ---------------------------------------------------------------------------------

    def _fresh(self) -> None:
        if self.cancellation.epoch != self.epoch:
            raise _Stale

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a part of the request; whatever goes wrong, both transactions are rolled back and nothing is emitted."""
        mark = self.state.mark()
        try:
            work()
        except BaseException as error:
            self.side.abandon()
            self.state.rollback(mark)
            self.stops.rewind(self.emitted)
            if self.proposer is not None:
                self.proposer.abandon()
            if isinstance(error, _Stale):
                self.finish = "cancelled"
                if self.records and self.records[-1].outcome == "failed":
                    self.records[-1].censored = "cancelled"
            elif isinstance(error, RoundAborted | EngineError):
                self.failure = error.name if isinstance(error, RoundAborted) else "engine_failed"
                self.finish = "error"
                self._count(self.failure)
            else:
                raise

    def _slowed(self, started: int) -> int:
        """Time since ``started``, after a busy delay of the declared share (the slowed dummy arm)."""
        spent = perf_counter_ns() - started
        if self.slowdown:
            until = started + round(spent * (1 + self.slowdown))
            while perf_counter_ns() < until:
                pass
            spent = perf_counter_ns() - started
        return spent

    def _count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    # -- the fresh-state invariant -----------------------------------------------------------------------------------

    def state_fingerprint(self) -> dict[str, object]:
        """Everything the next round depends on: caches, histories, penalties, grammar, stops. Compare with a twin's."""
        return {
            "champion_cache": (self.cache.length, self.cache.fingerprint()),
            "processors": self.state.fingerprint(),
            "stops": self.stops.state(),
            "emitted": tuple(self.emitted),
            "proposer": self.proposer.fingerprint() if self.proposer is not None else {},
        }

    def twin(self) -> Session:
        """A fresh session fed the same authoritative tokens; its fingerprint must equal this one's. Close it."""
        alone = replace(self.champion, prefix_cache=None)  # it computes everything itself
        twin = Session(alone, self.request, self.rounds, None, self.draws_of, None, self.probe_rate)
        twin.side.state_layers = self.side.state_layers
        for token in self.emitted:
            twin.state.push(token)
            twin.stops.ends(token)
        twin.emitted = list(self.emitted)
        tokens = self.context[: self.cache.length]
        states = [twin.side.feed(tokens[begin : begin + CHUNK]) for begin in range(0, len(tokens), CHUNK)]
        known = [s for s in states if s is not None]
        hidden = np.concatenate(known) if known else None
        if self.proposer is not None:
            twin.proposer = self.proposer.twin(self.context, hidden)
        return twin

    def close(self) -> None:
        """The request is over. A whole one stays open in the prefix cache, where there is one."""
        if self.closed:
            return
        self.closed = True
        kept = Kept(self.context[: self.cache.length], self.cache, self.proposer)
        store = self.champion.prefix_cache
        if store is None or self.failure is not None:
            kept.close()
        else:
            store.give(kept)


class _Stale(Exception):
    """The request was cancelled while this part of it ran."""


def check_request(engine: Engine, request: Request) -> None:
    """Raises ArmError for a request no arm can serve."""
    prompt, limit = request.prompt, engine.context_limit
    if not prompt:
        raise ArmError(f"request {request.request_id}: the prompt has no token")
    if any(not 0 <= token < engine.vocabulary for token in prompt):
        raise ArmError(f"request {request.request_id}: the prompt holds a token outside the vocabulary")
    if len(prompt) > limit:
        raise ArmError(
            f"request {request.request_id}: the prompt has {len(prompt)} tokens, the context holds {limit}; shorten it"
        )
