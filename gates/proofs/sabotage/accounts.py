"""Faults in the account of a run, and faults that cost time and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....arms import session as session_module
from ....arms.neural_draft import NeuralDraft
from ....arms.request import RoundRecord
from ....arms.session import Session
from ...checks import liveness
from ..toy import ToyEngine, ToyTransaction
from ..toy_models import ToyModel
from .clock import CALL_NS, Clock
from .fault import Fault, Plant, engines, patch, wrap
from .patch import planted
from .world import GREEDY, IDLE, STOCHASTIC, World

ACCOUNTING, PERFORMANCE = "accounting", "performance"
BOTH = (GREEDY, STOCHASTIC)


def _written(change: Callable[[RoundRecord], None]) -> Plant:
    """Every round is written down wrong by ``change``; what it did is right."""

    def make(original: Any) -> Any:
        def step(self: Session) -> RoundRecord:
            record: RoundRecord = original(self)
            if record.outcome != "failed":
                change(record)
            return record

        return step

    return wrap(Session, "step", make)


def _matches_after_rejection(record: RoundRecord) -> None:
    if record.outcome == "rejected" and record.accepted + 1 < record.proposed:
        record.accepted += 1


def _bonus_accepted(record: RoundRecord) -> None:
    if record.outcome == "accepted_all":
        record.accepted += 1


def _untested_rejected(record: RoundRecord) -> None:
    record.tested = record.proposed


def _replayed_counted(record: RoundRecord) -> None:
    if record.round > 0 and record.proposed:
        record.proposed += 1


def _credit_past_stop(record: RoundRecord) -> None:
    if record.outcome == "stop":
        record.accepted = record.tested = record.proposed


def _share_without_guard(original: Any) -> Any:
    """The acceptance share divides by the number of proposals, whatever it is."""

    def share(evidence: Any) -> tuple[float, int]:
        mine = evidence.rounds[(evidence.rounds["arm"] == evidence.candidate).to_numpy()]
        proposed = mine["proposed"].sum()
        return float(mine["accepted"].sum() / proposed), int(proposed)

    return share


@contextmanager
def _dead(world: World) -> Iterator[World]:
    """The wrong file, say: a draft that never says what the champion would."""

    def change(champion: ToyModel, draft: ToyModel) -> None:
        draft.engine.table = -3 * champion.engine.table

    with engines(change)(world) as changed:
        yield changed


class _Tiring(ToyEngine):
    """Its logits turn into others' with every row since it was loaded."""

    calls = 0

    def row(self, cache: Any) -> Any:
        self.calls += 1
        share = min(0.9, self.calls / 1200)
        logits = super().row(cache)
        return (1 - share) * logits + share * logits[::-1]


@contextmanager
def _drifting(world: World) -> Iterator[World]:
    def rot(draft: ToyModel) -> ToyModel:
        fresh = draft.engine
        tired = _Tiring(fresh.table, fresh.context_limit, fresh.identity.model_sha256, fresh.identity.tokenizer_sha256)
        tired.role, tired.vocabulary = fresh.role, fresh.vocabulary
        return dataclasses.replace(draft, engine=tired)

    yield dataclasses.replace(world, rot=rot)


def _costly(original: Any) -> Any:
    """Each round pays for something fixed: an allocation, a synchronisation, a copy of the weights."""

    def settle(self: Session, *args: Any) -> None:
        original(self, *args)
        _pass_time(3 * CALL_NS["champion"])

    return settle


def _copying(original: Any) -> Any:
    """Ending a transaction copies every entry there is."""

    def commit(self: ToyTransaction, n: int) -> None:
        _pass_time(4_000 * self.cache.end)
        original(self, n)

    return commit


def _pass_time(ns: float) -> None:
    clock = getattr(vars(session_module)["perf_counter_ns"], "__self__", None)
    if isinstance(clock, Clock):  # only the simulated one can be told to go on
        clock.advance(ns)


@contextmanager
def _unguarded(world: World) -> Iterator[World]:
    with planted(liveness, "accepted_share", _share_without_guard(liveness.accepted_share)):
        yield world


FAULTS = [
    Fault("matches counted after the first rejection", ACCOUNTING, BOTH, _written(_matches_after_rejection)),
    Fault("bonus counted as accepted", ACCOUNTING, BOTH, _written(_bonus_accepted)),
    Fault("never-tested proposals counted as rejected", ACCOUNTING, BOTH, _written(_untested_rejected)),
    Fault("replayed proposals counted", ACCOUNTING, BOTH, _written(_replayed_counted)),
    Fault("credit past the stop", ACCOUNTING, BOTH, _written(_credit_past_stop)),
    Fault("zero drafts give 0/0", ACCOUNTING, (IDLE,), _unguarded),
    Fault("counter never incremented", ACCOUNTING, BOTH, patch(NeuralDraft, "_forward", ("self.calls += 1", "pass"))),
    Fault("dead draft", PERFORMANCE, BOTH, _dead),
    Fault("acceptance drifts down with uptime", PERFORMANCE, BOTH, _drifting),
    Fault("fixed cost per block", PERFORMANCE, BOTH, wrap(Session, "_settle", _costly)),
    Fault("rollback copies the whole cache", PERFORMANCE, BOTH, wrap(ToyTransaction, "commit_prefix", _copying)),
]
