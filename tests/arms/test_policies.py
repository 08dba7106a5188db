"""Policies: what they ask for, that they are stopping times, and refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from draftgate.arms.errors import ArmError
from draftgate.arms.policies import policy_of
from draftgate.gates.proofs.guessers import Course
from hypothesis import assume, given
from hypothesis import strategies as st
from support.arms_kit import Kit, every_outcome, scripted, table

COSTS: dict[str, Any] = {"kind": "cost-model", "draft": 0.2, "verify": [1.0, 1.05, 1.1, 1.15, 1.2]}


def test_fixed_asks_for_k_always() -> None:
    course = policy_of({"kind": "fixed"}, 3).open()
    course.observe(3, 1, 0)
    assert course.requested() == 3 and course.go_on(1, 0.0, 0.0, 9.0)


def test_heuristic_grows_by_two_and_shrinks_by_one_within_bounds() -> None:
    course = policy_of({"kind": "hf-heuristic", "start": 2}, 5).open()
    asked = [course.requested()]
    for accepted in (2, 4, 5, 0, 0, 0, 0, 0, 0):
        proposed = course.requested()
        course.observe(proposed, proposed, min(accepted, proposed))
        asked.append(course.requested())
    assert asked == [2, 4, 5, 5, 4, 3, 2, 1, 1, 1]


def test_confidence_stops_after_an_unsure_row_and_keeps_its_token() -> None:
    sure, unsure = [9.0, 0, 0, 0, 0], [0.1, 0, 0, 0, 0]
    kit = Kit(draft=table({(0,): unsure}, sure), stop_ids=(), k=4, policy={"kind": "confidence", "threshold": 0.5})
    proposal = kit.draft(kit.request((1,))).propose([1], 4, None)
    assert proposal.tokens == [0, 0]  # sure, then unsure: the second token is kept, a third is not drawn


def test_cost_model_follows_acceptance_and_can_choose_zero() -> None:
    course = policy_of(COSTS, 4).open()
    for _ in range(50):
        course.observe(4, 4, 4)
    assert course.requested() == 4
    for _ in range(2000):
        course.observe(1, 1, 0)
    asked = [course.requested() for _ in range(32)]
    assert sorted(set(asked)) == [0, 1] and asked.count(1) == 2  # explores now and then
    never = policy_of({**COSTS, "explore": 0, "prior": 0.0}, 4).open()
    assert [never.requested() for _ in range(20)] == [0] * 20


BY_LENGTH: list[dict[str, Any]] = [
    {"context": 100, "draft": 0.2, "verify": [1.0, 1.05, 1.1, 1.15, 1.2]},
    {"context": 1100, "draft": 0.3, "verify": [1.0, 1.55, 2.1, 2.65, 3.2]},
]


@given(st.integers(0, 1500), st.lists(st.booleans(), max_size=40))
def test_costs_follow_the_length_of_the_prompt_and_the_auditor_agrees(prompt: int, kept: list[bool]) -> None:
    spec = {"kind": "cost-model", "costs": BY_LENGTH}
    course, audited = policy_of(spec, 4).open(prompt), Course(spec, 4, prompt)
    share = min(max(prompt - 100, 0), 1000) / 1000
    verify = [a + (b - a) * share for a, b in zip(BY_LENGTH[0]["verify"], BY_LENGTH[1]["verify"], strict=True)]
    plain = policy_of({"kind": "cost-model", "draft": 0.2 + 0.1 * share, "verify": verify}, 4).open()
    for accepted in kept:
        for told in (course, plain):
            told.observe(1, 1, int(accepted))
        audited.learn(1, 1, int(accepted))
        assert course.requested() == audited.requested() == plain.requested()


def test_long_prompts_make_verification_dear_and_k_small() -> None:
    policy = policy_of({"kind": "cost-model", "costs": BY_LENGTH, "prior": 0.5}, 4)
    asked = [policy.open(n).requested() for n in (0, 100, 400, 700, 1100, 9999)]
    assert asked == sorted(asked, reverse=True) and asked[0] == asked[1] > asked[-1] == 0


@given(
    st.floats(0.05, 1.5),
    st.lists(
        st.tuples(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(0, 4), st.booleans()), max_size=20
    ),
)
def test_a_block_ends_where_one_more_token_is_not_worth_its_time_and_the_auditor_agrees(
    sharpness: float, rounds: list[tuple[list[float], int, bool]]
) -> None:
    spec = COSTS | {"sharpness": sharpness, "prior": 0.8}
    course, audited = policy_of(spec, 4).open(), Course(spec, 4)
    for tops, accepted, probe in rounds:
        asked = 4
        if not probe:  # a probe round asks for all, whatever the policy would
            asked = course.requested()
            assert asked == audited.requested() and asked in (0, 1, 4)
        drawn = 0
        for top in tops[:asked]:
            drawn += 1
            on = course.go_on(drawn, top, top, 0.0)
            assert on == audited.go_on(drawn, top)
            if not on:
                break
        if drawn:
            course.observe(drawn, drawn, min(accepted, drawn))
            audited.learn(drawn, drawn, min(accepted, drawn))


def test_sure_rows_go_on_and_unsure_ones_end_the_block() -> None:
    course = policy_of(COSTS | {"sharpness": 1.0, "prior": 0.9}, 4).open()
    assert course.needs_peak and course.requested() == 4
    assert course.go_on(1, 0.9, 0.99, 0.0) and course.go_on(2, 0.9, 0.99, 0.0)
    assert not course.go_on(3, 0.9, 0.05, 3.0)
    assert course.requested() == 4 and course.go_on(1, 0.9, 0.99, 0.0)  # a new round starts afresh
    never = policy_of(COSTS | {"sharpness": 1.0, "prior": 0.0, "explore": 0}, 4).open()
    assert never.requested() == 0  # where nothing pays, nothing is drafted


@given(st.integers(0, 600), st.integers(0, 200), st.floats(0, 1), st.floats(0.001, 0.2))
def test_a_prompt_that_costs_more_than_it_saves_is_not_read_and_the_auditor_agrees(
    prompt: int, new: int, prior: float, reading: float
) -> None:
    spec = COSTS | {"prior": prior, "reading": reading}
    course, audited = policy_of(spec, 4).open(prompt, new), Course(spec, 4, prompt, new)
    longest = max(sum(prior**i for i in range(k + 1)) / (COSTS["verify"][k] + 0.2 * k) for k in range(5))
    saved = new * (1 - 1 / longest) - reading * prompt
    assume(abs(saved) > 1e-6)
    assert course.declined == audited.declines() == (saved < 0)
    if course.declined:
        assert [course.requested() for _ in range(40)] == [audited.requested() for _ in range(40)] == [0] * 40


def test_a_declined_request_costs_the_draft_nothing() -> None:
    kit = Kit(policy={**COSTS, "verify": COSTS["verify"][:4], "reading": 0.5, "prior": 0.5})
    request = kit.request(tuple(range(1, 4)) * 8, 12)
    completion = kit.neural().generate(request)
    assert completion.tokens == kit.alone().generate(request).tokens
    assert kit.draft_engine.calls == 0 and all(r.proposed == 0 for r in completion.rounds)
    short = kit.neural().generate(kit.request((1,), 12))
    assert any(r.proposed for r in short.rounds), "a short prompt is read"


def test_two_requests_share_nothing() -> None:
    policy = policy_of(COSTS, 4)
    first = policy.open()
    for _ in range(100):
        first.observe(4, 1, 0)
    assert policy.open().requested() != first.requested()


@pytest.mark.parametrize(
    "policy", [{"kind": "fixed"}, {"kind": "confidence", "threshold": 0.55}, {"kind": "hf-heuristic", "start": 1}]
)
def test_every_policy_leaves_the_law_of_the_first_token_alone(policy: dict[str, Any]) -> None:
    q, p = [0.3, 0.1, -0.5], [1.2, -0.4, 0.2]
    kit = Kit({"temperature": 1.0}, 3, table({}, q), table({(1,): [3, 0, 0]}, p), k=2, policy=policy, stop_ids=())
    row = kit.champion.chain.open([1]).masses(np.array(q, np.float32))
    law = {t: Fraction(0) for t in range(3)}

    def run(draws: Any) -> int:
        arm = kit.neural(draws=scripted(draws))
        session = arm.open(kit.request((1,), 5))
        session.prefill()
        session.step()
        return session.emitted[0]

    for token, probability in every_outcome(run):
        law[token] += probability
    assert law == {t: Fraction(int(row[t]), 1 << 48) for t in range(3)}


@pytest.mark.parametrize(
    ("spec", "k", "words"),
    [
        ({"kind": "lucky"}, 3, "unknown policy 'lucky'"),
        ({}, 3, "unknown policy None"),
        ({"kind": "fixed", "threshold": 1}, 3, "knows no 'threshold'"),
        ({"kind": "confidence", "threshold": 1.5}, 3, "threshold"),
        ({"kind": "hf-heuristic", "start": 0}, 3, "start"),
        ({"kind": "cost-model", "draft": 1.0, "verify": [1.0]}, 3, "k \\+ 1 = 4"),
        ({"kind": "cost-model", "draft": -1.0, "verify": [1.0] * 4}, 3, "draft"),
        ({"kind": "cost-model", "draft": 1.0, "verify": [1.0, 0, 1, 1]}, 3, "positive"),
        ({"kind": "cost-model", "costs": []}, 3, "at least one"),
        ({"kind": "cost-model", "costs": [BY_LENGTH[0]]}, 3, "k \\+ 1 = 4"),
        ({"kind": "cost-model", "costs": BY_LENGTH[::-1]}, 4, "rising context"),
        ({"kind": "cost-model", "costs": [BY_LENGTH[0] | {"context": 1.5}]}, 4, "context"),
        ({"kind": "cost-model", "costs": [BY_LENGTH[0] | {"bogus": 1}]}, 4, "'bogus'"),
        ({"kind": "cost-model", "costs": BY_LENGTH, "draft": 1.0}, 4, "knows no 'draft'"),
        ({**COSTS, "sharpness": -1}, 4, "sharpness"),
        ({"kind": "fixed"}, -1, "k must be"),
        ({"kind": "fixed"}, 1000, "k must be"),
    ],
)
def test_bad_policies_are_refused_by_name(spec: dict[str, Any], k: int, words: str) -> None:
    with pytest.raises(ArmError, match=words):
        policy_of(spec, k)
