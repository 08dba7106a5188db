"""Break-even: Fieller's set against a grid, declared session lengths, costs and predictions."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from draftgate.gates.breakeven import amortising_share, fieller, lengths_of, ratio_curve, session_lengths
from draftgate.gates.costs import cost_table, predict, predicted_and_measured
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats


@settings(max_examples=200, deadline=None)
@given(st.floats(-2, 2), st.floats(0, 500), st.floats(0.001, 1), st.floats(0, 1e4), st.floats(-0.9, 0.9))
def test_fieller_is_every_length_not_excluded(saving: float, fixed: float, v_s: float, v_f: float, r: float) -> None:
    """Brute force: N is in the set when |D(N)| ≤ t · se(D(N))."""
    c = r * math.sqrt(v_s * v_f)
    found = fieller(saving, fixed, v_s, v_f, c, 30, 0.025)
    t = stats.t.isf(0.025, 30)
    n = np.concatenate([[0], np.geomspace(0.01, 1e6, 4000)])
    inside = (n * saving - fixed) ** 2 <= t * t * (n * n * v_s - 2 * n * c + v_f)
    assert found.never == (saving - t * math.sqrt(v_s) <= 0)
    if found.only_never:
        # The saving is below zero beyond doubt, or no length is left.
        assert saving + t * math.sqrt(v_s) < 0 or not inside.any()
    elif inside.any():
        assert found.lower <= n[inside].min() * 1.01 + 0.02 and found.upper >= n[inside].max() * 0.99
        if not found.never:  # an interval: nothing beyond its ends is inside
            assert not inside[(n < found.lower * 0.99 - 0.02) | (n > found.upper * 1.01 + 0.02)].any()


def test_a_draft_that_never_pays() -> None:
    found = fieller(-1.0, 100.0, 0.01, 1.0, 0.0, 30, 0.025)
    assert found.only_never and found.estimate is None and found.lower == math.inf
    lengths = session_lengths({"kind": "fixed", "tokens": 1e6})
    assert amortising_share(lengths, found) == {"estimate": None, "lower": 0.0, "upper": 0.0}
    unknown = fieller(math.nan, 1.0, 1.0, 1.0, 0.0, 30, 0.025)
    assert unknown.never and (unknown.lower, unknown.upper) == (0.0, math.inf)


def test_amortising_share() -> None:
    found = fieller(1.0, 100.0, 1e-8, 1e-4, 0.0, 1e6, 0.025)
    table = session_lengths({"kind": "table", "tokens": [50, 99, 101, 400], "weights": [1, 1, 1, 1]})
    assert found.estimate == 100 and amortising_share(table, found)["estimate"] == 0.5
    law = session_lengths({"kind": "lognormal", "median_tokens": 200, "sigma": 0.8})
    assert law.mean == pytest.approx(200 * math.exp(0.32))
    assert law.share_at_least(100) == pytest.approx(stats.lognorm.sf(100, 0.8, scale=200), abs=0.01)


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "zipf"},
        {"kind": "fixed", "tokens": 0},
        {"kind": "table", "tokens": []},
        {"kind": "table", "tokens": [1, 2], "weights": [1]},
        {"kind": "table", "tokens": [1, math.nan]},
    ],
)
def test_impossible_session_lengths(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="session_lengths"):
        session_lengths(bad)
    with pytest.raises(ValueError, match="declares no session length"):
        lengths_of({"session_lengths": {"a": bad}}, "b")


def test_latency_ratio_of_a_session() -> None:
    assert ratio_curve([50, 100, 200], 0.5, 50, 1.0) == pytest.approx([1.5, 1.0, 0.75])


def rounds_and_requests() -> tuple[pd.DataFrame, pd.DataFrame]:
    """k alternates 2 and 4; a round costs 100 + 10 k, a champion step 100; two tokens accepted of four, one of two."""
    k = np.tile([2, 4], 60)
    rounds = pd.DataFrame(
        {
            "arm": "fast",
            "stratum": "a",
            "prompt_id": "p",
            "context_tokens": np.repeat([10, 300], 60),
            "proposed": k,
            "accepted": k // 2,
            "draft_ns": 10 * k,
            "verify_ns": 90,
            "sample_ns": 5,
            "rollback_ns": 3,
            "other_ns": 2,
            "total_ns": 100 + 10 * k,
            "entry": "warm",
        }
    )
    tokens = int((rounds["accepted"] + 1).sum())
    requests = pd.DataFrame(
        {
            "arm": ["fast", "champion_alone"],
            "stratum": "a",
            "total_ns": [int(rounds["total_ns"].sum()) + 70, 1070],
            "prefill_ns": 70,
            "draft_prefill_ns": 0,
            "new_tokens": [tokens, 10],
            "entry": "warm",
        }
    )
    return rounds, requests


def test_costs_by_k_and_context() -> None:
    rounds, requests = rounds_and_requests()
    costs = cost_table(rounds, requests)
    table = costs.table.set_index(["context", "k"])
    assert costs.champion_ns == 100
    assert table.loc[("*", 4), "total_ns"] == 140 and table.loc[("0-255", 2), "draft_ns"] == 20
    assert table.loc[("256-1023", 4), "rounds"] == 30
    found = predict(costs, [0.9, 0.8, 0.7, 0.6], "fast")
    assert found.per_token_ns[[1, 3]] == pytest.approx([120 / 2.7, 140 / 4.0])
    assert np.isnan(found.round_ns[[0, 2]]).all()  # k 1 and 3 were never measured: no extrapolation
    assert found.best == 4
    assert predict(costs, [0.1, 0.01, 0.0, 0.0], "fast").best == 0
    assert predict(costs, [0.9], "fast").best is None
    lines = predicted_and_measured(rounds, requests, "fast").iloc[0]
    assert lines["predicted_ns"] == pytest.approx(130 / 2.5) == lines["measured_ns"]
    assert lines["measured_ratio"] == pytest.approx(0.52)
    split = rounds.assign(outcome="rejected", rollback_ns=np.where(rounds.index < 60, 3, 9))
    split.loc[split.index < 60, "outcome"] = "accepted_all"
    by_outcome = cost_table(split, requests).outcomes.set_index(["k", "outcome"])
    assert by_outcome.loc[(4, "rejected"), "rollback_ns"] == 9 and by_outcome["rounds"].sum() == 120


def test_no_rounds_is_no_cost() -> None:
    rounds, requests = rounds_and_requests()
    empty = cost_table(rounds.head(0), requests.head(0))
    assert empty.table.empty and math.isnan(empty.champion_ns)
    assert predict(empty, [0.5], "fast").best is None
