"""The table of edge cases, one behaviour a test, and the life of a request."""

from __future__ import annotations

from typing import Any

import pytest
from draftgate.arms.draws import PhiloxDraws
from draftgate.arms.errors import ArmError
from draftgate.arms.request import Completion, Request
from draftgate.arms.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arms_kit import STOP, Kit, checked_run, table
from support.toy import hashed_logits

DECODINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.9, "top_k": 4},
    {"temperature": 1.3, "repetition_penalty": 1.4, "frequency_penalty": 0.2, "min_new_tokens": 3},
    {"repetition_penalty": 1.5, "bad_words": [[1, 2], [3]], "min_new_tokens": 2},
    {"temperature": 1.0, "min_p": 0.05, "typical_p": 0.9, "logit_bias": {"2": 1.0}, "suppress": [4]},
]


def arms(kit: Kit) -> list[Any]:
    return [kit.alone(), kit.lookup(), kit.neural()]


@given(st.sampled_from(DECODINGS), st.integers(0, 10**6), st.integers(1, 14), st.integers(0, 4), st.integers(5, 24))
@settings(max_examples=120, deadline=None)
def test_every_round_leaves_the_state_of_a_fresh_session(
    decoding: dict[str, Any], seed: int, n: int, k: int, context: int
) -> None:
    kit = Kit(
        decoding,
        vocabulary=6,
        champion=hashed_logits(6, seed),
        draft=hashed_logits(6, seed, 1.7, 2),
        context=context,
        k=k,
    )
    request = kit.request((1, 5, 2, 1, 5), n, seed)
    for arm in arms(kit)[1:]:
        session = checked_run(arm.open(request))
        assert session.failure is None
        assert len(session.emitted) <= n
        again = arm.generate(request)
        assert again.tokens == session.emitted and again.finish_reason == session.finish
        assert sum(r.emitted for r in again.rounds) == len(again.tokens)
        for record in again.rounds:
            assert record.accepted <= record.tested <= record.proposed <= max(record.requested, record.proposed)
        if kit.champion.chain.greedy:
            alone = kit.alone().generate(request)
            assert (alone.tokens, alone.finish_reason, alone.text) == (again.tokens, again.finish_reason, again.text)


@given(st.integers(0, 10**6), st.sampled_from(["bc", "d", "cb", "bbb"]), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_stop_strings_end_every_arm_at_the_same_token_with_the_same_text(seed: int, string: str, n: int) -> None:
    kit = Kit(vocabulary=4, champion=hashed_logits(4, seed), draft=hashed_logits(4, seed, 1.5, 2))
    request = kit.request((1, 2, 3), n, seed, strings=(string,))
    done = [arm.generate(request) for arm in arms(kit)]
    assert len({(tuple(c.tokens), c.finish_reason, c.text) for c in done}) == 1
    assert string not in (done[0].text or "")
    if done[0].finish_reason == "stop_string":
        assert string in kit.letters.decode(done[0].tokens)
        assert string not in kit.letters.decode(done[0].tokens[:-1])


def test_tokens_after_a_stop_string_inside_a_block_reach_nobody() -> None:
    always = table({}, [0, 9, 0])  # "bbbbbb…"
    kit = Kit(vocabulary=3, champion=always, draft=always, k=4)
    seen: list[int] = []
    completion = kit.neural().generate(kit.request((2,), 20, strings=("bb",)), seen.extend)
    assert seen == completion.tokens == [1, 1] and completion.text == ""
    assert completion.rounds[-1].outcome == "stop" and completion.finish_reason == "stop_string"


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_stop_token_inside_an_accepted_block_ends_emission_there(k: int) -> None:
    script = table({(2,): [0, 9, 0, 0], (1,): [9, 0, 0, 0], (0,): [0, 0, 0, 9]}, [0, 9, 0, 0])  # 1, then stop, then 3s
    kit = Kit(vocabulary=4, champion=script, draft=script, k=k)
    session = checked_run(kit.neural().open(kit.request((2,), 20)))
    assert session.emitted == [1, STOP] and session.finish == "stop"
    assert session.records[-1].outcome == ("accepted_all" if k == 1 else "stop")


def test_remaining_one_means_k_one_and_no_bonus() -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=())
    completion = kit.neural().generate(kit.request(n=1))
    (only,) = completion.rounds
    assert (only.proposed, only.accepted, only.outcome, only.censored) == (1, 1, "length", "length")
    assert completion.finish_reason == "length"


def test_the_block_that_meets_the_budget_is_censored() -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=(), k=3)
    completion = kit.neural().generate(kit.request(n=6))
    assert [(r.proposed, r.emitted, r.outcome) for r in completion.rounds] == [(3, 4, "accepted_all"), (2, 2, "length")]
    assert [r.censored for r in completion.rounds] == ["none", "length"]


@pytest.mark.parametrize("prompt", range(4, 9))
def test_the_context_limit_ends_every_arm_at_the_same_token(prompt: int) -> None:
    same = hashed_logits(5, 4)
    kit = Kit(champion=same, draft=hashed_logits(5, 4, order=2), stop_ids=(), context=8, draft_context=32)
    request = kit.request([1] * prompt, 30)
    done = [arm.generate(request) for arm in arms(kit)]
    assert {(tuple(c.tokens), c.finish_reason) for c in done} == {(tuple(done[0].tokens), "context")}
    assert len(done[0].tokens) == 8 - prompt + 1  # the pending token needs a place, its successor does not
    assert any(r.censored == "context" for r in done[2].rounds)


def test_no_room_for_the_prompt_is_refused() -> None:
    kit = Kit(context=4)
    with pytest.raises(ArmError, match="5 tokens, the context holds 4"):
        kit.neural().generate(kit.request([1] * 5))
    with pytest.raises(ArmError, match="no token"):
        kit.alone().generate(kit.request([]))
    with pytest.raises(ArmError, match="outside the vocabulary"):
        kit.alone().generate(kit.request([77]))


def test_no_budget_means_no_token() -> None:
    completion = Kit().neural().generate(Kit().request(n=0))
    assert completion.tokens == [] and completion.finish_reason == "length" and not completion.rounds


# -- drafts that lag --------------------------------------------------------------------------------------------------


def test_after_full_acceptance_the_draft_is_fed_its_last_proposal_and_the_bonus() -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=())
    session = kit.neural().open(kit.request(n=12))
    session.prefill()
    session.step()
    assert session.records[-1].outcome == "accepted_all"
    lag = len(session.context) - session.proposer.cache.length  # type: ignore[union-attr]
    assert lag == 2
    session.step()
    assert session.records[-1].outcome == "accepted_all"  # a draft that missed a token would diverge


def test_a_draft_skipped_for_some_rounds_catches_up() -> None:
    same = hashed_logits(5, 3)
    kit = Kit(champion=same, draft=same, stop_ids=())
    session = kit.neural().open(kit.request(n=20))
    session.prefill()
    asked = iter([0, 0, 3, 0, 3, 3])
    session.proposer.requested = lambda: next(asked)  # type: ignore[union-attr, method-assign]
    outcomes = []
    for _ in range(6):
        outcomes.append(session.step().outcome)
        twin = session.twin()
        assert twin.state_fingerprint() == session.state_fingerprint()
    assert outcomes == ["champion_step"] * 2 + ["accepted_all", "champion_step", "accepted_all", "accepted_all"]


@given(st.integers(8, 16), st.integers(1, 5), st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_shorter_draft_context_keeps_greedy_text(limit: int, stride: int, seed: int, stop: bool) -> None:
    kit = Kit(
        champion=hashed_logits(5, seed),
        draft=hashed_logits(5, seed, order=2),
        draft_context=limit,
        stop_ids=(),
        truncation={"kind": "stop"} if stop else {"kind": "tail", "stride": stride},
    )
    request = kit.request([1, 2, 3, 4] * 3, 24, seed)
    session = checked_run(kit.neural().open(request))
    assert session.emitted == kit.alone().generate(request).tokens
    assert stop or any(r.proposed for r in session.records[-4:])


# -- seeds, forced tokens, delays --------------------------------------------------------------------------------------


def test_no_counter_is_used_twice_in_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhiloxDraws, "used", set())
    kit = Kit({"temperature": 1.0}, stop_ids=())
    for stream in ("a", "b"):
        kit.neural(probe_rate=0.3).generate(kit.request(n=40, stream=stream))
    kit.alone().generate(kit.request(n=40, stream="c"))


def test_streams_and_seeds_separate_requests() -> None:
    kit = Kit({"temperature": 1.5}, stop_ids=())
    texts = {tuple(kit.neural().generate(kit.request(n=30, seed=s, stream=t)).tokens) for s in (0, 1) for t in "xy"}
    assert len(texts) == 4


@pytest.mark.parametrize("decoding", [{}, {"temperature": 1.0}])
def test_forced_tokens_are_decoded_exactly_at_the_usual_cost(decoding: dict[str, Any]) -> None:
    kit = Kit(decoding)
    forced = (1, 4, 4, 2, STOP)
    kit.engine.calls = 0
    completion = kit.alone().generate(kit.request(n=30, forced=forced))
    assert tuple(completion.tokens) == forced and completion.finish_reason == "stop"
    assert completion.champion_calls == 5
    cut = kit.alone().generate(kit.request(n=30, forced=(1, 4, 4)))
    assert cut.tokens == [1, 4, 4] and cut.finish_reason == "length"


def test_the_slowed_dummy_emits_the_same_and_takes_longer() -> None:
    kit = Kit(stop_ids=())
    plain, slowed = kit.alone().generate(kit.request(n=20)), kit.alone(slowdown=0.5).generate(kit.request(n=20))
    assert plain.tokens == slowed.tokens
    assert all(r.total_ns >= r.verify_ns + r.sample_ns for r in slowed.rounds)
    shares = [r.total_ns / (r.total_ns - r.other_ns) for r in slowed.rounds]
    assert min(shares) > 1.4


def test_probe_rounds_ask_for_the_full_block_at_their_rate() -> None:
    kit = Kit({"temperature": 1.0}, stop_ids=(), k=4, policy={"kind": "hf-heuristic", "start": 1}, context=400)
    completion = kit.neural(probe_rate=0.5).generate(kit.request(n=300))
    full = sum(r.requested == 4 for r in completion.rounds) / len(completion.rounds)
    assert 0.3 < full < 0.9
    probes = [r for r in completion.rounds if r.probe]
    assert 0.35 < len(probes) / len(completion.rounds) < 0.65 and all(r.requested == 4 for r in probes)
    assert {r.requested for r in completion.rounds if not r.probe} > {1}
    assert not any(r.probe for r in kit.neural().generate(kit.request(n=60)).rounds)
    assert kit.neural(probe_rate=0.5).generate(kit.request(n=300)).tokens == completion.tokens


def test_times_add_up_and_counts_agree() -> None:
    kit = Kit(stop_ids=())
    completion: Completion = kit.neural().generate(kit.request(n=20))
    for r in completion.rounds:
        assert r.total_ns == r.draft_ns + r.verify_ns + r.sample_ns + r.rollback_ns + r.other_ns
        assert min(r.draft_ns, r.verify_ns, r.sample_ns, r.rollback_ns, r.other_ns) >= 0
    assert 0 < completion.ttft_ns <= completion.total_ns
    assert completion.champion_calls == len(completion.rounds)
    assert [t for entry in completion.trace for t in entry["tokens"]] == completion.tokens


def test_an_arm_keeps_no_state_across_requests() -> None:
    kit = Kit({"temperature": 1.0, "repetition_penalty": 1.3}, policy={"kind": "hf-heuristic"})
    arm = kit.neural()
    first = arm.generate(kit.request(n=20, seed=1))
    arm.generate(kit.request((4, 4, 1), n=20, seed=2))
    assert arm.generate(kit.request(n=20, seed=1)).tokens == first.tokens


def test_sessions_end_with_their_caches_closed() -> None:
    kit = Kit()
    session: Session = kit.neural().open(Request("r", (1, 2), 4, 0))
    session.run()
    assert session.cache.closed and session.proposer.cache.closed  # type: ignore[attr-defined, union-attr]
