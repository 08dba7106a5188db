"""Acceptance: three estimands against counting, Kaplan–Meier oracles and the truth."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from draftgate.gates import survival
from draftgate.gates.calibration.estimands import K, naive_product_limit, population, trace
from draftgate.gates.clusters import cluster_sums
from draftgate.gates.entropy import entropy_calibration
from draftgate.gates.fixed_k import product_limit
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

Round = tuple[int, int, int]  # prompt, proposed, accepted


def frame(rows: list[Round], **more: object) -> pd.DataFrame:
    prompt, proposed, accepted = (list(x) for x in zip(*rows, strict=True)) if rows else ([], [], [])
    return pd.DataFrame(
        {
            "arm": "neural_draft",
            "stratum": [f"s{p % 2}" for p in prompt],
            "prompt_id": prompt,
            "proposed": proposed,
            "accepted": accepted,
        }
    ).assign(**more)


def drawn(n: int = 400, prompts: int = 12, k: int = 4, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    prompt, proposed = rng.integers(0, prompts, n), rng.integers(0, k + 1, n)
    return frame([(int(p), int(m), int(rng.integers(0, m + 1))) for p, m in zip(prompt, proposed, strict=True)])


rounds = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)).map(lambda t: (t[0], t[1], min(t[1], t[2]))),
    min_size=1,
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(rounds)
def test_estimates_are_counts(rows: list[Round]) -> None:
    table = frame(rows)
    found = survival(table, 0)
    for stratum, part in [("*", table), *table.groupby("stratum")]:
        proposed, accepted = part["proposed"].to_numpy(), part["accepted"].to_numpy()
        for curve in (c for c in found.curves if c.stratum == stratum):
            for i, value in enumerate(curve.estimate, start=1):
                above = accepted >= i
                below = (
                    np.ones(len(part), bool) if curve.estimand == "policy" else (proposed >= i) & (accepted >= i - 1)
                )
                if curve.weighting == "round":
                    assert value == pytest.approx(above.sum() / below.sum())
                else:
                    shares = [
                        above[m].sum() / below[m].sum()
                        for p in set(part["prompt_id"])
                        if below[m := (part["prompt_id"] == p).to_numpy()].any()
                    ]
                    assert value == pytest.approx(np.mean(shares))
                low, high = curve.lower[i - 1], curve.upper[i - 1]
                assert (math.isnan(low) and math.isnan(high)) or 0 <= low <= value <= high <= 1


@settings(max_examples=30, deadline=None)
@given(rounds)
def test_the_sum_of_policy_survival_is_the_mean_accepted(rows: list[Round]) -> None:
    table = frame([(0, p, a) for _, p, a in rows])
    found = survival(table, 0)
    if not found.curves:
        return
    assert found.curve("neural_draft").tokens_per_round == pytest.approx(1 + table["accepted"].mean())
    assert found.tokens[0].expected == pytest.approx(1 + table["accepted"].mean())


def test_expected_and_observed_tokens_part_at_the_end_of_an_answer() -> None:
    table = frame([(0, 4, 4), (0, 4, 2)], emitted=[4, 3])  # the first round ended on its fourth token: no bonus
    tokens = survival(table, 0).tokens[0]
    assert (tokens.expected, tokens.observed) == (4.0, 3.5)


def test_row_order_and_column_types_do_not_matter() -> None:
    table = drawn()
    base = survival(table, 50, np.random.default_rng(1)).frame()
    mixed = survival(table.sample(frac=1, random_state=3), 0).frame()
    for other in (mixed, survival(table.astype({"arm": "category", "proposed": float, "accepted": "int8"}), 0).frame()):
        both = base.merge(other, on=["arm", "stratum", "estimand", "weighting", "position"])
        assert len(both) == len(base) and np.allclose(both["estimate_x"], both["estimate_y"])
        assert np.allclose(both["lower_x"], both["lower_y"], equal_nan=True)


def test_band_holds_the_intervals_and_needs_its_generator_only() -> None:
    table = drawn()
    a, b = (survival(table, 300, np.random.default_rng(5)).frame() for _ in range(2))
    assert a.equals(b) and a.equals(a)
    for resamples in (0, 300):
        f = survival(table, resamples).frame().dropna()
        assert (f["band_lower"] <= f["lower"]).all() and (f["band_upper"] >= f["upper"]).all()
        assert (f["lower"] >= 0).all() and (f["band_upper"] <= 1).all()


def test_all_accepted_is_not_certain() -> None:
    curve = survival(frame([(p, 3, 3) for p in range(20)]), 100).curve("neural_draft")
    assert (curve.estimate == 1).all() and (curve.upper == 1).all()
    assert curve.lower[0] == pytest.approx(0.025 ** (1 / 20))


def test_one_prompt_has_no_interval_and_nobody_reached_is_not_available() -> None:
    curve = survival(frame([(0, 4, 0)] * 5 + [(0, 4, 1)]), 100).curve("neural_draft", estimand="conditional")
    assert math.isnan(curve.lower[0]) and math.isnan(curve.band_upper[0])
    assert curve.estimate.tolist()[:2] == [pytest.approx(1 / 6), 0.0] and len(curve.estimate) == 2


def test_nothing_to_see() -> None:
    assert survival(drawn().head(0), 10).curves == ()
    silent = survival(frame([(0, 0, 0), (1, 0, 0)]), 10)
    assert silent.curves == () and silent.tokens[0].expected == 1.0
    assert silent.frame().empty


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accepted": [9, 1]}, "accepted more"),
        ({"proposed": [-1, 1], "accepted": [-2, 0]}, "negative"),
        ({"accepted": [math.nan, 1]}, "whole number"),
        ({"accepted": [0.5, 1]}, "whole number"),
        ({"arm": [None, "x"]}, "no arm"),
    ],
)
def test_impossible_rounds_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        survival(frame([(0, 2, 1), (1, 2, 1)]).assign(**change), 0)
    with pytest.raises(ValueError, match="lack"):
        survival(frame([(0, 2, 1)]).drop(columns="accepted"))


def test_stopped_short_rounds_give_no_product_limit() -> None:
    """A policy that stops in doubt: shadow replay is right, the naive product-limit is far off and is refused."""
    rng = np.random.default_rng(1)
    skill = population(300, rng)
    t = trace(rng, skill)
    shadow = survival(t.rounds, 0, shadow=t.shadow)
    assert shadow.curve("neural_draft", "a", "fixed-k").estimate == pytest.approx(t.truth, abs=0.02)
    assert shadow.curve("neural_draft", "a", "fixed-k").source == "shadow"
    assert naive_product_limit(t.rounds)[K - 1] > t.truth[K - 1] + 0.03
    refused = survival(t.rounds, 0)
    assert "of their own accord" in refused.notes[0]
    with pytest.raises(KeyError):
        refused.curve("neural_draft", "a", "fixed-k")
    probed = survival(t.rounds.assign(probe=t.rounds["proposed"] == K), 0)  # (a biased probe, but a probe column)
    assert probed.curve("neural_draft", "a", "fixed-k").source == "probe"


def test_randomised_probes_give_the_full_block_and_doubtful_ones_do_not() -> None:
    """A tenth of the rounds at full K, by lot: their product-limit is the truth, whatever the policy did elsewhere."""
    rng = np.random.default_rng(5)
    t = trace(rng, population(300, rng))
    full = (np.cumprod(rng.random((6000, K)) < 0.6, axis=1)).sum(axis=1)
    probes = frame([(i % 60, K, int(a)) for i, a in enumerate(full)]).assign(
        arm="neural_draft", stratum="a", requested=K, censored="none", probe=True,
        outcome=np.where(full == K, "accepted_all", "rejected"),
        entropy=[[0.5] * K] * len(full),
    )  # fmt: skip
    adaptive = t.rounds.assign(probe=False, entropy=[[0.5]] * len(t.rounds))
    curve = survival(pd.concat([adaptive, probes], ignore_index=True), 0).curve("neural_draft", "a", "fixed-k")
    assert curve.source == "probe" and curve.estimate == pytest.approx(0.6 ** np.arange(1, K + 1), abs=0.02)
    cut = probes.assign(proposed=np.where(probes.index % 7 == 0, 1, K), outcome="accepted_all")
    cut["accepted"] = np.minimum(cut["accepted"], cut["proposed"])
    refused = survival(cut, 0)
    assert "ended in doubt" in refused.notes[0] and not any(c.estimand == "fixed-k" for c in refused.curves)
    lookup = survival(cut.assign(entropy=[[]] * len(cut)), 0)
    assert any(c.source == "probe" for c in lookup.curves)


def test_product_limit_is_kaplan_meier() -> None:
    """Exogenous censoring: scipy's Kaplan–Meier, and R's published curve for survival::aml (maintained)."""
    rng = np.random.default_rng(0)
    life, cut = rng.integers(0, 6, 300), rng.integers(1, 6, 300)
    accepted = np.minimum(life, cut)
    censored = accepted == cut
    table = pd.DataFrame(
        {
            "arm": "a",
            "stratum": "s",
            "prompt_id": rng.integers(0, 20, 300),
            "requested": 5,
            "proposed": cut,
            "accepted": accepted,
            "tested": np.minimum(accepted + 1, cut),
            "outcome": np.where(censored, "length", "rejected"),
            "censored": np.where(cut < 5, "length", "none"),
        }
    )
    curve = survival(table, 200).curve("a", "s", "fixed-k")
    assert curve.source == "product-limit"
    sample = stats.CensoredData(uncensored=accepted[~censored] + 1.0, right=accepted[censored] + 0.5)
    oracle = stats.ecdf(sample).sf
    assert curve.estimate == pytest.approx([float(oracle.evaluate(i)) for i in range(1, 6)])
    events = np.array([1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0])
    aml = product_limit(events.astype(float), np.arange(11, 0, -1).astype(float))
    assert [round(x, 3) for x in aml[events == 1]] == [0.909, 0.818, 0.716, 0.614, 0.491, 0.368, 0.184]


def test_a_stop_inside_the_block_ends_survival() -> None:
    """Half the rounds stop on their second token; they count as not surviving, not as unknown."""
    table = pd.DataFrame(
        {
            "arm": "a",
            "stratum": "s",
            "prompt_id": range(40),
            "requested": 4,
            "proposed": [2, 4] * 20,
            "accepted": [2, 4] * 20,
            "tested": [2, 4] * 20,
            "outcome": ["stop", "accepted_all"] * 20,
            "censored": "none",
        }
    )
    assert survival(table, 0).curve("a", "s", "fixed-k").estimate.tolist() == [1.0, 1.0, 0.5, 0.5]
    cut = table.assign(outcome=["length", "accepted_all"] * 20, censored=["length", "none"] * 20)
    assert survival(cut, 0).curve("a", "s", "fixed-k").estimate.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_many_rounds_are_reduced_to_their_prompts() -> None:
    big = pd.concat([drawn(seed=s) for s in range(3)] * 50, ignore_index=True)
    sums = cluster_sums(big)
    assert len(sums.cluster) == 12 and int(sums.rounds.sum()) == len(big)
    import draftgate.gates.clusters as clusters

    whole, clusters.CHUNK = sums, 1000
    try:
        assert np.array_equal(cluster_sums(big).tested, whole.tested)
    finally:
        clusters.CHUNK = 1 << 20


def test_entropy_calibration() -> None:
    rng = np.random.default_rng(0)
    entropy = [rng.uniform(0, 3, 3) for _ in range(6000)]
    accepted = [int(np.cumprod(rng.random(3) < np.exp(-e / 2)).sum()) for e in entropy]
    table = frame([(i % 30, 3, a) for i, a in enumerate(accepted)])
    table = table.assign(tested=np.minimum(table["accepted"] + 1, 3), entropy=entropy)
    found = entropy_calibration(table, bins=5)
    assert len(found) == 5 and np.corrcoef(found["entropy"], found["acceptance"])[0, 1] < -0.9
    assert found["tested"].sum() == table["tested"].sum()
    assert np.allclose(found["acceptance"], np.exp(-found["entropy"] / 2), atol=0.04)
    assert ((found["lower"] < found["acceptance"]) & (found["acceptance"] < found["upper"])).all()
    assert entropy_calibration(table.assign(entropy=[[]] * len(table))).empty
    assert entropy_calibration(table.head(0)).empty
    assert len(entropy_calibration(table.assign(entropy=[[1.0] * 3] * len(table)))) == 1


@pytest.mark.long
def test_ten_million_rounds() -> None:
    """5,000 prompts, 2,000 resamples; peak memory above the frame stays small because only cluster sums are
    resampled."""
    import tracemalloc

    rng = np.random.default_rng(0)
    n = 10_000_000
    prompt, proposed = rng.integers(0, 5000, n).astype(np.int32), rng.integers(0, 6, n).astype(np.int8)
    names = np.array([f"p{i}" for i in range(5000)], object)
    table = pd.DataFrame(
        {
            "arm": pd.Categorical.from_codes(np.zeros(n, np.int8), ["neural_draft"]),
            "stratum": pd.Categorical.from_codes((prompt % 14).astype(np.int8), [f"s{i}" for i in range(14)]),
            "prompt_id": pd.Categorical.from_codes(prompt, names),
            "proposed": proposed,
            "accepted": np.minimum(proposed, rng.geometric(0.4, n) - 1),
        }
    )
    tracemalloc.start()
    found = survival(table, 2000, np.random.default_rng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.curve("neural_draft").clusters == 5000 and peak < 1.2e9
