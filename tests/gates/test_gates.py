"""Every default gate: passes where it should, fails where it should, and turns bad data into neither."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from draftgate.gates.calibration.simulate import Truth
from draftgate.gates.evidence import Evidence, Ledger
from draftgate.gates.registry import build_check, checks, default_gates
from draftgate.gates.result import GateResult
from support.gate_world import good_evidence, stochastic_evidence

GOOD = good_evidence()
SAMPLED = stochastic_evidence()
TIMED = ("control", "speedup", "no-regression", "tail", "ttft", "break-even")


def ask(gate: str, evidence: Evidence, **params: object) -> GateResult:
    return build_check({"id": gate, "params": params}).evaluate(evidence)


def requests(evidence: Evidence, where: Callable[[pd.DataFrame], pd.Series], **changes: object) -> Evidence:
    frame = evidence.requests.copy()
    for column, value in changes.items():
        if isinstance(value, float) and column in frame:
            frame[column] = frame[column].astype(float)
        frame.loc[where(frame), column] = value
    return evidence.replace(requests=frame)


def mine(frame: pd.DataFrame) -> pd.Series:
    return frame["arm"] == "prompt_lookup"


@pytest.mark.parametrize("gate", checks())
def test_a_good_run_passes_every_gate_that_applies(gate: str) -> None:
    expected = {
        "exact-law": "not-applicable",
        "provenance": "not-applicable",
        "beats-lookup": "not-applicable",
        "energy": "not-measured",
    }.get(gate, "pass")
    assert ask(gate, GOOD).status == expected


@pytest.mark.parametrize("gate", checks())
def test_empty_evidence_passes_nothing(gate: str) -> None:
    empty = Evidence.without_tables(GOOD.plan)
    result = ask(gate, empty)
    assert result.status in ("inconclusive", "not-measured", "not-applicable", "invalid"), result
    assert (result.reason and result.estimate is None) or result.status == "not-applicable"


@pytest.mark.parametrize("gate", TIMED)
@pytest.mark.parametrize("spoil", ["nan", "zero", "infinite", "duplicate", "arm", "column", "one prompt", "one block"])
def test_spoilt_timings_decide_nothing(gate: str, spoil: str) -> None:
    frame = GOOD.requests.copy()
    column = "ttft_ns" if gate == "ttft" else "total_ns"
    frame[column] = frame[column].astype(float)
    row = frame.index[mine(frame)][0]
    if spoil in ("nan", "zero", "infinite"):
        frame.loc[row, column] = {"nan": math.nan, "zero": 0.0, "infinite": math.inf}[spoil]
    elif spoil == "duplicate":
        frame = pd.concat([frame, frame.loc[[row]]], ignore_index=True)
    elif spoil == "arm":
        frame = frame[~mine(frame)]
    elif spoil == "column":
        frame = frame.drop(columns=column)
    elif spoil == "one prompt":
        frame = frame[frame["prompt_id"].str.endswith("-0")]
    else:
        frame = frame[frame["block"] == 0]
    result = ask(gate, GOOD.replace(requests=frame))
    if (gate, spoil) == ("tail", "one block"):
        return  # a share of prompts needs no block effects
    assert result.status in ("inconclusive", "not-measured"), result
    assert result.reason


@pytest.mark.parametrize(
    ("gate", "truth"), [("speedup", 1.0), ("no-regression", 0.8), ("tail", 0.8), ("ttft", 0.8), ("break-even", 0.8)]
)
def test_a_slow_candidate_fails(gate: str, truth: float) -> None:
    from draftgate.gates.calibration.simulate import simulate
    from support.gate_world import ARMS, World

    arms = {**ARMS, "prompt_lookup": Truth(mean=-math.log(truth), prompt_sd=0.02, noise_sd=0.01, block_sd=0.002)}
    slow = simulate(World(strata=tuple("abcd"), arms=arms), np.random.default_rng(0))
    assert ask(gate, slow).status == "fail"


def test_one_slow_stratum_is_not_averaged_away() -> None:
    slow = requests(GOOD, lambda f: mine(f) & (f["stratum"] == "d"), total_ns=4e9)
    assert ask("no-regression", slow).status == "fail" and "d (" in ask("no-regression", slow).reason
    assert ask("tail", slow).status == "fail"


def test_a_rare_regression_shows_in_the_tail_alone() -> None:
    """One prompt in ten, five times as slow: the mean gate still passes."""
    worse = GOOD.requests.copy()
    hit = mine(worse) & worse["prompt_id"].str.endswith("9")
    worse["total_ns"] = worse["total_ns"].where(~hit, worse["total_ns"] * 2)
    evidence = GOOD.replace(requests=worse)
    assert ask("no-regression", evidence).status == "pass"
    assert ask("tail", evidence).status == "fail"


def test_the_total_time_must_fall_too() -> None:
    """Two huge requests got slower: the geometric mean still gains, the sum does not."""
    frame = GOOD.requests.copy()
    huge = frame["prompt_id"].isin(["b-3", "b-4"])
    frame["total_ns"] = frame["total_ns"].where(~huge, 4e11)
    frame["total_ns"] = frame["total_ns"].where(~(huge & mine(frame)), 4.5e11)
    result = ask("speedup", GOOD.replace(requests=frame))
    assert result.status == "inconclusive" and "total time" in result.reason
    assert result.estimate is not None and result.estimate > 1.3
    assert result.details["total_time"]["estimate"] > 1.0


def test_few_prompts_cannot_confirm() -> None:
    small = good_evidence(prompts=8)
    assert ask("speedup", small).status == "inconclusive" and "8 prompts" in ask("speedup", small).reason
    middling = good_evidence(prompts=24)
    assert ask("speedup", middling).status == "inconclusive" and "40" in ask("speedup", middling).reason
    assert ask("no-regression", middling).status == "inconclusive"  # the designated one has 24, too
    assert ask("speedup", middling, minimum=1.15, designated_prompts=24).status == "pass"


def test_more_than_four_designated_strata_cannot_confirm() -> None:
    plan = {**GOOD.plan, "strata": [{**s, "designated": True} for s in GOOD.plan["strata"]]}
    assert ask("speedup", GOOD.replace(plan=plan)).status == "pass"
    many = good_evidence(strata=tuple("abcde"))
    plan = {**many.plan, "strata": [{**s, "designated": True} for s in many.plan["strata"]]}
    assert "more than four" in ask("speedup", many.replace(plan=plan)).reason


def test_plan_weights_make_the_overall() -> None:
    slow = requests(GOOD, lambda f: mine(f) & (f["stratum"] == "d"), total_ns=2e9)
    heavy = {**GOOD.plan, "strata": [{**s, "weight": 97.0 if s["name"] == "d" else 1.0} for s in GOOD.plan["strata"]]}
    light = ask("speedup", slow).estimate
    heavy_estimate = ask("speedup", slow.replace(plan=heavy)).estimate
    assert light is not None and heavy_estimate is not None and heavy_estimate < 0.7 < light


def test_control_misses_are_never_a_failure() -> None:
    off = requests(GOOD, lambda f: f["arm"] == "champion_again", total_ns=9e9)
    result = ask("control", off)
    assert result.status == "inconclusive" and "A/A" in result.reason
    same = GOOD.requests.copy()
    dummy = same["arm"] == "slowed_dummy"
    same.loc[dummy, "total_ns"] = same.loc[same["arm"] == "champion_alone", "total_ns"].to_numpy()
    assert "dummy" in ask("control", GOOD.replace(requests=same)).reason
    drifting = GOOD.requests.copy()
    factor = np.where(mine(drifting), 1 + 0.05 * drifting["block"], 1.0)
    assert (
        "drift" in ask("control", GOOD.replace(requests=drifting.assign(total_ns=drifting["total_ns"] * factor))).reason
    )


def test_exact_greedy_names_the_mismatch() -> None:
    row = GOOD.requests.index[mine(GOOD.requests)][7]
    wrong = requests(GOOD, lambda f: f.index == row, output_digest="other")
    request = str(GOOD.requests.loc[row, "request_id"])
    found = {"request_id": request, "position": 17, "arm_token": 312, "champion_token": 9, "margin": 0.02}
    audits = {
        **GOOD.audits,
        "greedy_battery": [{"name": "greedy_battery", "ok": False, "n": 1, "detail": {"mismatches": [found]}}],
    }
    result = ask("exact-greedy", wrong.replace(audits=audits))
    assert result.status == "fail" and result.estimate == 1
    for words in (request, "position 17", "token 312", "champion has 9", "0.02"):
        assert words in result.reason
    assert "40 tokens" in ask("exact-greedy", requests(GOOD, lambda f: f.index == row, new_tokens=40)).reason


def test_the_private_answers_show_where_they_part() -> None:
    row = GOOD.requests.index[mine(GOOD.requests)][7]
    wrong = requests(GOOD, lambda f: f.index == row, output_digest="other")
    request = str(GOOD.requests.loc[row, "request_id"])
    answers = {request: [5, 6, 7], request.replace("prompt_lookup", "champion_alone"): [5, 9, 7]}
    result = ask("exact-greedy", wrong.replace(outputs=lambda ids: {i: answers[i] for i in ids}))
    assert f"{request}, position 1: token 6 where the champion has 9" in result.reason
    assert "1 of 480 answers" in ask("exact-greedy", wrong).reason  # withheld: still a failure


def test_audits_that_nobody_else_reads_count() -> None:
    def bad(name: str) -> Evidence:
        return GOOD.replace(
            audits={**GOOD.audits, name: [{"name": name, "ok": False, "n": 3, "detail": {"reason": "seen"}}]}
        )

    assert ask("complete", bad("accounting")).status == "invalid"
    assert ask("reliability", bad("timing_shape")).status == "fail"
    for name in ("greedy_battery", "replay", "enumeration", "fresh_state"):
        assert ask("exact-greedy", bad(name)).status == "fail" and name in ask("exact-greedy", bad(name)).reason


def test_exact_greedy_needs_its_event_classes_and_its_referent() -> None:
    few = GOOD.replace(rounds=GOOD.rounds.head(40))
    assert ask("exact-greedy", few).status == "inconclusive" and "accepted_all" in ask("exact-greedy", few).reason
    battery = {
        "name": "greedy_battery",
        "ok": True,
        "n": 80,
        "detail": {"event_classes": {"accepted_all": 60, "rejected": 60}},
    }
    assert ask("exact-greedy", few.replace(audits={**GOOD.audits, "greedy_battery": [battery]})).status == "pass"
    moody = requests(GOOD, lambda f: f["arm"] == "champion_again", output_digest="mood")
    assert ask("exact-greedy", moody).status == "inconclusive" and "champion_again" in ask("exact-greedy", moody).reason
    assert ask("exact-greedy", requests(GOOD, lambda f: f["arm"] != "", output_digest="")).status == "inconclusive"


def test_exact_law() -> None:
    assert ask("exact-law", SAMPLED).status == "pass"
    assert ask("exact-law", stochastic_evidence(shift=0.05)).status == "fail"
    assert ask("exact-law", stochastic_evidence(tokens=2000)).status == "inconclusive"
    skewed = SAMPLED.replace(scores=SAMPLED.scores.assign(pit_id=SAMPLED.scores["pit_id"] ** 1.1))
    assert ask("exact-law", skewed).status == "fail" and "pit_id" in ask("exact-law", skewed).reason
    less = {k: v for k, v in SAMPLED.audits.items() if k != "replay"}
    assert ask("exact-law", SAMPLED.replace(audits=less)).status == "inconclusive"
    broken = {**SAMPLED.audits, "replay": [{"name": "replay", "ok": False, "n": 9, "detail": {"reason": "round 3"}}]}
    assert "round 3" in ask("exact-law", SAMPLED.replace(audits=broken)).reason
    assert ask("exact-law", requests(SAMPLED, mine, fallback="content filter")).status == "fail"
    holed = SAMPLED.scores["excess_mass"].where(SAMPLED.scores.index != 5)
    assert ask("exact-law", SAMPLED.replace(scores=SAMPLED.scores.assign(excess_mass=holed))).status == "inconclusive"


def test_the_record_gates_are_invalid_rather_than_failed() -> None:
    assert ask("identity", GOOD.replace(plan_id="f" * 64)).status == "invalid"
    assert ask("identity", GOOD.replace(ledger=Ledger(GOOD.ledger.records, "record 7 was edited"))).status == "invalid"
    assert ask("identity", GOOD.replace(ledger=Ledger())).status == "invalid"
    assert ask("identity", GOOD.replace(table_problems=("requests.parquet: belongs to plan 1234",))).status == "invalid"
    assert (
        ask("identity", GOOD.replace(deviations=({"kind": "identity", "reason": "champion.sha256"},))).status
        == "invalid"
    )
    third = {**GOOD.ledger.records[0], "body": {**GOOD.ledger.records[0]["body"], "attempt": 3}}
    assert "attempt 3" in ask("identity", GOOD.replace(ledger=Ledger((third,)))).reason
    assert ask("complete", GOOD.replace(requests=GOOD.requests.iloc[1:])).status == "invalid"
    twice = pd.concat([GOOD.requests, GOOD.requests.head(1)])
    assert "more than once" in ask("complete", GOOD.replace(requests=twice)).reason
    assert "never scheduled" in ask("complete", requests(GOOD, lambda f: f.index == 3, prompt_id="guest")).reason


def test_memory_counts_the_worst_of_enough_fresh_processes() -> None:
    assert ask("memory", GOOD, ratio=1.01).status == "fail"
    assert ask("memory", GOOD, runs=50).status == "inconclusive"
    small = {**GOOD.plan, "memory_envelope_bytes": 100 * 2**20}
    assert "envelope" in ask("memory", GOOD.replace(plan=small)).reason
    spike = GOOD.memory.copy()
    spike.loc[spike["arm"] == "prompt_lookup", "peak_resident_bytes"] = [
        10**9,
        *[10**8] * (sum(spike["arm"] == "prompt_lookup") - 1),
    ]
    assert ask("memory", GOOD.replace(memory=spike)).status == "fail"
    assert ask("memory", GOOD.replace(memory=spike.assign(peak_resident_bytes=math.nan))).status == "inconclusive"


def test_liveness_sees_a_dead_and_a_fading_draft() -> None:
    assert ask("liveness", GOOD.replace(rounds=GOOD.rounds.assign(accepted=0))).status == "fail"
    assert ask("liveness", GOOD.replace(rounds=GOOD.rounds.assign(accepted=0, proposed=0))).status == "inconclusive"
    fading = [{**c, "accepted": 11} if c["where"] == "end" else c for c in GOOD.canaries]
    assert ask("liveness", GOOD.replace(canaries=fading)).status == "fail"
    assert ask("liveness", GOOD.replace(canaries=GOOD.canaries[:2])).status == "inconclusive"
    assert ask("liveness", SAMPLED).status == "pass"
    assert ask("liveness", SAMPLED.replace(canaries=fading)).status == "fail"


def test_quality_is_equal_by_construction_or_measured() -> None:
    moody = requests(GOOD, mine, quality=0.5)
    assert ask("quality", moody).status == "inconclusive"  # equal texts, other scores: the check is at fault
    assert ask("quality", SAMPLED).status == "not-measured"  # champion-alone only re-timed the candidate's texts
    own = SAMPLED.replace(requests=SAMPLED.requests.assign(forced=False))
    assert ask("quality", own).status == "pass"
    assert ask("quality", requests(own, mine, quality=0.5)).status == "fail"
    assert ask("quality", GOOD.replace(requests=GOOD.requests.assign(quality=math.nan))).status == "not-measured"


def test_a_neural_draft_has_to_beat_lookup_and_pay_for_its_load() -> None:
    from draftgate.gates.calibration.simulate import World, simulate

    sd = {"prompt_sd": 0.05, "noise_sd": 0.01, "block_sd": 0.002}
    arms = {"neural_draft": Truth(mean=-0.5, **sd), "prompt_lookup": Truth(mean=-0.3, **sd)}
    world = World(strata=tuple("abcd"), arms=arms, candidate="neural_draft", plan={"draft": {"sha256": "0"}})
    run = simulate(world, np.random.default_rng(0))
    assert ask("beats-lookup", run).status == "pass"
    equal = simulate(
        World(
            strata=tuple("abcd"),
            arms={"neural_draft": Truth(mean=-0.3, **sd), "prompt_lookup": arms["prompt_lookup"]},
            candidate="neural_draft",
        ),
        np.random.default_rng(0),
    )
    assert ask("beats-lookup", equal).status == "fail"
    assert "cold loads" in ask("break-even", run).reason and ask("break-even", run).status == "inconclusive"

    def loaded(ns: float) -> Evidence:
        detail = {"draft_load_ns": [ns * (1 + 0.01 * i) for i in range(12)]}
        return run.replace(
            audits={**run.audits, "cold_loads": [{"name": "cold_loads", "ok": True, "n": 12, "detail": detail}]}
        )

    assert ask("break-even", loaded(1e6)).status == "pass"
    assert ask("break-even", loaded(1e12)).status == "fail"
    n_min = ask("break-even", loaded(1e8)).details["n_min"]
    assert n_min["lower"] < n_min["estimate"] < n_min["upper"] and not n_min["never"]
    assert ask("provenance", run).status == "pass"


def test_audited_gates() -> None:
    for gate, name in (
        ("reliability", "reliability"),
        ("deletion", "deletion"),
        ("privacy", "privacy"),
        ("logit-conformance", "causality"),
    ):
        bad = {**GOOD.audits, name: [{"name": name, "ok": False, "n": 3, "detail": {"reason": "seen"}}]}
        assert (
            ask(gate, GOOD.replace(audits=bad)).status == "fail"
            and "seen" in ask(gate, GOOD.replace(audits=bad)).reason
        )
        gone = {k: v for k, v in GOOD.audits.items() if k != name}
        assert ask(gate, GOOD.replace(audits=gone)).status == "not-measured"
        nothing = {**GOOD.audits, name: [{"name": name, "ok": True, "n": 0}], "conformance": [{"ok": True, "n": 0}]}
        assert ask(gate, GOOD.replace(audits=nothing)).status == "inconclusive"
    assert (
        ask("reliability", requests(GOOD, lambda f: f.index == f.index[mine(f)][0], failure="target_numeric")).status
        == "fail"
    )


def test_prompt_length_classes_use_lengths_alone() -> None:
    long = GOOD.requests.copy()
    long["prompt_tokens"] = np.where(long["stratum"] == "a", 2000, 40)
    late = long.copy()
    late.loc[mine(late) & (late["stratum"] == "a"), "ttft_ns"] *= 3
    result = ask("ttft", GOOD.replace(requests=late))
    assert result.status == "fail" and "256+" in result.reason
    # Nobody lies between 256 and 1023, so that class joined its smaller neighbour.
    assert [x["stratum"] for x in result.details["by_prompt_tokens"]] == ["0-255", "256+"]


def test_energy_is_compared_per_token_where_it_is_told() -> None:
    told = GOOD.replace(requests=GOOD.requests.assign(energy_uj=GOOD.requests["total_ns"] // 1000))
    assert ask("energy", told).status == "pass"
    frame = told.requests.copy()
    frame.loc[mine(frame), "energy_uj"] *= 2
    assert ask("energy", told.replace(requests=frame)).status == "fail"


def test_default_gates_state_every_threshold() -> None:
    from draftgate.gates.registry import validate_gates

    assert validate_gates(default_gates()) == []
