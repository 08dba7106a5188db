"""Once there is a verdict, everything is written: whatever the plan leaves out or puts in another shape."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from draftgate.gates.judge import judge, write_verdict
from draftgate.harness import cli
from draftgate.harness.errors import IntegrityError
from draftgate.reports import html, write
from draftgate.reports.figures import drawn
from draftgate.reports.stated import NOT_STATED, stated, unstated
from draftgate.reports.write import write_reports
from support.gate_world import good_evidence, write_run
from support.synthetic_run import STRATA, synthetic_run

FILES = {"junit.xml", "report.md", "model-card.md", "report.html", "attestation.unsigned.intoto.json"}


@pytest.fixture(autouse=True)
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "draw_all", partial(drawn.draw_all, ids=("heatmap",)))


def test_a_simulated_plan_without_champion_and_title_gets_its_whole_report(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", good_evidence(strata=("a", "b"), prompts=12))
    assert cli.main(["gate", str(run)]) in (0, 3, 4, 5)
    assert {p.name for p in run.iterdir()} >= FILES | {"verdict.json"}
    page = (run / "report.html").read_text("utf-8")
    assert "<dt>Champion</dt><dd>not stated</dd>" in page and "could not be laid out" not in page
    assert "The plan does not state: title, champion." in page
    assert NOT_STATED in (run / "report.md").read_text("utf-8")


HOSTILE: list[dict[str, Any]] = [
    {"champion": "a name", "draft": "another", "title": ["a", 1], "name": {}},
    {"champion": None, "title": "", "name": None},
    {"schedule": [], "hardware_class": "x86", "decoding": {"temperature": "hot"}},
    {"strata": [{"weight": 1.0}, 7], "arms": [{"kind": "x"}, None]},
    {"strata": [{"name": {"a": 1}, "weight": "much", "prompts": [None, {"turns": "two"}]}], "session_lengths": [1]},
    {"gates": [{"id": "speedup", "params": {"minimum": 1.15}}], "arithmetic": 1, "memory_envelope_bytes": "large"},
    {"alpha": "small", "attempts_budget": "one", "candidate": None, "decision_card_sha256": 5},
]


@pytest.mark.parametrize("changes", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_plan_still_gets_every_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    whole = synthetic_run(tmp_path / "whole", strata=STRATA[:1], prompts=2, blocks=1, tokens=4)
    evidence = good_evidence(strata=("a",), prompts=2)
    run = write_run(tmp_path / "run", evidence.replace(plan={**whole.plan, **changes}))
    written = {p.name: p for p in write_reports(run, whole.verdict)}
    assert set(written) >= FILES
    page = written["report.html"].read_text("utf-8")
    assert "<title>GO: " in page and "could not be laid out" not in page
    assert ET.parse(written["junit.xml"]).getroot().find(".//testcase[@name='verdict']") is not None
    try:
        verdict = judge(run)
    except IntegrityError:
        return  # a plan so misshapen that there is no verdict: an error of exit code 5, never a crash
    assert verdict.verdict != "GO" and write_verdict(run, verdict).is_file()
    assert {p.name for p in write_reports(run, verdict)} >= FILES


def test_a_page_that_cannot_be_laid_out_leaves_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = synthetic_run(tmp_path / "run", strata=STRATA[:1], prompts=2, blocks=1, tokens=4)

    def broken(*_: object) -> str:
        raise RuntimeError("<b>no</b>")

    monkeypatch.setattr(html, "render", broken)
    written = {p.name: p for p in write_reports(run.path, run.verdict)}
    page = written["report.html"].read_text("utf-8")
    assert set(written) >= FILES and "could not be laid out (RuntimeError: &lt;b&gt;no" in page
    assert "<h1>GO</h1>" in page and run.plan_id in page and "speedup: pass" in page


def test_nothing_is_made_up_and_a_whole_plan_lacks_nothing(tmp_path: Path) -> None:
    plan = synthetic_run(tmp_path / "run", strata=STRATA[:1], prompts=2, blocks=1, tokens=4).plan
    assert unstated(plan) == [] and stated(plan) == {**plan, **stated(plan)}
    assert stated(plan)["champion"] == plan["champion"] and stated(plan)["strata"] == plan["strata"]
    empty = stated({})
    assert empty["champion"] == {"name": NOT_STATED} and empty["draft"] is None and empty["strata"] == []
    assert unstated({}) == list(unstated({"title": 3, "champion": []}))
