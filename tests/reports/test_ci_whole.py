"""`draftgate ci --quick` as a pipeline calls it: a committed plan on a bundled champion, real freeze, run, gates and
reports over toy models, and no network."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness import cli, execute, freeze, session
from draftgate.harness.process import InlineExecutor
from draftgate.harness.runner import RunOptions
from draftgate.reports import write

BACKEND = "support.toy_run"
PLAN = """
defaults:
  - /champion: mini
  - /arms: neural
  - /decoding: greedy
  - /gates: confirmatory
  - /schedule: confirmatory
  - /measurement: light
  - _self_
name: ci
title: A draft in front of the bundled champion
seed: 5eed00000000de30
draft: null
hypotheses: [Nothing changes but the time.]
outcomes: [time]
exclusions: []
stopping: {rule: fixed, detail: Once.}
sample_size: {prompts_per_stratum: 4, blocks: 3, power: 0.0, basis: a test}
seen: []
alpha: 0.025
attempts_budget: 8
strata:
  prompts_per_stratum: 4
  split: open
  seal: false
  entries:
    casual_chat: {weight: 1.0, designated: true, source: casual_chat}
session_lengths: {"*": {kind: fixed, tokens: 64}}
memory_envelope_bytes: 1073741824
"""


class Services(cli.Services):
    def audits(self, run_dir: Path, load_model: Any) -> Any:
        return []


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of the command, in a folder with plan and candidate, on toy models and without a network."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "mini-champion").write_text(json.dumps({"seed": 1, "context": 512}))
    (tmp_path / "mini-draft.gguf").write_text(json.dumps({"seed": 2, "context": 512}))
    monkeypatch.setenv("DRAFTGATE_TOY_MODELS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    frozen, execution, executor = freeze.freeze, execute.Execution, InlineExecutor()

    def toy_freeze(composed: Any, out: Path, services: Any, options: Any) -> Any:
        return frozen(composed, out, services, dataclasses.replace(options, backend=BACKEND, executor=executor))

    def toy_execution(run_dir: Any, services: Any, options: RunOptions) -> Any:
        return execution(run_dir, services, dataclasses.replace(options, backend=BACKEND, executor=executor))

    def no_network(*_: object) -> None:
        raise AssertionError("a pipeline's gate reaches for the network")

    monkeypatch.setattr(session, "probe", lambda: 1000)
    monkeypatch.setattr(execute, "memory_bandwidth", lambda threads: None)
    monkeypatch.setattr(freeze, "freeze", toy_freeze)
    monkeypatch.setattr(execute, "Execution", toy_execution)
    monkeypatch.setattr(cli, "Services", Services)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(write, "draw_all", lambda *_: [])
    words = ["ci", "--plan", str(tmp_path / "plan.yaml"), "--candidate", str(tmp_path / "mini-draft.gguf")]
    return [*words, "--out", str(tmp_path / "out"), "--quick"]


def test_quick_mode_from_plan_to_summary(
    pipeline: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    code = cli.main(pipeline)
    out = tmp_path / "out"
    verdict, plan = json.loads((out / "verdict.json").read_text()), json.loads((out / "plan.json").read_text())
    assert code == {"GO": 0, "NO-GO": 3, "INCONCLUSIVE": 4, "INVALID": 5}[verdict["verdict"]] != 0
    assert plan["champion"]["name"] == "mini-champion" and plan["draft"]["name"].startswith("mini-draft")
    assert plan["schedule"]["blocks"] == 1 and "quick" in plan["title"]
    assert {p.name for p in out.iterdir()} >= {"report.html", "report.md", "junit.xml", "verdict.json", "ledger.jsonl"}
    asked = {g["id"]: g["requirement"] for g in plan["gates"]}
    assert asked["speedup"] == "if-available" and asked["exact-greedy"] == "required"
    printed = capsys.readouterr().out
    blocking = [g["id"] for g in verdict["gates"] if g["requirement"] == "required" and g["status"] != "pass"]
    assert blocking and all(id in printed for id in blocking) and "::error" in printed
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert verdict["verdict"] in summary and plan["title"].split(" (")[0] in summary.replace("\\", "")


def test_a_candidate_that_is_no_model_is_unusable_input(
    pipeline: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mini-draft.gguf").write_bytes(b"\x00not a model")
    assert cli.main(pipeline) == 2
    assert "not a toy model" in capsys.readouterr().err and not (tmp_path / "out" / "verdict.json").exists()
