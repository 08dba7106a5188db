"""The interval of statistics.md section 3."""

from __future__ import annotations

import math

import numpy as np
import pytest
from draftgate.gates.alternatives import METHODS, alternative
from draftgate.gates.intervals import Estimate, estimate, hall, hall_inverse, spread
from draftgate.gates.three_way import Claim, decide, floor_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats


def definition(y: np.ndarray, alpha: float = 0.025) -> tuple[float, float]:
    """Section 3 for one stratum, spelt out a second time."""
    n, b = y.shape
    per_prompt = y.mean(axis=1)
    m = per_prompt.mean()
    v_p = per_prompt.var(ddof=1) / n
    v_b = y.mean(axis=0).var(ddof=1) / b
    v = v_p + v_b
    df = v**2 / (v_p**2 / (n - 1) + v_b**2 / (b - 1))
    t = stats.t.isf(alpha, df)
    c = per_prompt - m
    gamma = (c**3).mean() / (c**2).mean() ** 1.5
    a = gamma / math.sqrt(n) * (v_p / v) ** 1.5

    def h(t: float) -> float:
        return 3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1)

    return m - math.sqrt(v) * max(t, h(t)), m + math.sqrt(v) * max(t, -h(-t))


@pytest.mark.parametrize("shape", [(12, 2), (20, 3), (40, 3), (200, 5)])
def test_one_stratum_is_the_formula(shape: tuple[int, int]) -> None:
    y = np.random.default_rng(shape[0]).gamma(1.5, size=shape)
    assert estimate({"a": y}).strata["a"].limits(0.025) == pytest.approx(definition(y), rel=1e-12)
    assert estimate({"a": y}).overall.limits(0.025) == pytest.approx(definition(y), rel=1e-12)


def test_without_block_effects_and_skew_it_is_students_t() -> None:
    half = np.random.default_rng(0).normal(size=30)
    y = np.concatenate([half, -half])[:, None].repeat(3, axis=1)
    ours = estimate({"a": y}).overall
    assert ours.df == pytest.approx(59)
    assert ours.limits(0.025) == pytest.approx(stats.t.interval(0.95, 59, 0.0, y[:, 0].std(ddof=1) / math.sqrt(60)))


def test_overall_pools_block_variance_once() -> None:
    """Two strata whose own block variance lies below and above the pooled one, combined by hand."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(20, 3)) + np.array([0.0, 0.01, -0.01])
    b = rng.normal(size=(30, 3)) + np.array([0.0, 3.0, -2.0])
    found = estimate({"a": a, "b": b}, {"a": 3.0, "b": 1.0})
    block = {k: y.mean(axis=0).var(ddof=1) for k, y in (("a", a), ("b", b))}
    pooled = (block["a"] + block["b"]) / 2
    v_p = {k: y.mean(axis=1).var(ddof=1) / len(y) for k, y in (("a", a), ("b", b))}
    variance = 0.75**2 * (v_p["a"] + pooled / 3) + 0.25**2 * (v_p["b"] + block["b"] / 3)
    assert found.overall.mean == pytest.approx(0.75 * a.mean() + 0.25 * b.mean())
    assert found.overall.variance == pytest.approx(variance)
    assert found.strata["a"].variance == pytest.approx(v_p["a"] + pooled / 3)
    parts = [
        (0.75**2 * v_p["a"], 19),
        (0.25**2 * v_p["b"], 29),
        (0.75**2 * pooled / 3, 4),
        (0.25**2 * block["b"] / 3, 2),
    ]
    assert found.overall.df == pytest.approx(variance**2 / sum(v * v / df for v, df in parts))


def test_strata_together_or_alone_are_the_same() -> None:
    rng = np.random.default_rng(5)
    values = {k: rng.gamma(2, size=(24, 3)) for k in "abc"}
    together = {k: spread(y) for k, y in values.items()}
    from draftgate.gates.intervals import _all_spreads

    assert _all_spreads(values) == together


def test_a_gap_costs_only_itself() -> None:
    y = np.random.default_rng(1).normal(size=(40, 3))
    holed = y.copy()
    holed[3, 1] = np.nan
    whole, less = estimate({"a": y}).overall, estimate({"a": holed}).overall
    assert less.n == 40 and abs(less.mean - whole.mean) < 0.05 and 0.8 < less.variance / whole.variance < 1.25
    holed[3] = np.nan
    assert estimate({"a": holed}).overall.n == 39


@settings(max_examples=200, deadline=None)
@given(
    st.floats(-3, 3),
    st.floats(0.01, 4),
    st.floats(1.5, 300),
    st.floats(-0.9, 0.9),
    st.floats(-4, 4),
    st.floats(0.0005, 0.4),
)
def test_p_value_and_limit_say_the_same(
    mean: float, variance: float, df: float, skew: float, bound: float, alpha: float
) -> None:
    """A claim's p-value is at most alpha exactly when its limit lies beyond the bound."""
    e = Estimate(mean, variance, df, skew, 40, 3)
    low, high = e.limits(alpha)
    for limit, p, beyond in ((low, e.p_above(bound), low > bound), (high, e.p_below(bound), high < bound)):
        if abs(limit - bound) > 1e-7:
            assert (p <= alpha) == beyond


@given(st.floats(-0.99, 0.99), st.floats(-5, 5))
def test_hall_inverts(a: float, t: float) -> None:
    assert hall_inverse(hall(t, a), a) == pytest.approx(t, abs=1e-6)


@pytest.mark.parametrize(
    "y", [np.empty((0, 0)), np.empty((0, 3)), np.ones((1, 3)), np.full((5, 3), np.nan), np.ones((30, 1))]
)
def test_too_little_has_no_limits(y: np.ndarray) -> None:
    found = estimate({"a": y}).overall
    assert not found.usable
    assert all(math.isnan(x) for x in found.limits(0.025))
    assert found.p_above(-100) == 1.0 and found.p_below(100) == 1.0


def test_a_weighted_stratum_without_data_is_not_filled_in() -> None:
    found = estimate({"a": np.random.default_rng(0).normal(size=(40, 3)), "b": np.empty((0, 0))})
    assert math.isnan(found.overall.mean) and found.strata["a"].usable
    assert estimate({"a": np.ones((40, 3)), "b": np.empty((0, 0))}, {"a": 1.0, "b": 0.0}).overall.mean == 1.0


def test_limits_are_shown_only_where_the_sample_bears_them() -> None:
    """Two prompts in one block: limits of a ratio from nothing to billions. Twelve: an interval."""
    rng = np.random.default_rng(3)
    few, more = ({"a": rng.normal(0.2, 1.0, size=(n, 1))} for n in (2, 12))
    for method in METHODS:
        two, twelve = alternative(few, None, method).strata["a"], alternative(more, None, method).strata["a"]
        assert not two.tells(0.025) and twelve.tells(0.025), method
        told = decide([Claim("a", e, 0.0, blocked=floor_problem(e)) for e in (two, twelve)], 0.025)[1]
        assert told[0].interval is None and told[0].estimate is not None and told[1].interval is not None
    same = estimate({"a": np.full((2, 2), 0.5)}).strata["a"]
    assert same.tells(0.025) and same.limits(0.025) == (0.5, 0.5)


def test_a_claim_that_decides_keeps_its_interval_however_wide() -> None:
    y = np.random.default_rng(1).normal(0, 1e-6, size=(20, 2)) + np.array([0.0, 0.1])
    one = estimate({"a": y}).strata["a"]
    assert one.df < 2 and not floor_problem(one)
    assert decide([Claim("a", one, 10.0)], 0.025)[1][0].interval is not None


def test_one_prompt_is_not_one_prompts() -> None:
    assert floor_problem(estimate({"a": np.ones((1, 2))}).strata["a"]) == "1 prompt; an interval needs at least 12"
