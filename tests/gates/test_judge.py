"""From gates to a verdict: the algebra, the machine, the control, exclusions, and the look back."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draftgate.gates.check import Check
from draftgate.gates.checks.speed import Speedup
from draftgate.gates.evidence import Evidence, Ledger, load_evidence
from draftgate.gates.judge import judge, judge_evidence, write_verdict
from draftgate.gates.not_shown import not_shown
from draftgate.gates.registry import default_gates, validate_gates
from draftgate.gates.result import GateResult, Verdict, combine
from draftgate.gates.verdict_file import as_json
from draftgate.harness.errors import DraftgateError, IntegrityError
from hypothesis import given
from hypothesis import strategies as st
from support.gate_world import good_evidence, with_gates, write_run

GOOD = good_evidence()
STATUSES = ("pass", "fail", "inconclusive", "not-measured", "not-applicable", "invalid")
REQUIREMENTS = ("required", "if-available", "not-applicable")


@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.sampled_from(REQUIREMENTS)), max_size=6))
def test_verdict_algebra(gates: list[tuple[Any, Any]]) -> None:
    name, reasons = combine([GateResult(str(i), s, "why", requirement=r) for i, (s, r) in enumerate(gates)])
    live = [(s, r) for s, r in gates if r != "not-applicable"]
    required = [s for s, r in live if r == "required"]
    if any(s == "invalid" for s, _ in live) or not live:
        assert name == "INVALID"
    elif any(s == "fail" for s, _ in live):
        assert name == "NO-GO"
    elif not required:
        assert name == "INVALID"
    else:
        assert name == ("GO" if all(s in ("pass", "not-applicable") for s in required) else "INCONCLUSIVE")
    assert bool(reasons) == (name != "GO")


def quick(evidence: Evidence) -> Verdict:
    return judge_evidence(evidence, look_back=False)


def statuses(evidence: Evidence) -> dict[str, str]:
    return {g.id: g.status for g in judge_evidence(evidence, look_back=False).gates}


def test_a_good_run_is_a_go_and_every_passed_gate_was_tried_on_a_spoilt_copy() -> None:
    verdict = judge_evidence(GOOD)
    assert verdict.verdict == "GO" and verdict.exit_code == 0
    passed = {g.id for g in verdict.gates if g.status == "pass"}
    assert {line["gate"] for line in verdict.extra["self_check"]} == passed
    assert all(line["held"] for line in verdict.extra["self_check"])
    assert verdict.extra["multiverse"] and not any(line["flips"] for line in verdict.extra["multiverse"])
    assert verdict.extra["not_shown"]


def test_a_gate_that_cannot_fail_makes_the_verdict_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Speedup, "evaluate", lambda self, evidence: self.result("pass", "always"))
    verdict = judge_evidence(GOOD)
    assert verdict.verdict == "INVALID" and "speedup" in verdict.reasons[0]


def test_a_gate_that_stumbles_is_invalid_never_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(self: Check, evidence: Evidence) -> GateResult:
        raise ZeroDivisionError("0/0")

    monkeypatch.setattr(Speedup, "evaluate", stumble)
    verdict = quick(GOOD)
    assert verdict.verdict == "INVALID" and "ZeroDivisionError" in verdict.reasons[0]


def test_a_gate_that_stumbles_over_another_analysis_is_told_so_and_the_verdict_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluate = Speedup.evaluate

    def stumble(self: Speedup, evidence: Evidence) -> GateResult:
        if evidence.method == "bca":
            raise KeyError("no such stratum")
        return evaluate(self, evidence)

    monkeypatch.setattr(Speedup, "evaluate", stumble)
    verdict = judge_evidence(with_gates(GOOD, "identity", "complete", "speedup"))
    said = {line["variant"]: line for line in verdict.extra["multiverse"]}
    assert verdict.verdict == "GO" and said["bca interval"]["status"] == "invalid" and said["bca interval"]["flips"]


@pytest.mark.parametrize(("prompts", "blocks"), [(2, 1), (2, 2), (12, 1)])
def test_the_multiverse_says_from_what_it_could_make_no_interval(prompts: int, blocks: int) -> None:
    verdict = judge_evidence(good_evidence(strata=("a", "b"), prompts=prompts, blocks=blocks))
    lines = [line for line in verdict.extra["multiverse"] if line["gate"] == "no-regression"]
    assert lines
    for line in lines:
        own = line["variant"].startswith(("equal", "weights"))
        expected = "one block" if own and blocks == 1 else f"{prompts} prompts" if prompts == 2 else ""
        if line["interval"] is None:
            assert line["no_interval"] == expected
        else:
            assert line["no_interval"] == "" and line["interval"][1] < 1000
    assert any(line["interval"] is None for line in lines) == (prompts == 2 or blocks == 1)


MISSHAPEN = {
    "gates[0].params is not a mapping": {"gates": [{"id": "speedup", "params": [1]}]},
    "strata[1] is not a mapping": {"strata": [{"name": "a", "prompts": []}, 7]},
    "strata[0].prompts[0] has no id": {"strata": [{"name": "a", "prompts": [{}]}]},
    "strata[0].weight is not a number": {"strata": [{"name": "a", "weight": "much", "prompts": []}]},
    "arms[0] has no name": {"arms": [{"kind": "x"}]},
    "decoding.temperature is not a number": {"decoding": {"temperature": "hot"}},
    "alpha is not a number": {"alpha": "small"},
    "parent is not a mapping": {"parent": ["x"]},
}


@pytest.mark.parametrize("said", MISSHAPEN)
def test_a_misshapen_plan_is_an_integrity_failure_that_names_the_field(tmp_path: Path, said: str) -> None:
    run = write_run(tmp_path, GOOD.replace(plan={**GOOD.plan, **MISSHAPEN[said]}))
    with pytest.raises(IntegrityError) as caught:
        judge(run)
    assert f"no verdict can be reached on this plan ({said})" in str(caught.value)


@pytest.mark.parametrize("error", [ValueError, KeyError, TypeError, AttributeError])
def test_a_bug_of_ours_is_not_blamed_on_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def bug(*_: object) -> list[str]:
        raise error("ours")

    monkeypatch.setattr("draftgate.gates.judge.not_shown", bug)
    with pytest.raises(error, match="ours"):
        judge(write_run(tmp_path, with_gates(GOOD, "identity")))


def test_no_gates_unknown_gates_and_only_optional_gates_are_invalid() -> None:
    assert quick(GOOD.replace(plan={**GOOD.plan, "gates": []})).verdict == "INVALID"
    unknown = [*GOOD.plan["gates"], {"id": "vibes", "requirement": "required", "params": {}}]
    assert quick(GOOD.replace(plan={**GOOD.plan, "gates": unknown})).verdict == "INVALID"
    optional = [{**g, "requirement": "if-available"} for g in GOOD.plan["gates"]]
    assert quick(GOOD.replace(plan={**GOOD.plan, "gates": optional})).verdict == "INVALID"


def test_requirements() -> None:
    """energy is never measured here: if-available does not block, required does, not-applicable is not asked."""
    for requirement, verdict in (("if-available", "GO"), ("required", "INCONCLUSIVE"), ("not-applicable", "GO")):
        asked = [{**g, "requirement": requirement} if g["id"] == "energy" else g for g in GOOD.plan["gates"]]
        evidence = GOOD.replace(plan={**GOOD.plan, "gates": asked})
        found = quick(evidence)
        assert found.verdict == verdict
        assert any("energy" in line for line in not_shown(evidence, found.gates))


def test_on_another_machine_timing_is_not_measured() -> None:
    first = GOOD.ledger.records[0]
    other = {**first, "body": {**first["body"], "environment": {"hardware_class": {"architecture": "other"}}}}
    moved = statuses(GOOD.replace(ledger=Ledger((other,))))
    assert moved["speedup"] == moved["control"] == moved["tail"] == "not-measured"
    assert moved["exact-greedy"] == moved["memory"] == "pass"


def test_a_missed_control_suspends_timing_gates_alone() -> None:
    frame = GOOD.requests.copy()
    frame.loc[frame["arm"] == "champion_again", "total_ns"] *= 2
    found = quick(GOOD.replace(requests=frame))
    said = {g.id: g for g in found.gates}
    assert found.verdict == "INCONCLUSIVE"
    assert said["speedup"].status == "inconclusive" and said["speedup"].details["without_control"] == "pass"
    assert said["exact-greedy"].status == "pass"
    slow = frame.copy()
    slow.loc[slow["arm"] == "prompt_lookup", "total_ns"] *= 3
    assert quick(GOOD.replace(requests=slow)).verdict == "INCONCLUSIVE"  # a miss is never a NO-GO


def test_exclusions_may_not_decide() -> None:
    """Where dropping pairs turns a fail into a pass, the gate is inconclusive."""
    frame = GOOD.requests.copy()
    hit = frame["prompt_id"].str.endswith(("5", "6", "7"))
    frame.loc[hit & (frame["arm"] == "prompt_lookup"), "total_ns"] *= 6
    assert statuses(with_gates(GOOD.replace(requests=frame), "tail"))["tail"] == "fail"
    excluded = GOOD.replace(requests=frame.assign(excluded=np.where(hit, "probe", "")))
    result = judge_evidence(with_gates(excluded, "tail")).gates[0]
    assert result.status == "inconclusive" and "with them" in result.reason
    harmless = GOOD.replace(requests=GOOD.requests.assign(excluded=np.where(hit, "probe", "")))
    assert statuses(with_gates(harmless, "tail", "speedup", "complete"))["tail"] == "pass"


def test_seen_results_make_a_verdict_exploratory() -> None:
    parent = {"plan_id": "0" * 64, "reason": "r", "changes": [], "results_seen": True}
    assert quick(GOOD.replace(plan={**GOOD.plan, "parent": parent})).exploratory
    assert not quick(GOOD.replace(plan={**GOOD.plan, "parent": {**parent, "results_seen": False}})).exploratory


def test_attempts_divide_alpha() -> None:
    three = GOOD.replace(plan={**GOOD.plan, "attempts_budget": 3})
    assert three.alpha == pytest.approx(0.025 / 3)
    one, several = (
        {g.id: g for g in judge_evidence(e, look_back=False).gates}["speedup"].interval for e in (GOOD, three)
    )
    assert one is not None and several is not None and several[0] < one[0] < one[1] < several[1]


def test_open_and_reserve_prompts_are_shown_apart() -> None:
    strata = [
        {**s, "prompts": [{**p, "split": "reserve" if i % 2 else "open"} for i, p in enumerate(s["prompts"])]}
        for s in GOOD.plan["strata"]
    ]
    lines = judge_evidence(GOOD.replace(plan={**GOOD.plan, "strata": strata})).extra["splits"]
    assert {line["split"] for line in lines} == {"open", "reserve"}
    assert {line["n"] for line in lines if line["gate"] == "no-regression"} == {80}


def test_a_run_directory_gives_the_same_verdict(tmp_path: Path) -> None:
    verdict = judge(write_run(tmp_path, GOOD))
    assert verdict.verdict == "GO", verdict.reasons
    memory = quick(GOOD)
    assert [(g.id, g.status) for g in verdict.gates] == [(g.id, g.status) for g in memory.gates]
    assert {g.id: g.interval for g in verdict.gates}["speedup"] == pytest.approx(
        {g.id: g.interval for g in memory.gates}["speedup"]
    )


@pytest.mark.parametrize("spoil", ["table", "foreign table", "ledger", "no table record"])
def test_spoilt_files_are_invalid(tmp_path: Path, spoil: str) -> None:
    root = write_run(tmp_path / "run", GOOD)
    requests = root / "results" / "requests.parquet"
    if spoil == "table":
        import pyarrow.parquet as pq

        table = pq.read_table(requests)
        pq.write_table(table.slice(0, table.num_rows), requests, compression="none")
    elif spoil == "foreign table":
        other = write_run(tmp_path / "other", GOOD.replace(plan={**GOOD.plan, "name": "other"}))
        requests.write_bytes((other / "results" / "requests.parquet").read_bytes())
    elif spoil == "ledger":
        lines = (root / "ledger.jsonl").read_bytes().splitlines(keepends=True)
        lines[2] = lines[2].replace(b'"ok":true', b'"ok": true')
        (root / "ledger.jsonl").write_bytes(b"".join(lines))
    else:
        trimmed = load_evidence(root)
        assert not trimmed.table_problems
        requests.with_name("rounds.parquet").write_bytes(b"not parquet")
    assert judge(root).verdict == "INVALID"


def test_unreadable_and_unfinished_runs_have_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(DraftgateError) as error:
        judge(tmp_path / "nowhere")
    assert error.value.exit_code == 2
    unfinished = write_run(tmp_path / "unfinished", GOOD, close=False)
    with pytest.raises(DraftgateError) as error:
        judge(unfinished)
    assert error.value.exit_code == 6
    (unfinished / "ledger.jsonl").unlink()
    with pytest.raises(DraftgateError) as error:
        judge(unfinished)
    assert error.value.exit_code == 6


def test_no_nan_reaches_the_file(tmp_path: Path) -> None:
    verdict = judge_evidence(GOOD)
    odd = dataclasses.replace(
        verdict.gates[0],
        estimate=math.nan,
        interval=(-math.inf, math.inf),
        status="inconclusive",
        details={"x": np.float64("nan"), "y": np.arange(2), "z": (1, {2})},
    )
    path = write_verdict(tmp_path, dataclasses.replace(verdict, gates=(odd, *verdict.gates[1:])))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    value = json.loads(path.read_text(), parse_constant=refuse)
    assert value["gates"][0]["estimate"] is None and value["gates"][0]["interval"] == [None, None]
    assert value["gates"][0]["details"] == {"x": None, "y": [0, 1], "z": [1, [2]]}
    assert value["format"] == "draftgate-verdict/1" and set(value) >= {
        "decision_card",
        "multiverse",
        "self_check",
        "not_shown",
    }
    assert as_json(verdict)["gates"][3]["requirement"] == "required"


def test_a_plan_must_state_its_thresholds() -> None:
    gates = default_gates()
    assert validate_gates(gates) == []
    assert validate_gates([]) != []

    def problems(**change: Any) -> str:
        return "\n".join(validate_gates([{**g, **change} if g["id"] == "speedup" else g for g in gates]))

    assert "does not state its threshold 'minimum'" in problems(params={})
    assert "unknown parameter 'minimun'" in problems(params={"minimun": 1.2})
    assert "requirement" in problems(requirement="maybe")
    for bad in (math.nan, math.inf, "1.2", True, 0, -1):
        assert "minimum is" in problems(params={"minimum": bad})
    assert "unknown" in "\n".join(validate_gates([{"id": "vibes", "requirement": "required", "params": {}}]))
    assert "twice" in "\n".join(validate_gates([gates[0], gates[0]]))
