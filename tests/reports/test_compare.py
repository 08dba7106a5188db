"""Candidates side by side: told apart by name, judged each from its own records, and warned about where they differ."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest
from draftgate.gates.evidence import EvidenceError
from draftgate.gates.result import Verdict
from draftgate.reports.commands import compare as command
from draftgate.reports.compare import hindrances, load_sides, render_markdown, rows, short_names
from draftgate.reports.files import ReportError
from support.synthetic_run import SyntheticRun, synthetic_run

from .conftest import FakeServices


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticRun, SyntheticRun]:
    folder = tmp_path_factory.mktemp("pair")
    few = {"strata": ("code", "casual_chat"), "prompts": 3, "blocks": 2, "tokens": 8}
    first = synthetic_run(folder / "a" / "run", **few)  # type: ignore[arg-type]
    second = synthetic_run(folder / "b" / "run", candidate="prompt_lookup", seed=3, **few)  # type: ignore[arg-type]
    return first, second


def test_each_side_has_its_own_numbers(pair: tuple[SyntheticRun, SyntheticRun]) -> None:
    sides = load_sides([r.path for r in pair], FakeServices(pair[0].verdict))
    table = dict(rows(sides))
    assert table["candidate"] == ["neural_draft", "prompt_lookup"]
    assert [s.name for s in sides] == ["a/run", "b/run"]
    assert len(set(table["tokens a round"])) == 2 and all("×" in c for c in table["speed-up, code"])
    markdown = render_markdown(sides)
    assert all(line.count("|") >= 4 for line in markdown.splitlines() if line.startswith("|"))


def test_what_forbids_a_comparison_is_said(pair: tuple[SyntheticRun, SyntheticRun], tmp_path: Path) -> None:
    first = pair[0]
    other = synthetic_run(tmp_path / "c", strata=("code",), prompts=3, blocks=1, tokens=9,
                          deficits={"champion": {**first.plan["champion"], "sha256": "0" * 64}})  # fmt: skip
    sides = load_sides([first.path, other.path], FakeServices(first.verdict))
    said = " ".join(hindrances(sides))
    for what in ("the champion", "the prompts", "the answer length", "a budget of 1"):
        assert what in said
    same = [s for s in hindrances(load_sides([r.path for r in pair], FakeServices(first.verdict))) if "differs" in s]
    assert not same


def test_a_verdict_that_does_not_rest_on_speed_is_said_to_be_so(pair: tuple[SyntheticRun, SyntheticRun]) -> None:
    class Judged(FakeServices):
        def judge(self, run_dir: Path) -> Verdict:
            found = super().judge(run_dir)
            if run_dir != pair[1].path:
                return found
            return replace(found, gates=tuple(replace(g, requirement="if-available") for g in found.gates))

    sides = load_sides([r.path for r in pair], Judged(pair[0].verdict))
    (said,) = [line for line in hindrances(sides) if "speed" in line]
    assert said == "b/run: its plan does not require the speed-up, so its verdict does not rest on speed"
    assert dict(rows(sides))["speed-up required"] == ["yes", "no"]
    same = load_sides([r.path for r in pair], FakeServices(pair[0].verdict))
    assert not [line for line in hindrances(same) if "speed" in line]


def test_the_command(pair: tuple[SyntheticRun, SyntheticRun], capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    paths = [str(r.path) for r in pair]
    services = FakeServices(pair[0].verdict)
    assert command.run(parser.parse_args([*paths, "--json"]), services) == 0
    value = json.loads(capsys.readouterr().out)
    assert [r["verdict"]["verdict"] for r in value["runs"]] == ["GO", "GO"] and value["hindrances"]
    assert command.run(parser.parse_args(paths), services) == 0
    out, err = capsys.readouterr()
    assert "neural_draft" in out and "careful" in err


def test_bad_input_is_named(pair: tuple[SyntheticRun, SyntheticRun], tmp_path: Path) -> None:
    services = FakeServices(pair[0].verdict)
    with pytest.raises(ReportError, match="at least two"):
        load_sides([pair[0].path], services)
    with pytest.raises(ReportError, match="given twice"):
        load_sides([pair[0].path, pair[0].path], services)
    with pytest.raises(EvidenceError, match="no such run directory"):
        load_sides([pair[0].path, tmp_path / "none"], services)


def test_names_take_as_many_parents_as_they_need() -> None:
    assert short_names([Path("/x/a/run"), Path("/y/a/run")]) == ["x/a/run", "y/a/run"]
    assert short_names([Path("/x/one"), Path("/x/two")]) == ["one", "two"]
