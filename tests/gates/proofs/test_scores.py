"""PIT and shift against brute force, and the family's tests against known answers."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from draftgate.gates.proofs import family
from draftgate.gates.proofs.scores import score_token
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

TOTAL = 1 << 12


def masses(size: int) -> st.SearchStrategy[np.ndarray]:
    cuts = st.lists(st.integers(0, TOTAL), min_size=size - 1, max_size=size - 1)
    return cuts.map(lambda c: np.diff([0, *sorted(c), TOTAL]).astype(np.uint64))


@settings(deadline=None)
@given(masses(5), masses(5))
def test_the_shift_has_mean_zero_and_points_at_the_draft(q: np.ndarray, p: np.ndarray) -> None:
    under_q = under_p = Fraction(0)
    tv = 0.0
    for token in range(5):
        if q[token] == 0:
            continue
        score = score_token(q, p, token, 0.5, 0.5)
        tv = score.tv
        under_q += Fraction(int(q[token]), TOTAL) * Fraction(score.shift)
    under_p = sum(Fraction(int(p[x]), TOTAL) for x in range(5) if p[x] > q[x]) - Fraction(
        sum(int(q[x]) for x in range(5) if p[x] > q[x]), TOTAL
    )
    assert under_q == 0
    assert float(under_p) == pytest.approx(tv)
    assert tv == pytest.approx(0.5 * float(np.abs(q.astype(float) - p.astype(float)).sum()) / TOTAL)


@settings(deadline=None)
@given(masses(6), masses(6))
def test_pit_intervals_tile_the_unit_interval_in_the_ratio_order(q: np.ndarray, p: np.ndarray) -> None:
    for name in ("pit_ratio", "pit_id"):
        spans = sorted(
            (getattr(score_token(q, p, x, 0.0, 0.0), name), getattr(score_token(q, p, x, 1.0, 1.0), name))
            for x in range(6)
            if q[x] > 0
        )
        assert spans[0][0] == 0 and spans[-1][1] == 1
        assert all(a[1] == pytest.approx(b[0]) for a, b in itertools.pairwise(spans))
    at = sorted((score_token(q, p, x, 0.5, 0.5).pit_ratio, int(p[x]) / int(q[x])) for x in range(6) if q[x])
    assert [ratio for _, ratio in at] == sorted(ratio for _, ratio in at)


def test_a_token_the_champion_cannot_emit_is_refused() -> None:
    with pytest.raises(ValueError, match="no champion mass"):
        score_token(np.array([0, TOTAL], np.uint64), np.array([TOTAL, 0], np.uint64), 0, 0.5, 0.5)


def test_a_mixture_towards_the_draft_is_rejected_and_the_champion_is_not() -> None:
    rng = np.random.default_rng(5)
    rejected = {0.0: 0, 0.3: 0}
    for mix in rejected:
        for _ in range(20):
            values = []
            for _ in range(400):
                q, p = (rng.multinomial(TOTAL, rng.dirichlet(np.ones(6))).astype(np.uint64) for _ in range(2))
                law = (1 - mix) * q.astype(float) + mix * np.where(q > 0, p, 0).astype(float)
                token = int(rng.choice(6, p=law / law.sum()))
                values.append(score_token(q, p, token, rng.random(), rng.random()).pit_ratio)
            rejected[mix] += family.uniform_p_value(np.array(values)) < 0.01
    assert rejected[0.0] <= 2 and rejected[0.3] >= 18


def test_g_test_is_exact_about_impossible_cells_and_pools_small_ones() -> None:
    assert family.g_test([10, 1, 0], [0.5, 0.0, 0.5]).p_value == 0.0
    pooled = family.g_test([50, 48, 1, 1], [0.49, 0.49, 0.01, 0.01])
    assert pooled.degrees == 2 and 0.05 < pooled.p_value <= 1
    with pytest.raises(ValueError):
        family.g_test([], [])


def test_the_stated_power_is_reached_by_simulation() -> None:
    n = family.sample_size(0.1, 8, 0.01, 0.9)
    shifted = np.array([1 / 8 + 0.025] * 4 + [1 / 8 - 0.025] * 4)
    rng = np.random.default_rng(1)
    hits = sum(family.g_test(rng.multinomial(n, shifted), [1 / 8] * 8).p_value <= 0.01 for _ in range(400))
    assert 0.84 <= hits / 400 <= 0.96


def test_a_family_counts_a_missing_p_value_as_a_rejection() -> None:
    result = family.judge_family({"a": 0.5, "b": float("nan")}, 0.05)
    assert result.rejected == ("b",) and not result.ok
    with pytest.raises(ValueError):
        family.judge_family({}, 0.05)


def test_proportion_intervals_agree_with_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for successes, n in [(0, 600), (3, 600), (600, 600), (17, 40)]:
        assert family.wilson(successes, n) == pytest.approx(proportion_confint(successes, n, method="wilson"), abs=1e-9)
        assert family.clopper_pearson(successes, n) == pytest.approx(
            proportion_confint(successes, n, method="beta"), abs=1e-9
        )


def test_one_per_cent_of_total_variation_asks_for_the_tokens_the_specification_names() -> None:
    assert 15_000 <= family.shift_sample_size(0.01, 0.05, 0.8, 0.5) <= 21_000


def test_powers_and_p_values_agree_with_scipy() -> None:
    for n, cells, level in [(200, 4, 0.05), (5000, 16, 0.01)]:
        critical = stats.chi2.isf(level, cells - 1)
        expected = float(stats.ncx2.sf(critical, cells - 1, 4 * n * 0.03**2))
        assert family.g_test_power(0.03, cells, n, level) == pytest.approx(expected, rel=1e-9)
    found = family.g_test([30, 20, 50], [0.3, 0.3, 0.4])
    theirs = stats.power_divergence([30, 20, 50], [30, 30, 40], lambda_=0).pvalue
    assert found.p_value == pytest.approx(theirs, rel=1e-9)
