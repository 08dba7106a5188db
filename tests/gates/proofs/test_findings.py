"""Accounting, time's shape, batteries, golden vectors and Monte Carlo: each holds, and each can fail."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from draftgate.arms.draws import PhiloxDraws
from draftgate.gates.proofs import golden
from draftgate.gates.proofs.accounting import check_accounting, kept_problem, request_problem, round_problem
from draftgate.gates.proofs.battery import check_battery
from draftgate.gates.proofs.conduct import check_deletion, check_reliability
from draftgate.gates.proofs.families import shapes
from draftgate.gates.proofs.greedy_identity import check_greedy_identity
from draftgate.gates.proofs.monte_carlo import Size, check_monte_carlo
from draftgate.gates.proofs.real_proofs import DRAFT, LOOKUP
from draftgate.gates.proofs.sabotage.patch import planted
from draftgate.gates.proofs.sabotage.world import GREEDY, STOCHASTIC, run_world
from draftgate.gates.proofs.timing_shape import check_timing_shape
from draftgate.gates.proofs.toy import tables
from draftgate.gates.proofs.toy_models import toy_model
from hypothesis import given, settings
from hypothesis import strategies as st

ROUND = {
    "round": 0, "context_tokens": 4, "requested": 4, "proposed": 4, "tested": 2, "accepted": 1, "emitted": 2,
    "forced_tokens": 0, "outcome": "rejected", "censored": "none", "draft_ns": 5, "verify_ns": 5, "total_ns": 12,
    "entropy": [0.1] * 4,
}  # fmt: skip
REQUEST = {
    "request_id": "r", "arm": "neural_draft", "prompt_tokens": 4, "rounds": 1, "new_tokens": 2, "proposed": 4,
    "accepted": 1, "finish_reason": "stop", "failure": "", "fallback": "", "champion_calls": 1, "draft_calls": 4,
}  # fmt: skip


def pair() -> tuple[Any, Any]:
    champion, draft = tables(12, 5, 0.85)
    return toy_model(champion, "champion", (11,)), toy_model(draft, "draft", (11,))


def test_an_honest_account_adds_up() -> None:
    assert round_problem(ROUND) is None and request_problem(REQUEST, [ROUND], 8, drafts=True) is None
    run = run_world(GREEDY, 3)
    rounds: dict[str, list[Any]] = {}
    for row in run.rounds.to_dict("records"):
        rounds.setdefault(row["request_id"], []).append(row)
    assert check_accounting(run.requests.to_dict("records"), rounds, None, ["neural_draft"]).ok


@settings(deadline=None)
@given(st.sampled_from(["requested", "proposed", "tested", "accepted", "emitted"]), st.integers(-3, 3))
def test_any_changed_count_of_a_round_is_seen_in_round_or_request(field: str, by: int) -> None:
    changed = {**ROUND, field: ROUND[field] + by, "entropy": None}  # type: ignore[operator]
    problem = request_problem(REQUEST, [changed], 8)
    more_asked = field == "requested" and by > 0  # asking for more than was proposed is what policies do
    assert (problem is None) == (by == 0 or more_asked)


@pytest.mark.parametrize(
    ("field", "value"),
    [("rounds", 2), ("new_tokens", 3), ("proposed", 3), ("accepted", 2), ("champion_calls", 0), ("draft_calls", 3)],
)
def test_a_request_that_does_not_sum_is_named(field: str, value: int) -> None:
    assert request_problem({**REQUEST, field: value}, [ROUND], 8, drafts=True) is not None


def test_lengths_and_failures_must_fit() -> None:
    assert request_problem(REQUEST, [ROUND], 1) is not None
    assert request_problem({**REQUEST, "finish_reason": "length"}, [ROUND], 8) is not None
    failed = {**ROUND, "outcome": "failed", "emitted": 0, "proposed": 0, "tested": 0, "accepted": 0, "entropy": []}
    silent = {**REQUEST, "new_tokens": 0, "proposed": 0, "accepted": 0, "finish_reason": "error"}
    assert request_problem(silent, [failed], 8) is not None
    assert request_problem({**silent, "failure": "target_numeric"}, [failed], 8) is None
    assert not check_accounting([], {}).ok


@pytest.mark.parametrize(
    ("entry", "turn", "preamble", "most"),
    [
        ("warm", 0, None, 0),
        ("warm", 2, None, 0),
        ("cold", 0, 3, 0),
        ("warm", 0, 3, 3),
        ("warm", 1, 3, 7),
        ("warm", 0, 9, 7),
    ],
)
def test_more_kept_than_the_plan_allows_is_seen(entry: str, turn: int, preamble: int | None, most: int) -> None:
    for kept in range(-1, 10):
        row = {"prompt_tokens": 8, "entry": entry, "turn": turn, "cached_tokens": kept}
        assert (kept_problem(row, preamble) is None) == (0 <= kept <= most)


def timed(rollback: Any, other: int = 0) -> list[dict[str, int]]:
    rng = np.random.default_rng(2)
    rows = []
    for context in rng.integers(20, 400, 200):
        back = int(rollback(context) * rng.lognormal(0, 0.3))
        rows.append(
            {"proposed": 4, "context_tokens": int(context), "rollback_ns": back, "verify_ns": 1_000_000,
             "draft_ns": 500_000, "total_ns": 1_500_000 + back + other}
        )  # fmt: skip
    return rows


def test_only_growth_and_a_fixed_cost_change_the_shape_of_time() -> None:
    assert check_timing_shape(timed(lambda context: 5_000)).ok
    assert not check_timing_shape(timed(lambda context: 300 * context)).ok
    assert not check_timing_shape(timed(lambda context: 5_000, other=2_000_000)).ok
    few = check_timing_shape(timed(lambda context: 300 * context)[:10])
    assert few.ok and few.detail["judged"] is False
    json.dumps(check_timing_shape(timed(lambda context: 5_000)).body())


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_batteries_count_every_class_and_hold(temperature: float) -> None:
    champion, draft = pair()
    for spec in (DRAFT, LOOKUP):
        finding = check_battery(spec, champion, draft, {"temperature": temperature}, [[1, 2, i] for i in range(12)])
        assert finding.ok, finding.detail["mismatches"]
        if spec is DRAFT:  # sampled, lookup has little to copy
            assert {"context", "length", "rejected", "stop", "stop_string"} <= set(finding.detail["event_classes"])


def test_greedy_identity_holds_and_can_fail() -> None:
    champion, draft = pair()
    assert check_greedy_identity([DRAFT, LOOKUP], champion, draft, [[1, 2, i] for i in range(9)], 20).ok
    from draftgate.arms import speculation

    def keeps_all(proposal: Any, champion: Any, stops: Any, remaining: int) -> Any:
        from draftgate.arms.round import Decision

        champion.verify(proposal.tokens)
        tokens = list(proposal.tokens)[:remaining]
        return Decision(tokens, len(tokens), len(tokens), "length", stops.ends(tokens[-1]))

    with planted(speculation, "greedy_round", keeps_all):
        broken = check_greedy_identity([DRAFT], champion, draft, [[1, 2, i] for i in range(9)], 20)
    assert not broken.ok and {"position", "arm_token", "champion_token"} <= set(broken.detail["mismatches"][0])


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_failures_are_visible_and_repeat_nothing(temperature: float) -> None:
    champion, draft = pair()
    for spec in (DRAFT, LOOKUP):
        found = check_reliability(spec, champion, draft, {"temperature": temperature}, [[1, 2, 3], [4, 5, 6]])
        assert found.ok, found.detail


def test_a_failure_that_is_not_named_is_noticed() -> None:
    champion, draft = pair()
    from draftgate.arms.session import Session

    original = Session.run

    def silent(self: Any, on_tokens: Any = None) -> Any:
        done = original(self, on_tokens)
        done.failure = None
        return done

    with planted(Session, "run", silent):
        assert not check_reliability(LOOKUP, champion, draft, {"temperature": 0.0}, [[1, 2, 3]]).ok


def test_the_champion_stands_without_speculation() -> None:
    assert check_deletion().ok


def test_golden_vectors_are_what_the_descriptions_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert golden.check_golden().ok
    original = golden.stored

    def edited(name: str) -> Any:
        found = original(name)
        if name == "draws-v1.json":
            found["draws"][0][-1] = str(int(found["draws"][0][-1]) + 1)
        if name == "rows-v1.json":
            found["small"][0]["masses"][0] = "7"
        if name == "rounds-v1.json":
            found["sessions"][2]["rounds"][0][1] += 1
        return found

    monkeypatch.setattr(golden, "stored", edited)
    assert len(golden.check_golden().detail["differences"]) == 3


def test_monte_carlo_sees_a_counter_that_two_draws_share() -> None:
    size = Size(tv=0.12, level=0.005, power=0.9)
    families = [f for f in shapes() if f.name == "generic-v3-k2"]
    assert check_monte_carlo(families, size).ok
    original = PhiloxDraws.uniform

    def shared(self: Any, n: int, domain: str, position: int) -> int:
        return int(original(self, n, "draft_sample" if domain == "accept_uniform" else domain, position))

    with planted(PhiloxDraws, "uniform", shared):
        assert not check_monte_carlo(families, size).ok
    assert not check_monte_carlo([], size).ok


def test_a_run_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, again, other = (run_world(STOCHASTIC, seed) for seed in (4, 4, 5))
    assert first.requests.equals(again.requests) and first.rounds.equals(again.rounds)
    assert not first.requests["output_digest"].equals(other.requests["output_digest"])
