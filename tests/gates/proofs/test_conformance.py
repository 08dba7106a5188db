"""Conformance and causality pass on an honest engine and notice each way of breaking it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from draftgate.gates.proofs.conformance import check_causality, check_conformance
from draftgate.gates.proofs.finding import Finding
from draftgate.gates.proofs.toy import ToyCache, ToyEngine, ToyTransaction, tables

IDS = [[int(x) for x in np.random.default_rng(s).integers(0, 9, 20)] for s in range(3)]


def engine(kind: type[ToyEngine] = ToyEngine) -> ToyEngine:
    return kind(tables(9, 3)[0])


def test_an_honest_engine_passes_both() -> None:
    toy = engine()
    assert check_conformance(toy, IDS, others=[("again", engine)]).ok
    assert check_causality(toy, IDS).ok


class LengthDependent(ToyEngine):
    """Rounds differently when a call has several columns."""

    def verify_with_hidden(self, tx: ToyTransaction, tokens: Sequence[int], rows: Any = "all") -> Any:
        logits, hidden = super().verify_with_hidden(tx, tokens, rows)
        return (logits if len(tokens) == 1 else np.nextafter(logits, np.float32(9))), hidden


class KeepsTail(ToyEngine):
    """Rejected tokens stay reachable in the first layer."""

    def new_cache(self, capacity: int | None = None) -> ToyCache:
        class Cache(ToyCache):
            def truncate(self, length: int) -> None:
                del self.layers[-1][length:]

        return Cache(self.identity, capacity or self.context_limit)


class LooksAhead(ToyEngine):
    """Every row of a call sees the whole call."""

    def verify_with_hidden(self, tx: ToyTransaction, tokens: Sequence[int], rows: Any = "all") -> Any:
        logits, hidden = super().verify_with_hidden(tx, tokens, "all")
        logits[:] = logits[-1]
        return logits, hidden


@pytest.mark.parametrize("kind", [LengthDependent, KeepsTail, LooksAhead])
def test_conformance_notices(kind: type[ToyEngine]) -> None:
    finding = check_conformance(engine(kind), IDS)
    assert not finding.ok and finding.detail["first_difference"] is not None


def test_causality_notices_a_row_that_sees_its_future() -> None:
    assert not check_causality(engine(LooksAhead), IDS).ok


def test_conformance_names_the_engine_that_differs() -> None:
    finding = check_conformance(engine(), IDS, others=[("threads 2", lambda: ToyEngine(tables(9, 4)[0]))])
    assert finding.detail["first_difference"]["what"] == "threads 2"


def test_nothing_to_check_is_not_agreement() -> None:
    assert not check_conformance(engine(), [[1]]).ok
    assert not check_causality(engine(), []).ok
    with pytest.raises(ValueError):
        Finding("x", True, 0, "rows")
