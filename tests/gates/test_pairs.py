"""Pairing: the same prompt in the same block on two arms, and nothing that vanishes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from draftgate.gates.evidence import Evidence
from draftgate.gates.pairs import paired

PLAN = {"candidate": "fast", "decoding": {"temperature": 0.0}, "strata": [{"name": "a", "weight": 1.0}]}


def requests(prompts: int = 3, blocks: int = 2, turns: int = 1) -> pd.DataFrame:
    rows = [
        {
            "arm": arm,
            "stratum": "a",
            "prompt_id": f"p{p}",
            "family_id": f"p{p}",
            "block": b,
            "turn": t,
            "entry": "warm",
            "total_ns": (100 + p) * factor * (1 + t),
            "new_tokens": 10,
            "excluded": "",
            "forced": False,
        }
        for arm, factor in (("champion_alone", 10), ("fast", 5))
        for p in range(prompts)
        for b in range(blocks)
        for t in range(turns)
    ]
    return pd.DataFrame(rows)


def evidence(frame: pd.DataFrame, **plan: object) -> Evidence:
    return Evidence.without_tables({**PLAN, **plan}).replace(requests=frame)


def test_log_ratio_by_prompt_and_block() -> None:
    found = paired(evidence(requests(turns=3)), "fast")
    assert found.values["a"] == pytest.approx(np.full((3, 2), -math.log(2)))
    assert found.raw["a"][1][1] == pytest.approx(101 * 10 * 6)  # turns are summed
    assert not found.problems


def test_row_order_does_not_matter() -> None:
    frame = requests(prompts=6)
    frame["total_ns"] *= np.random.default_rng(0).uniform(0.5, 2, len(frame))
    mixed = frame.sample(frac=1, random_state=1)
    assert np.array_equal(paired(evidence(frame), "fast").values["a"], paired(evidence(mixed), "fast").values["a"])


def test_siblings_are_one_cluster() -> None:
    frame = requests()
    frame.loc[frame["prompt_id"] == "p1", "family_id"] = "p0"
    found = paired(evidence(frame), "fast")
    assert found.values["a"].shape == (2, 2) and found.sizes["a"].tolist() == [2, 1]


def test_cold_entries_are_apart() -> None:
    frame = requests()
    cold = frame[frame["prompt_id"] == "p0"].assign(entry="cold", total_ns=10**9)
    assert paired(evidence(pd.concat([frame, cold])), "fast").values["a"] == pytest.approx(-math.log(2))


def test_an_excluded_request_drops_its_pair_and_comes_back_with_all_data() -> None:
    frame = requests()
    hit = (frame["arm"] == "fast") & (frame["prompt_id"] == "p0") & (frame["block"] == 1)
    frame.loc[hit, ["excluded", "total_ns"]] = ["probe", 10**9]
    found = paired(evidence(frame), "fast").values["a"]
    assert np.isnan(found[0, 1]) and np.isnan(found).sum() == 1
    assert not np.isnan(paired(evidence(frame).replace(with_excluded=True), "fast").values["a"]).any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -5.0])
def test_an_unusable_time_is_a_problem_not_a_gap(bad: float) -> None:
    frame = requests()
    frame["total_ns"] = frame["total_ns"].astype(float)
    frame.loc[2, "total_ns"] = bad
    found = paired(evidence(frame), "fast")
    assert "a" not in found.values and "1 of 12 values" in str(found.problem("a"))


def test_what_cannot_be_paired_is_said() -> None:
    frame = requests()
    assert "no timed requests of arm slow" in str(paired(evidence(frame), "slow").problem("a"))
    assert "duplicated" in str(paired(evidence(pd.concat([frame, frame.head(1)])), "fast").problem("a"))
    assert "not paired" in str(paired(evidence(frame.drop(index=0)), "fast").problem("a"))
    assert "lack" in str(paired(evidence(frame.drop(columns="block")), "fast").problem("a"))
    assert "no timed requests" in str(paired(evidence(frame.head(0)), "fast").problem("a"))
    assert paired(evidence(frame), "fast").problem("nowhere") == "no pairs in this stratum"
    assert "excluded" in str(paired(evidence(frame.assign(excluded="steal")), "fast").problem("a"))


def test_a_sampling_plan_is_timed_on_the_candidates_tokens() -> None:
    sampling = {"decoding": {"temperature": 0.7}}
    frame = requests()
    assert "not timed on the candidate's own tokens" in str(paired(evidence(frame, **sampling), "fast").problem("a"))
    own = frame[frame["arm"] == "champion_alone"].assign(total_ns=1)
    forced = frame.assign(forced=frame["arm"] == "champion_alone")
    found = paired(evidence(pd.concat([forced, own]), **sampling), "fast")
    assert found.values["a"] == pytest.approx(-math.log(2))


def test_time_per_token_for_texts_of_two_lengths() -> None:
    frame = requests()
    frame.loc[frame["arm"] == "fast", "new_tokens"] = 20
    assert paired(evidence(frame), "fast", per_token=True).values["a"] == pytest.approx(-math.log(4))
    assert "no token" in str(paired(evidence(frame.assign(new_tokens=0)), "fast", per_token=True).problem("a"))


def test_pairs_are_made_once_and_again_for_other_requests() -> None:
    """What is remembered holds for the same requests, level and exclusions alone."""
    first = evidence(requests())
    assert paired(first, "fast") is paired(first.replace(method="median"), "fast")
    slower = requests().assign(total_ns=lambda f: f["total_ns"] * np.where(f["arm"] == "fast", 4, 1))
    for changed, factor in ((first.replace(requests=slower), 4.0), (first, 1.0)):
        assert np.exp(paired(changed, "fast").values["a"]) == pytest.approx(0.5 * factor)
    dropped = requests().assign(excluded=lambda f: np.where(f["block"] == 0, "steal", ""))
    some = evidence(dropped)
    assert np.isnan(paired(some, "fast").values["a"]).any()
    assert not np.isnan(paired(some.replace(with_excluded=True), "fast").values["a"]).any()
    assert paired(some, "champion_alone", "fast").values["a"].shape == (3, 2)
