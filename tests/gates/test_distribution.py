"""Tests of distributions, and sequential inference that may be looked at whenever one likes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from draftgate.gates.distribution import (
    exact_multinomial,
    g_test,
    pit_family,
    shift,
    two_sample_counts,
    two_sample_sequences,
    uniform_power,
)
from draftgate.gates.sequential import boundary, confidence_sequence, e_process, log_mixture, tuned_rho
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(any), st.integers(0, 10**6))
def test_exact_multinomial_counts_every_table(counts: list[int], seed: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(len(counts)))
    n = sum(counts)
    seen = stats.multinomial.pmf(counts, n, p)
    tables = [t for t in product(range(n + 1), repeat=len(counts)) if sum(t) == n]
    oracle = sum(q for t in tables if (q := stats.multinomial.pmf(t, n, p)) <= seen * (1 + 1e-9))
    assert exact_multinomial(counts, p) == pytest.approx(oracle, rel=1e-6)


def test_exact_binomial_as_published() -> None:
    """R: binom.test(7, 20, .3)$p.value = 0.6295, binom.test(682, 925, .75)$p.value = 0.3825."""
    assert exact_multinomial([7, 13], [0.3, 0.7]) == pytest.approx(0.6295, abs=5e-4)
    assert exact_multinomial([682, 243], [0.75, 0.25]) == pytest.approx(0.3825, abs=5e-4)


def test_exact_multinomial_edges() -> None:
    assert exact_multinomial([3, 1], [1.0, 0.0]) == 0.0
    assert exact_multinomial([4, 0], [1.0, 0.0]) == 1.0
    for counts, p in (([0, 0], [0.5, 0.5]), ([1, 2, 3], [0.5, 0.5])):
        with pytest.raises(ValueError, match="match and not be empty"):
            exact_multinomial(counts, p)
    with pytest.raises(ValueError, match="use g_test"):
        exact_multinomial([200] * 8, [1 / 8] * 8)


def test_g_test_is_scipys() -> None:
    counts, p = [30, 50, 20], [0.25, 0.5, 0.25]
    oracle = stats.power_divergence(counts, [100 * x for x in p], lambda_="log-likelihood")
    assert g_test(counts, p).p_value == pytest.approx(oracle.pvalue)


def scores(n: int, move: float = 0.0, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    mass = rng.beta(2, 3, size=n)
    return pd.DataFrame(
        {
            "in_excess": rng.random(n) < mass + move,
            "excess_mass": mass,
            "pit_ratio": rng.random(n),
            "pit_id": rng.random(n),
        }
    )


def test_shift_is_placed_only_with_enough_tokens() -> None:
    assert shift(scores(60_000), 0.025).inside
    few = shift(scores(2_000), 0.025)
    assert not few.inside and not few.outside
    moved = shift(scores(60_000, 0.04), 0.025)
    assert moved.outside and moved.evidence.rejected_at is not None and moved.evidence.rejected_at < 20_000
    with pytest.raises(ValueError, match="NaN"):
        shift(scores(10).assign(excess_mass=math.nan), 0.025)


def test_pit_family_rejects_and_never_accepts_a_broken_score() -> None:
    assert pit_family(scores(5000)).rejected(0.025) == []
    assert pit_family(scores(5000).assign(pit_id=lambda f: f["pit_id"] ** 1.3)).rejected(0.025)
    assert "pit_ratio" in pit_family(scores(50).assign(pit_ratio=math.nan)).rejected(0.025)
    assert "pit_ratio" in pit_family(scores(50).assign(pit_ratio=1.2)).rejected(0.025)
    walk = scores(5000)
    walk["pit_ratio"] = np.repeat(walk["pit_ratio"].to_numpy()[::2], 2)
    assert "pit_ratio_neighbours" in pit_family(walk).rejected(0.025)
    assert pit_family(scores(0)).p_values == {}


def test_confidence_sequence_holds_at_every_time() -> None:
    """Looked at after each of 2,000 observations, it misses in at most alpha of the runs a side."""
    rng = np.random.default_rng(0)
    n, runs, alpha = 2000, 400, 0.05
    rho = tuned_rho(0.25 * n, alpha)
    above = below = 0
    for _ in range(runs):
        p = rng.beta(2, 3, size=n)
        x = (rng.random(n) < p) - p
        s = np.cumsum(x)
        v = np.cumsum((x - np.concatenate([[0.0], np.cumsum(x)[:-1]]) / np.arange(1, n + 1)) ** 2)
        above += bool((log_mixture(s, v, rho) >= math.log(1 / alpha)).any())
        below += bool((log_mixture(-s, v, rho) >= math.log(1 / alpha)).any())
    most = stats.binom.ppf(0.999, runs, alpha)
    assert above <= most and below <= most


def test_boundary_is_where_the_mixture_reaches_its_level() -> None:
    for v in (1.0, 50.0, 5000.0):
        u = boundary(v, 0.025, 300.0)
        assert float(log_mixture(u, v, 300.0)) == pytest.approx(math.log(40), abs=1e-6)
    assert float(log_mixture(0.0, 0.0, 10.0)) == pytest.approx(0.0, abs=1e-9)


def test_far_on_the_wrong_side_the_mixture_is_small() -> None:
    """Where the incomplete gamma underflows, the evidence goes on falling, and joins what is computed in full."""
    v, rho = 4000.0, 900.0
    s = -np.linspace(0, 6000, 1201)
    log_e = log_mixture(s, np.full(len(s), v), rho)
    assert (log_e[1:] <= log_e[:-1] + 1e-6).all() and log_e.max() <= 0.0
    few = np.arange(1, 60)
    one_sided = np.tile([0.3, -0.3], 30)[: len(few)]
    assert e_process(one_sided, 0.05, planned=20_000).rejected_at is None


def test_sequence_width_and_stopping() -> None:
    rng = np.random.default_rng(1)
    x = rng.choice([-0.5, 0.5], 20_000)
    found = confidence_sequence(x, 0.025)
    fixed = 1.96 * 0.5 / math.sqrt(20_000)
    assert found.lower < 0 < found.upper and 1 < (found.upper - found.mean) / fixed < 2
    assert e_process(x, 0.05).rejected_at is None
    assert confidence_sequence([], 0.025).upper == math.inf and e_process([], 0.05).rejected_at is None
    biased = e_process(x + 0.1, 0.05).rejected_at
    assert biased is not None and biased < 3000


def test_two_black_boxes() -> None:
    rng = np.random.default_rng(0)

    def p_values(shift: float) -> tuple[float, float]:
        left = [tuple(rng.integers(0, 6, 12)) for _ in range(60)]
        right = [tuple(np.where(rng.random(12) < shift, 0, rng.integers(0, 6, 12))) for _ in range(60)]
        return (
            two_sample_counts([s[0] for s in left], [s[0] for s in right], 199, rng).p_value,
            two_sample_sequences(left, right, 199, rng).p_value,
        )

    same = np.array([p_values(0.0) for _ in range(20)])
    assert (same < 0.05).mean(axis=0).max() <= 0.3 and (same > 0.3).any(axis=0).all()
    assert max(p_values(0.5)) <= 0.01
    with pytest.raises(ValueError, match="empty"):
        two_sample_counts([], ["a"], 9, rng)
    with pytest.raises(ValueError, match="two sequences"):
        two_sample_sequences([(1,)], [(1,), (2,)], 9, rng)


def test_stated_power() -> None:
    """Some 20,000 tokens see 1 % of TV (two-sided .05) at the least favourable spread."""
    assert 0.79 < uniform_power(19_700, 0.01, 0.05) < 0.81
