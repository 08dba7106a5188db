"""What is measured around a request: against hand-made machines, and against what the arms really do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from draftgate.arms.processors import ProcessorChain, checked
from draftgate.arms.prompt_lookup import PromptLookup
from draftgate.arms.request import Request, StopPolicy
from draftgate.arms.session import Champion
from draftgate.arms.speculative_arm import SpeculativeArm
from draftgate.harness import machine
from draftgate.harness.compare import json_differences
from draftgate.harness.exclusions import excluded_pairs
from draftgate.harness.hardware import instruction_sets, memory_class
from draftgate.harness.ledger import read_ledger
from draftgate.harness.prompts import choose
from draftgate.harness.shadow import full_block_entry, greedy_survival, replay_request, sampled_starts
from draftgate.harness.store import read_table
from draftgate.harness.timeline import PHASES, Timeline
from draftgate.strata.schema import Message, Prompt
from hypothesis import given
from hypothesis import strategies as st
from support.toy import ToyEngine, hashed_logits

from .conftest import Toy


def test_energy_wraps_around_and_what_is_not_there_is_not_zero(tmp_path: Path) -> None:
    assert machine.energy_counters(tmp_path) == {}
    assert machine.energy_between({}, {}) is None
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        zone = tmp_path / name
        zone.mkdir()
        (zone / "energy_uj").write_text("900\n")
        (zone / "max_energy_range_uj").write_text("1000\n")
    before = machine.energy_counters(tmp_path)
    assert set(before) == {"intel-rapl:0", "intel-rapl:1"}, "a sub-domain is part of its package"
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100\n")
    assert machine.energy_between(before, machine.energy_counters(tmp_path)) == 200
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert machine.energy_between(before, machine.energy_counters(tmp_path)) is None


def test_a_plan_without_readable_energy_records_null_and_says_not_measured(toy: Toy) -> None:
    folder = toy.whole()
    energy = read_table(folder, "requests")["energy_uj"]
    body = next(r.body for r in read_ledger(folder).records.of_kind("audit") if r.body["name"] == "energy")
    assert body["detail"]["measured"] == bool(energy.notna().any())


def test_steal_is_read_from_the_kernel_and_minus_one_elsewhere(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1\n")
    assert machine.steal_ticks(stat) == 88
    assert machine.steal_ticks(tmp_path / "none") == -1
    stat.write_text("cpu  1 2\n")
    assert machine.steal_ticks(stat) == -1


def test_hardware_class_is_coarse(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor: 0\nflags\t\t: fpu avx2 fma avx512_vnni unheard_of\n")
    assert instruction_sets(info) == ["avx2", "fma", "avx512_vnni"]
    assert instruction_sets(tmp_path / "none") == []
    assert memory_class(int(15.6 * 2**30)) == "16 GiB" == memory_class(16 * 2**30)
    assert memory_class(17 * 2**30) == "32 GiB"


def test_the_timeline_has_a_sample_of_every_phase_and_the_high_water_mark_never_falls() -> None:
    timeline = Timeline(1, lambda: 7)
    for phase in PHASES[1:-1]:
        timeline.enter(phase)
    held = np.ones(4_000_000)
    timeline.enter("request")
    del held
    samples = timeline.end()
    assert {s[1] for s in samples} == set(PHASES)
    assert [s[0] for s in samples] == sorted(s[0] for s in samples)
    peaks = [s[3] for s in samples]
    assert peaks == sorted(peaks) and all(s[2] <= peaks[-1] + 2**20 for s in samples)


def test_a_process_that_waits_for_its_turn_is_not_sampled() -> None:
    timeline = Timeline(1, lambda: 7)
    timeline.enter("request")
    time.sleep(0.05)
    timeline.enter("idle")
    before = len(timeline.samples)
    assert before > 3
    time.sleep(0.05)
    assert len(timeline.samples) <= before + 1  # one may have been on its way
    timeline.end()


def row(arm: str, prompt: str, probe: int, steal: int = 0) -> dict[str, Any]:
    return {
        "arm": arm, "stratum": "s", "prompt_id": prompt, "block": 0, "turn": 0, "entry": "warm", "probe_ns": probe,
        "steal_ticks": steal,
    }  # fmt: skip


def test_exclusions_drop_the_pair_whichever_arm_it_was() -> None:
    plan = {"exclusions": [{"rule": "probe", "limit": 2.0}, {"rule": "steal", "limit": 5}]}
    rows = [row(arm, f"p{i}", 100) for i in range(9) for arm in ("a", "b")]
    for arm in ("a", "b"):
        noisy = [row(arm, "slow", 201), row("b" if arm == "a" else "a", "slow", 100)]
        stolen = [row(arm, "stolen", 100, 6), row("b" if arm == "a" else "a", "stolen", 100)]
        found = excluded_pairs(plan, [*rows, *noisy, *stolen])
        assert found == {("s", "slow", 0, 0, "warm"): "probe", ("s", "stolen", 0, 0, "warm"): "steal"}
    assert excluded_pairs({"exclusions": []}, rows) == {}


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=12), st.integers(1, 9))
def test_greedy_survival_is_the_length_of_the_agreement(proposals: list[int], realised: list[int], k: int) -> None:
    survival = greedy_survival(proposals, realised, k)
    agree = 0
    while agree < min(len(proposals), len(realised), k) and proposals[agree] == realised[agree]:
        agree += 1
    assert survival == sorted(survival, reverse=True)
    assert sum(survival) == agree
    known = k if agree < min(len(realised), k) else min(k, len(realised))
    assert len(survival) == known


def lookup_arm(tokens: int) -> tuple[SpeculativeArm, Request]:
    """A real prompt-lookup arm over a toy engine that repeats itself, and a request."""
    engine = ToyEngine(hashed_logits(12, 5, order=1), 12, 128)
    champion = Champion(engine, ProcessorChain(checked({}), 12, (0,), None))  # type: ignore[arg-type]
    arm = SpeculativeArm("x", champion, lambda request: PromptLookup(4, 1, 2, frozenset({0})), ("champion",))
    return arm, Request("r", tuple(1 + i % 3 for i in range(tokens)), 24, 7, StopPolicy())


def test_shadow_replay_of_the_rounds_own_starts_agrees_with_the_rounds() -> None:
    """At the arm's own k the replayed block is the block that was proposed, so survival counts what was accepted."""
    arm, request = lookup_arm(9)
    completion = arm.generate(request)
    emitted, starts = 0, []
    for record in completion.rounds:
        starts.append(emitted)
        emitted += record.emitted
    replayed = dict(replay_request(arm, request, completion.tokens, starts, 4, greedy=True))
    checked = 0
    for record, start in zip(completion.rounds, starts, strict=True):
        if record.proposed == 4 and start + 4 < len(completion.tokens):
            assert sum(replayed[start]) == record.accepted
            checked += 1
    assert checked > 0


def test_sampled_starts_are_round_starts_and_the_seed_decides() -> None:
    rounds = [{"round": i, "emitted": 1 + i % 3} for i in range(20)]
    starts = [sum(1 + j % 3 for j in range(i)) for i in range(20)]
    picked = sampled_starts(rounds, 5, 1)
    assert len(picked) == 5 and set(picked) <= set(starts) and picked == sorted(picked)
    assert picked == sampled_starts(rounds, 5, 1) != sampled_starts(rounds, 5, 2)
    assert sampled_starts(rounds[:2], 5, 1) == starts[:2]


def test_a_full_block_takes_the_policy_away() -> None:
    entry = {"name": "n", "kind": "neural_draft", "k": 4, "policy": {"kind": "adaptive"}, "probe_rate": 0.1}
    assert full_block_entry(entry, 8) == {"name": "n", "kind": "neural_draft", "k": 8, "policy": {"kind": "fixed"}}
    both = full_block_entry(entry | {"kind": "hybrid", "copy_k": 5}, 8)
    assert both == {"name": "n", "kind": "hybrid", "k": 8, "copy_k": 8, "policy": {"kind": "fixed"}}


def prompt(number: int, family: str, split: str = "open") -> Prompt:
    return Prompt(f"p{number}", family, "s", ((Message("user", "x"),),), split=split)  # type: ignore[arg-type]


def test_prompts_are_chosen_one_of_each_family_first_and_in_file_order() -> None:
    prompts = [prompt(0, "a"), prompt(1, "a"), prompt(2, "b"), prompt(3, "c", "reserve"), prompt(4, "d")]
    assert [p.id for p in choose(prompts, "open", 3)] == ["p0", "p2", "p4"]
    assert [p.id for p in choose(prompts, "open", 4)] == ["p0", "p1", "p2", "p4"]
    assert [p.id for p in choose(prompts, "reserve", 0)] == ["p3"]
    assert len(choose(prompts, "all", 0)) == 5


def test_differences_name_every_path_and_floats_have_a_tolerance() -> None:
    assert json_differences({"a": [1, {"b": 0.1 + 0.2}]}, {"a": [1, {"b": 0.3}]}) == []
    found = json_differences({"a": [1, 2], "b": 1, "c": True}, {"a": [1, 3], "d": 1, "c": 1})
    assert sorted(line.split(":")[0] for line in found) == ["a[1]", "b", "c", "d"]
