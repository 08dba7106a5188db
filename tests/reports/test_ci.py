"""The pipeline gate: what it refuses, what it writes, and that nothing but a GO is ever green."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from draftgate.gates.registry import checks
from draftgate.gates.result import GateResult, Verdict, combine
from draftgate.gates.verdict_file import as_json
from draftgate.harness.errors import DraftgateError, IncompleteRun, PlanError
from draftgate.reports.baseline import differences, read_baseline
from draftgate.reports.ci import Job, open_plan, quickened, read_hardware_class, refuse_weaker
from draftgate.reports.commands import ci
from draftgate.reports.files import Damaged, ReportError
from draftgate.reports.github import append_summary, escape_data, verdict_annotations
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic_run import SyntheticRun

from .conftest import FakeServices

TEMPLATE = """
defaults:
  - /champion: smollm2
  - /arms: {arms}
  - /strata: slice
  - /decoding: greedy
  - /gates: confirmatory
  - /schedule: confirmatory
  - /measurement: standard
  - _self_
name: ci
title: A draft in front of SmolLM2
seed: 5eed00000000de30
draft: {draft}
hypotheses: [Nothing changes but the time.]
outcomes: [time]
exclusions: []
stopping: {{rule: fixed, detail: Once.}}
sample_size: {{prompts_per_stratum: 2, blocks: 3, power: 0.0, basis: a test}}
seen: []
alpha: 0.025
attempts_budget: 8
session_lengths: {{"*": {{kind: lognormal, median_tokens: 256, sigma: 0.8}}}}
memory_envelope_bytes: 1073741824
"""


@dataclass
class Bench:
    """A template, a candidate file and a place to run; the run itself is replaced."""

    job: Job
    words: list[str]
    verdict: Verdict
    services: FakeServices
    seen: dict[str, Any]

    def run(self, *more: str) -> int:
        parser = argparse.ArgumentParser()
        ci.configure(parser)
        return ci.run(parser.parse_args([*self.words, *more]), self.services)


def template(folder: Path, arms: str = "neural", draft: str = "null") -> Path:
    path = folder / "plan.yaml"
    path.write_text(TEMPLATE.format(arms=arms, draft=draft))
    return path


@pytest.fixture
def bench(own_run: SyntheticRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    from draftgate.harness import execute, freeze
    from draftgate.reports import write

    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(write, "draw_all", lambda *_: [])
    candidate = tmp_path / "draft.gguf"
    candidate.write_bytes(b"GGUF")
    out = tmp_path / "out"
    services = FakeServices(own_run.verdict)
    seen: dict[str, Any] = {}

    def frozen(composed: Any, where: Path, services: Any, options: Any) -> Any:
        shutil.copytree(own_run.path, where)
        seen.update(plan=composed.confirmatory, hardware_class=options.hardware_class)
        return SimpleNamespace(plan=own_run.plan, notes=())

    class Execution:
        def __init__(self, *_: Any) -> None: ...

        def go(self) -> Any:
            return SimpleNamespace(verdict=services.verdict, notes=())

    monkeypatch.setattr(freeze, "freeze", frozen)
    monkeypatch.setattr(execute, "Execution", Execution)
    job = Job(template(tmp_path), candidate, out)
    words = ["--plan", str(job.plan), "--candidate", str(candidate), "--out", str(out)]
    return Bench(job, words, own_run.verdict, services, seen)


def not_go(verdict: Verdict, status: Any) -> Verdict:
    gates = (*verdict.gates[:6], replace(verdict.gates[6], status=status), *verdict.gates[7:])
    name, reasons = combine(gates)
    return replace(verdict, verdict=name, gates=gates, reasons=reasons)


@pytest.mark.parametrize(
    ("status", "code"), [("pass", 0), ("fail", 3), ("inconclusive", 4), ("not-measured", 4), ("invalid", 5)]
)
def test_the_exit_code_is_the_verdict_and_the_reports_are_there(
    bench: Bench, status: Any, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.services.verdict = not_go(bench.verdict, status)
    assert bench.run() == code == bench.services.verdict.exit_code
    assert {p.name for p in bench.job.out.iterdir()} >= {"report.html", "report.md", "junit.xml"}
    assert bench.services.printed == [bench.services.verdict]


def test_summary_and_annotations_are_written_where_they_are_asked_for(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    bench.services.verdict = not_go(bench.verdict, "fail")
    assert bench.run() == 3
    text = summary.read_text()
    assert text.startswith("before\n") and "## ✕ NO-GO" in text
    assert "::error title=gate speedup%3A fail::" in capsys.readouterr().out


def test_a_summary_that_cannot_be_written_is_never_green(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "missing" / "summary.md"))
    assert bench.services.verdict.verdict == "GO"
    assert bench.run() == 2
    assert "cannot write the step summary" in capsys.readouterr().err
    assert (bench.job.out / "report.html").is_file()
    shutil.rmtree(bench.job.out)
    bench.services.verdict = not_go(bench.verdict, "fail")
    assert bench.run() == 3


def test_a_run_that_fails_tells_where_people_look(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from draftgate.harness import freeze

    def foreign(*_: Any) -> None:
        raise PlanError("the draft's tokenizer is not the champion's: vocabulary differs at id 7")

    monkeypatch.setattr(freeze, "freeze", foreign)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "s.md"))
    with pytest.raises(PlanError) as caught:
        bench.run()
    assert caught.value.exit_code == 2
    assert "vocabulary differs at id 7" in capsys.readouterr().out and "No verdict" in (tmp_path / "s.md").read_text()


def test_an_interrupted_run_keeps_its_own_code(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from draftgate.harness import execute

    class Stops:
        def __init__(self, *_: Any) -> None: ...

        def go(self) -> None:
            raise IncompleteRun("the disk is full")

    monkeypatch.setattr(execute, "Execution", Stops)
    with pytest.raises(IncompleteRun) as caught:
        bench.run()
    assert caught.value.exit_code == 6 and not (bench.job.out / "report.html").exists()


def test_a_template_has_exactly_the_draft_open(bench: Bench, tmp_path: Path) -> None:
    plan = open_plan(bench.job).confirmatory
    assert plan["draft"]["name"] == str(bench.job.candidate)
    assert open_plan(replace(bench.job, plan=template(tmp_path, draft="???"))).confirmatory == plan
    with pytest.raises(ReportError, match="already names the draft 'other'"):
        open_plan(replace(bench.job, plan=template(tmp_path, draft="{name: other}")))
    with pytest.raises(ReportError, match="uses no draft"):
        open_plan(replace(bench.job, plan=template(tmp_path, arms="lookup")))
    with pytest.raises(ReportError, match="no such candidate file"):
        open_plan(replace(bench.job, candidate=tmp_path / "none.gguf"))
    with pytest.raises(DraftgateError, match="no such plan file"):
        open_plan(replace(bench.job, plan=tmp_path / "none.yaml"))


def test_quick_is_smaller_and_leaves_only_timing_to_the_full_run(bench: Bench) -> None:
    full = open_plan(bench.job)
    plan = quickened(full).confirmatory
    assert (
        plan["schedule"]["blocks"] == 1
        and plan["schedule"]["max_new_tokens"] < full.confirmatory["schedule"]["max_new_tokens"]
    )
    assert "quick" in plan["title"] and "full run decides" in plan["title"]
    for id, gate in full.confirmatory["gates"].items():
        now = plan["gates"][id]
        assert now["params"] == gate["params"]
        left = checks()[id].timing or id in ("memory", "energy")
        expected = "if-available" if left and gate["requirement"] == "required" else gate["requirement"]
        assert now["requirement"] == expected
    for id in ("identity", "complete", "exact-greedy", "liveness"):
        assert plan["gates"][id]["requirement"] == "required"


def test_times_count_on_the_declared_class_only(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({"architecture": "arm64", "cores": 64}))
    assert bench.run("--hardware-class", str(file)) == 0
    assert bench.seen["hardware_class"] == {"architecture": "arm64", "cores": 64}
    file.write_text(json.dumps({"plan": 1}))
    with pytest.raises(ReportError, match="holds no hardware class"):
        read_hardware_class(file)
    with pytest.raises(ReportError, match="not readable"):
        read_hardware_class(tmp_path / "none.json")


def stored(folder: Path, found: Verdict, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "verdict.json"
    path.write_text(json.dumps(as_json(found) | changes))
    return path


def test_a_baseline_must_exist_be_of_this_version_and_have_been_a_go(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="the baseline is missing"):
        bench.run("--baseline", str(tmp_path / "none.json"))
    assert not bench.job.out.exists(), "nothing may run before the baseline is known to be good"
    for changes, words in (({"format": "draftgate-verdict/9"}, "format"), ({"verdict": "INCONCLUSIVE"},
    "never adopted"),
                           ({"exploratory": True}, "exploratory GO verdict was never adopted")):  # fmt: skip
        with pytest.raises(ReportError, match=words):
            read_baseline(stored(tmp_path / "b", bench.verdict, **changes))


def test_better_and_worse_need_intervals_that_do_not_meet(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = read_baseline(stored(tmp_path / "b", bench.verdict))
    assert {d.word for d in differences(baseline, bench.verdict)} == {"not told apart"}

    def with_speed(low: float, high: float) -> Verdict:
        gates = [replace(g, interval=(low, high)) if g.id == "speedup" else g for g in bench.verdict.gates]
        return replace(bench.verdict, gates=tuple(gates))

    word = {d.gate: d.word for d in differences(baseline, with_speed(1.16, 1.2))}
    assert word["speedup"] == "worse"
    assert {d.gate: d.word for d in differences(baseline, with_speed(1.9, 2.2))}["speedup"] == "better"
    slow_first_token = [replace(g, interval=(1.06, 1.09)) if g.id == "ttft" else g for g in bench.verdict.gates]
    found = differences(baseline, replace(bench.verdict, gates=tuple(slow_first_token)))
    assert {d.gate: d.word for d in found}["ttft"] == "worse", "more is worse where the rule is an upper bound"
    assert bench.run("--baseline", str(tmp_path / "b" / "verdict.json")) == 0
    assert "Against the draft in use" in capsys.readouterr().out


def test_a_plan_that_asks_less_than_the_adopted_one_needs_a_reason(own_run: SyntheticRun, tmp_path: Path) -> None:
    folder = tmp_path / "adopted"
    path = stored(folder, own_run.verdict)
    shutil.copy(own_run.path / "plan.json", folder)
    weaker = json.loads(json.dumps(own_run.plan))
    weaker["gates"] = weaker["gates"][:-1]
    refuse_weaker(path, own_run.plan, "", quick=False)
    with pytest.raises(Damaged, match="asks less than the adopted one") as caught:
        refuse_weaker(path, weaker, " ", quick=False)
    assert caught.value.exit_code == 5
    refuse_weaker(path, weaker, "the quality checks moved to another plan", quick=False)


@given(st.text())
def test_a_message_stays_one_workflow_command(text: str) -> None:
    escaped = escape_data(text)
    assert "\n" not in escaped and "\r" not in escaped
    assert escaped.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%") == text


def test_annotations_name_what_stands_in_the_way() -> None:
    gates = (
        GateResult("a", "pass", ""),
        GateResult("b", "inconclusive", "few"),
        GateResult("c", "not-measured", "", requirement="if-available"),
    )
    name, reasons = combine(gates)
    lines = verdict_annotations(Verdict(name, "a" * 64, gates, reasons))
    assert [line.split("::")[1].split(" ")[0] for line in lines] == ["error", "error"] and "gate b" in lines[1]
    go = verdict_annotations(Verdict("GO", "a" * 64, gates[:1]))
    assert len(go) == 1 and go[0].startswith("::notice")


def test_a_full_summary_is_not_overrun(tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    path.write_text("x" * (1024 * 1024 - 100))
    append_summary("y" * 500, {"GITHUB_STEP_SUMMARY": str(path)})
    assert path.stat().st_size <= 1024 * 1024 and "report.md" in path.read_text()[-60:]
    assert append_summary("x", {}) is None
