"""Holm, the three-way rule, weighted shares and drift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from draftgate.gates.drift import drift, order_effects
from draftgate.gates.holm import holm
from draftgate.gates.intervals import Estimate
from draftgate.gates.three_way import Claim, decide
from draftgate.gates.weighted_share import weighted_share
from scipy import stats


def test_holm_is_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(0)
    for size in range(1, 13):
        p = np.round(rng.beta(0.5, 1.5, size), 2)
        ours = list(holm({str(i): x for i, x in enumerate(p)}).values())
        assert ours == pytest.approx(multipletests(p, method="holm")[1].tolist())


@pytest.mark.parametrize("value", [math.nan, -0.1, 1.5])
def test_holm_refuses_what_is_no_p_value(value: float) -> None:
    with pytest.raises(ValueError, match=r"no p-value: b "):
        holm({"a": 0.2, "b": value})


def test_there_is_one_holm() -> None:
    from draftgate.gates import distribution, three_way
    from draftgate.gates.proofs import family

    assert family.holm is distribution.holm is three_way.holm is holm


def at(mean: float, se: float = 0.01, **more: object) -> Claim:
    return Claim(str(mean), Estimate(mean, se**2, 1e6, 0.0, 40, 3), 0.0, **more)  # type: ignore[arg-type]


def test_three_ways() -> None:
    assert decide([at(-0.03), at(-0.05)], 0.025)[0] == "pass"
    assert decide([at(-0.03), at(0.001)], 0.025)[0] == "inconclusive"
    assert decide([at(-0.03), at(0.05)], 0.025)[0] == "fail"
    assert decide([], 0.025)[0] == "inconclusive"


def test_failures_are_corrected_and_passes_are_not() -> None:
    """z = 2.1 passes in each of ten strata at .025; z = −2.1 in one of ten does not fail after Holm."""
    assert decide([Claim(str(i), Estimate(-0.021, 1e-4, 1e6, 0, 40, 3), 0.0) for i in range(10)], 0.025)[0] == "pass"
    mixed = [Claim(str(i), Estimate(-0.021, 1e-4, 1e6, 0, 40, 3), 0.0) for i in range(9)]
    assert decide([*mixed, at(0.021)], 0.025)[0] == "inconclusive"
    assert decide([at(0.021)], 0.025)[0] == "fail"


def test_blocked_claims_decide_nothing() -> None:
    assert decide([at(-1.0), at(1.0, blocked="one block")], 0.025)[0] == "inconclusive"
    assert decide([at(-1.0, may_not_pass="8 prompts")], 0.025)[0] == "inconclusive"
    assert decide([at(1.0, may_not_pass="8 prompts")], 0.025)[0] == "fail"
    status, lines = decide([Claim("x", Estimate(math.nan, math.nan, math.nan, 0, 0, 0), 0.0)], 0.025)
    assert status == "inconclusive" and lines[0].estimate is None and lines[0].interval is None


def test_one_weight_is_the_exact_poisson_interval() -> None:
    """R: poisson.test(10)$conf.int = 4.795389 18.390356; poisson.test(0)$conf.int = 0 3.688879."""
    n = 10_000
    hits = np.zeros(n)
    assert weighted_share({"a": hits}, {"a": 1.0}, 0.025).upper * n == pytest.approx(3.688879, rel=1e-6)
    hits[:10] = 1
    found = weighted_share({"a": hits}, {"a": 1.0}, 0.025)
    assert (found.lower * n, found.upper * n) == pytest.approx((4.795389, 18.390356), rel=1e-6)


def test_weighted_share_keeps_its_level() -> None:
    """Strata of unequal weight and size, a share of 5 %: the upper limit lies below the truth at most alpha of the
    time."""
    rng = np.random.default_rng(0)
    sizes, weights = {"a": 20, "b": 40, "c": 100}, {"a": 0.5, "b": 0.3, "c": 0.2}
    below = above = 0
    for _ in range(2000):
        found = weighted_share({s: rng.random(n) < 0.05 for s, n in sizes.items()}, weights, 0.025)
        below, above = below + (found.upper < 0.05), above + (found.lower > 0.05)
    assert below <= stats.binom.ppf(0.999, 2000, 0.025) and above <= stats.binom.ppf(0.999, 2000, 0.025)


def test_no_data_is_no_share() -> None:
    found = weighted_share({}, {}, 0.025)
    assert math.isnan(found.estimate) and found.upper == 1.0 and found.n == 0


def test_drift_is_the_change_from_first_to_last_block() -> None:
    rng = np.random.default_rng(2)
    block = np.array([-0.02, 0.0, 0.02])
    values = {s: rng.normal(scale=0.1, size=(30, 1)) + block + rng.normal(scale=0.002, size=(30, 3)) for s in "abcd"}
    found = drift(values, dict.fromkeys("abcd", 0.25))
    low, high = found.limits(0.025)
    assert found.mean == pytest.approx(0.04, abs=0.001) and high - low < 0.01
    assert not drift(
        {"a": values["a"][:, :2]}, {"a": 1.0}
    ).usable  # two blocks, one stratum: nothing tells drift from noise
    assert drift({s: y[:, :2] for s, y in values.items()}, dict.fromkeys("abcd", 0.25)).df == 3


def test_order_effects_need_the_order() -> None:
    import pandas as pd

    frame = pd.DataFrame({"arm": "x", "stratum": "a", "prompt_id": ["p", "p"], "order": [0, 1], "total_ns": [100, 121]})
    table = order_effects(frame)
    assert table["effect"].tolist() == pytest.approx([-math.log(1.1), math.log(1.1)])
    assert order_effects(frame.drop(columns="order")).empty
