"""What may be said in a plan: what it lacks, misspells, deletes or borrows from the environment is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.gates.registry import default_gates, validate_gates
from draftgate.harness.errors import PlanError
from draftgate.harness.plan import bundled_plans, compose_plan
from draftgate.harness.plan_checks import plan_problems
from draftgate.strata.defaults import WEIGHTS
from draftgate.strata.sessions import session_lengths

BUNDLED = ("demo", "smollm2", "smollm2-exact", "smollm2-quick", "smollm2-sampled-quick")


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_plan_can_be_frozen_as_it_stands(name: str) -> None:
    plan = compose_plan([f"plan={name}"]).confirmatory
    gates = [{"id": k, "requirement": g["requirement"], "params": g["params"]} for k, g in plan["gates"].items()]
    assert plan_problems(plan) == [] and validate_gates(gates) == []


def test_the_bundled_plans_are_those_and_state_every_gate_with_its_defaults() -> None:
    assert bundled_plans() == sorted(BUNDLED)
    plan = compose_plan(["plan=smollm2"]).confirmatory
    stated = [{"id": k, "requirement": g["requirement"], "params": g["params"]} for k, g in plan["gates"].items()]
    assert stated == default_gates()


def test_a_confirmatory_timing_plan_has_its_control_arms() -> None:
    arms = compose_plan(["plan=smollm2"]).confirmatory["arms"]["entries"]
    assert arms["champion_again"]["kind"] == "champion_alone"
    assert arms["slowed_dummy"]["slowdown"] == 0.05


def test_a_draft_may_be_a_name_alone() -> None:
    plan = compose_plan(["arms=neural", "draft=smollm2-draft"]).confirmatory
    assert plan["draft"] == {"name": "smollm2-draft"} and plan_problems(plan) == []
    assert compose_plan(["draft=smollm2-draft"], draft="x.gguf").confirmatory["draft"] == {"name": "x.gguf"}


REFUSED = {
    "+schedule.bogus=1": "bogus",
    "schedule.bogus=1": "bogus",
    "+bogus=1": "bogus",
    "++arms.entries.prompt_lookup.bogus=1": "bogus",
    "++gates.speedup.bogus=1": "bogus",
    "++operational.bogus=1": "bogus",
    "~schedule.blocks": "deleted",
    "~gates": "deleted",
    "~gates.speedup": "deleted",
    "title=${oc.env:HOME}": "interpolation",
    "++hypotheses=['${title}']": "interpolation",
    "++gates.speedup.params.minimum=${alpha}": "interpolation",
    "++title=???": "title",
    "++schedule.blocks=???": "schedule.blocks",
    "++hypotheses=null": "hypotheses",
    "schedule.blocks=two": "two",
    "schedule.cold=perhaps": "perhaps",
    "plan=nothing": "nothing",
    "schedule=nothing": "nothing",
    "hydra.run.dir=x": "hydra",
    "no equals sign": "equal",
}


MEANT = {
    "schedule.block=2": "schedule.block: no such key; did you mean schedule.blocks?",
    "+schedule.block=2": "schedule.block: no such key; did you mean schedule.blocks?",
    "schedul.blocks=2": "schedul: no such key; did you mean schedule.blocks?",
    "champoin=mini": "champoin: no such key; did you mean champion?",
    "gates.tial.requirement=required": "gates.tial: no such key; did you mean gates.tail.requirement? (+gates.",
    "gates.speedup.params.minimun=1.2": "did you mean gates.speedup.params.minimum? (+gates.speedup.params.minim",
    "schedule.zzz=1": "schedule.zzz: no such key; under schedule there are blocks, canaries, cold",
    "schedule.blocks.x=1": "schedule.blocks.x: no such key",
    "strata=slcie": "Could not find 'strata/slcie'. Available options in 'strata': all, answers, confirmatory, slice",
}


@pytest.mark.parametrize("word", MEANT)
def test_a_misspelt_key_is_answered_with_the_nearest_real_one(word: str) -> None:
    with pytest.raises(PlanError) as caught:
        compose_plan([word])
    assert MEANT[word] in str(caught.value) and "append to your config" not in str(caught.value)


@pytest.mark.parametrize("key", ["session_lengths.code.kind", "arms.entries.neural_draft.probe_rate"])
def test_a_key_that_may_be_added_is_told_how(key: str) -> None:
    with pytest.raises(PlanError, match=rf"To append to your config use \+{key}=1"):
        compose_plan([f"{key}=1"])


@pytest.mark.parametrize("word", REFUSED)
def test_refused_with_the_reason(word: str) -> None:
    with pytest.raises(PlanError, match=f"(?i){REFUSED[word]}") as caught:
        compose_plan([word])
    assert caught.value.exit_code == 2 and "Traceback" not in str(caught.value)


PROBLEMS = {
    "seed=5": "seed",
    "alpha=0.7": "alpha",
    "schedule.blocks=0": "schedule.blocks",
    "schedule.order=random": "schedule.order",
    "schedule.prefix_cache=always": "schedule.prefix_cache",
    "arms.candidate=nobody": "nobody",
    "arms.candidate=champion_alone": "champion itself",
    "draft=null": "--draft",
    "strata.split=closed": "closed",
    "strata.entries.casual_chat.weight=-1": "weight",
    "decoding.top_p=0": "top_p",
    "++decoding.stop_strings=['']": "empty string",
    "stopping.rule=whenever": "whenever",
    "++hypotheses=[]": "hypotheses",
    "++outcomes=['']": "outcomes",
    "++exclusions=[{rule: slow, limit: 1.0}]": "slow",
    "++sample_size.blocks=9": "agree",
    "gates.speedup.requirement=maybe": "maybe",
    "attempts_budget=0": "attempts_budget",
}


@pytest.mark.parametrize("word", PROBLEMS)
def test_listed_as_a_problem(word: str) -> None:
    assert any(PROBLEMS[word] in line for line in plan_problems(compose_plan([word]).confirmatory))


def test_all_problems_are_listed_at_once() -> None:
    words = ["seed=5", "alpha=0.7", "schedule.blocks=0", "++hypotheses=[]"]
    assert len(plan_problems(compose_plan(words).confirmatory)) >= len(words)


def test_a_plan_file_with_a_missing_section_lists_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("defaults: [{/arms: lookup}, {/decoding: greedy}, _self_]\nname: mine\n")
    with pytest.raises(PlanError, match="does not say") as caught:
        compose_plan(plan_file=file)
    for key in ("title", "seed", "hypotheses", "stopping", "sample_size", "seen", "gates", "strata", "schedule"):
        assert key in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "name: !!python/object:os.system x\n", "\x00", "- just\n- a list\n"])
def test_a_broken_plan_file_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(PlanError):
        compose_plan(plan_file=file)


def test_paths_with_any_character_go_through_options(tmp_path: Path) -> None:
    path = str(tmp_path / "a, b (c) = d.gguf")
    plan = compose_plan(["arms=neural"], champion=path, draft=path).confirmatory
    assert plan["champion"]["name"] == path and plan["draft"]["name"] == path


@pytest.mark.parametrize("words", [["plan=smollm2"], ["plan=smollm2-quick"], ["plan=smollm2", "strata=confirmatory"]])
def test_bundled_plans_state_the_strata_s_declared_weights_and_session_lengths(words: list[str]) -> None:
    plan = compose_plan(words).confirmatory
    assert {name: entry["weight"] for name, entry in plan["strata"]["entries"].items()} == WEIGHTS
    assert plan["session_lengths"] == session_lengths(sorted(WEIGHTS))
