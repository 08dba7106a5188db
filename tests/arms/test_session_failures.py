"""What a session does when something fails or is cancelled: bad numbers, a proposer that breaks, a stale epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draftgate.arms.round import RoundAborted
from draftgate.arms.session import Cancellation
from support.arms_kit import Kit, checked_run, table
from support.toy import hashed_logits

# -- numbers that are none --------------------------------------------------------------------------------------------


def poisoned(good: Any, when: Any, value: float = np.nan) -> Any:
    def logits(prefix: tuple[int, ...]) -> Any:
        row = good(prefix)
        return np.full_like(row, value) if when(prefix) else row

    return logits


@pytest.mark.parametrize("decoding", [{}, {"temperature": 1.0}])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [3, 4, 5])
def test_a_bad_draft_row_stops_proposing_and_what_was_drawn_is_verified(decoding: Any, value: float, at: int) -> None:
    same = hashed_logits(5, 5)
    kit = Kit(decoding, champion=same, draft=poisoned(same, lambda h: len(h) == at, value), stop_ids=())
    session = checked_run(kit.neural().open(kit.request((1, 2, 3), 6)))
    first = session.records[0]
    drawn = at - 3
    assert first.proposed == drawn and session.counters["draft_numeric"] >= 1 and session.failure is None
    assert first.outcome == ("champion_step" if drawn == 0 else "accepted_all")
    if not decoding:
        assert session.emitted == kit.alone().generate(kit.request((1, 2, 3), 6)).tokens


@pytest.mark.parametrize("decoding", [{}, {"temperature": 1.0}])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_bad_champion_row_aborts_the_round_and_emits_nothing_of_it(decoding: Any, value: float) -> None:
    same = hashed_logits(5, 6)
    kit = Kit(decoding, champion=poisoned(same, lambda h: len(h) == 8, value), draft=same, stop_ids=())
    seen: list[int] = []
    completion = kit.neural().generate(kit.request((1, 2, 3), 12), seen.extend)
    assert completion.failure == "target_numeric" and completion.finish_reason == "error"
    assert seen == completion.tokens and len(seen) == 4  # the first round's; nothing of the second
    assert completion.rounds[-1].outcome == "failed" and completion.rounds[-1].emitted == 0
    assert kit.alone().generate(kit.request((1, 2, 3), 12)).failure == "target_numeric"


def test_a_bad_row_while_prefilling_ends_the_request() -> None:
    kit = Kit(champion=poisoned(hashed_logits(5), lambda h: len(h) == 1))
    completion = kit.alone().generate(kit.request((1, 2, 3)))
    assert completion.failure == "target_numeric" and completion.tokens == []


# -- a proposer that breaks -------------------------------------------------------------------------------------------


class Breaking:
    """A proposer that raises in its n-th round."""

    def __init__(self, inner: Any, n: int, name: str) -> None:
        self.inner, self.n, self.name, self.rounds = inner, n, name, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(self, context: Any, k: int, draws: Any) -> Any:
        self.rounds += 1
        if self.rounds == self.n:
            raise RoundAborted(self.name)
        return self.inner.propose(context, k, draws)


@pytest.mark.parametrize("name", ["draft_failed", "proposal_invariant", "residual_invariant"])
def test_a_failure_before_the_first_token_falls_back_and_says_so(name: str) -> None:
    kit = Kit()
    arm = kit.neural()
    arm.open_proposer = lambda request: Breaking(kit.draft(request), 1, name)  # type: ignore[assignment, return-value]
    seen: list[int] = []
    completion = arm.generate(kit.request(), seen.extend)
    alone = kit.alone().generate(kit.request())
    assert completion.tokens == alone.tokens == seen and completion.finish_reason == alone.finish_reason
    assert completion.fallback == name and completion.failure is None
    assert completion.rounds[0].outcome == "failed" and completion.counters[name] == 1


def test_a_failure_after_the_first_token_ends_visibly_and_never_restarts() -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=())
    arm = kit.neural()
    arm.open_proposer = lambda request: Breaking(kit.draft(request), 2, "draft_failed")  # type: ignore[assignment, return-value]
    seen: list[int] = []
    completion = arm.generate(kit.request(n=12), seen.extend)
    assert completion.failure == "draft_failed" and completion.fallback is None
    assert completion.finish_reason == "error" and seen == completion.tokens and len(seen) == 4


# -- cancellation -----------------------------------------------------------------------------------------------------


def test_cancelling_between_rounds_emits_nothing_more_and_nothing_twice() -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=())
    cancel, seen = Cancellation(), list[int]()

    def on_tokens(tokens: list[int]) -> None:
        seen.extend(tokens)
        cancel.cancel()

    completion = kit.neural().generate(kit.request(n=12), on_tokens, cancel)
    assert completion.finish_reason == "cancelled" and seen == completion.tokens and len(seen) == 4


@pytest.mark.parametrize("where", ["draft", "champion"])
@pytest.mark.parametrize("strings", [(), ("nowhere",)])
def test_results_of_a_stale_epoch_are_rolled_back(where: str, strings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=())
    cancel = Cancellation()
    engine = kit.draft_engine if where == "draft" else kit.engine
    session = kit.neural().open(kit.request(n=12, strings=strings), cancel)
    session.prefill()
    session.step()
    before = session.state_fingerprint()
    whole = engine.verify_linear

    def cancelled_inside(*args: Any) -> Any:
        cancel.cancel()
        return whole(*args)

    monkeypatch.setattr(engine, "verify_linear", cancelled_inside)
    session.step()
    assert session.finish == "cancelled" and session.state_fingerprint() == before
    assert session.records[-1].censored == "cancelled" and session.records[-1].emitted == 0
    assert session.cache.tx is None  # type: ignore[attr-defined]


def test_the_text_of_a_cancelled_answer_holds_nothing_that_was_not_emitted() -> None:
    always = table({}, [0, 9, 0])
    kit = Kit(vocabulary=3, champion=always, draft=always, k=2)
    cancel = Cancellation()
    whole, rounds = kit.engine.verify_linear, 0

    def cancelled_in_the_second_round(*args: Any) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds == 3:  # a prefill, a round, and this one, which completes the stop string
            cancel.cancel()
        return whole(*args)

    kit.engine.verify_linear = cancelled_in_the_second_round  # type: ignore[method-assign]
    completion = kit.neural().generate(kit.request((2, 2), 20, strings=("bbbb",)), None, cancel)
    assert completion.finish_reason == "cancelled" and completion.tokens == [1, 1, 1] and completion.text == "bbb"


def test_an_exception_of_the_users_callback_is_not_swallowed() -> None:
    def on_tokens(tokens: list[int]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Kit().neural().generate(Kit().request(), on_tokens)


@pytest.mark.parametrize("length", [1, 2, 400])
def test_a_draft_that_fails_while_it_is_prefilled_is_left_out(length: int) -> None:
    same = hashed_logits(5, 3)
    kit = Kit(
        champion=same, draft=poisoned(same, lambda h: len(h) == length), stop_ids=(), context=500, draft_context=500
    )
    request = kit.request([1, 2, 3, 4] * 101, 6)
    completion = kit.neural().generate(request)
    assert completion.tokens == kit.alone().generate(request).tokens
    assert completion.failure is None and completion.fallback is None
    assert completion.counters["draft_numeric"] == 6 and completion.draft_calls == 0
