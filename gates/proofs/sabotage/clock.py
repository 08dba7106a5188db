"""A clock that only the toys advance: times in the tables then have a known shape, and noise with a known seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from ....arms import session
from ..toy import ToyCache, ToyEngine, ToyTransaction
from .patch import planted

CALL_NS = {"champion": 1_000_000, "draft": 250_000}
TOKEN_NS = 30_000
ROLLBACK_NS = 5_000
NOISE = 0.03


class Clock:
    """Nanoseconds that pass when told to, each stretch noisy by a few per cent."""

    def __init__(self, seed: int) -> None:
        self.now, self.rng = 0, np.random.default_rng(seed)
        self.noise: list[float] = []

    def read(self) -> int:
        return self.now

    def advance(self, ns: float) -> None:
        if not self.noise:
            self.noise = np.exp(self.rng.normal(0, NOISE, 4096)).tolist()
        self.now += int(ns * self.noise.pop())


@contextmanager
def running(clock: Clock) -> Iterator[None]:
    """Every part of the arms reads ``clock``, and toy engines and caches advance it."""
    forward, commit, rollback = ToyEngine.verify_with_hidden, ToyTransaction.commit_prefix, ToyTransaction.rollback

    def timed(self: ToyEngine, tx: ToyTransaction, tokens: Any, rows: Any = "all") -> Any:
        clock.advance(CALL_NS[self.role] + TOKEN_NS * len(tokens))
        return forward(self, tx, tokens, rows)

    def timed_commit(self: ToyTransaction, n: int) -> None:
        clock.advance(ROLLBACK_NS)
        commit(self, n)

    def timed_rollback(self: ToyTransaction) -> None:
        clock.advance(ROLLBACK_NS)
        rollback(self)

    with ExitStack() as stack:
        stack.enter_context(planted(session, "perf_counter_ns", clock.read))
        stack.enter_context(planted(ToyEngine, "verify_with_hidden", timed))
        stack.enter_context(planted(ToyTransaction, "commit_prefix", timed_commit))
        stack.enter_context(planted(ToyTransaction, "rollback", timed_rollback))
        yield


__all__ = ["Clock", "ToyCache", "running"]
