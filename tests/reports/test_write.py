"""All reports of a run, whole or not at all; nothing from a run that is not one or has not ended."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from draftgate.gates.evidence import EvidenceError
from draftgate.gates.result import GateResult, Verdict
from draftgate.gates.verdict_file import write_verdict
from draftgate.harness.errors import DraftgateError, IncompleteRun
from draftgate.reports import write
from draftgate.reports.commands import report
from draftgate.reports.figures import drawn
from draftgate.reports.files import ReportError, write_text
from draftgate.reports.write import write_reports
from support.gate_world import bind
from support.synthetic_run import SyntheticRun

from .conftest import FakeServices

EXPECTED = {"report.html", "report.md", "junit.xml", "model-card.md", "attestation.unsigned.intoto.json",
"survival.svg",
            "survival.csv", "ecdf.svg", "heatmap.csv", "waterfall.svg", "memory.csv", "calibration.svg",
            "pareto.svg"}  # fmt: skip


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws only what is quick to draw."""
    monkeypatch.setattr(write, "draw_all", partial(drawn.draw_all, ids=("heatmap", "memory")))


def test_everything_is_written_and_readable(written: dict[str, Path]) -> None:
    assert set(written) >= EXPECTED
    for path in written.values():
        assert path.stat().st_size > 0
        assert path.stat().st_mode & 0o044 == 0o044
    table = pd.read_csv(written["ecdf.csv"])
    assert set(table.columns) >= {"arm", "stratum", "speedup"} and (table["speedup"] > 0).all()


def test_no_private_thing_and_no_local_path_is_in_a_report(written: dict[str, Path], shared_run: SyntheticRun) -> None:
    for path in written.values():
        text = path.read_text("utf-8")
        assert str(shared_run.path) not in text and "/home/" not in text


def test_a_second_report_is_the_same_bytes(shared_run: SyntheticRun, written: dict[str, Path]) -> None:
    before = {name: path.read_bytes() for name, path in written.items()}
    after = {p.name: p.read_bytes() for p in write_reports(shared_run.path, shared_run.verdict)}
    assert before == after


@pytest.mark.parametrize("verdict", ["NO-GO", "INCONCLUSIVE", "INVALID"])
def test_reports_come_whatever_the_verdict(one_figure: None, own_run: SyntheticRun, verdict: str) -> None:
    spoiled = Verdict(verdict, own_run.plan_id, (GateResult("identity", "invalid", "another file"),), ("x",))  # type: ignore[arg-type]
    text = {p.name: p for p in write_reports(own_run.path, spoiled)}["report.html"].read_text("utf-8")
    assert f"<title>{verdict}:" in text


def test_a_half_written_file_never_replaces_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_text(tmp_path / "a.txt", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ReportError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_figure_of_an_earlier_report_does_not_stay_when_it_cannot_be_drawn_again(
    one_figure: None, own_run: SyntheticRun
) -> None:
    write_reports(own_run.path, own_run.verdict)
    (own_run.path / "results" / "memory.parquet").unlink()
    write_reports(own_run.path, own_run.verdict)
    assert not (own_run.path / "figures" / "memory.svg").exists()
    assert "Not drawn" in (own_run.path / "report.html").read_text("utf-8")


def arguments(path: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    report.configure(parser)
    return parser.parse_args([str(path), "--quiet", "--crate"])


def test_report_command_writes_and_lists(
    one_figure: None, own_run: SyntheticRun, services: FakeServices, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.run(arguments(own_run.path), services) == 0
    listed = capsys.readouterr().out.splitlines()
    assert all(Path(line).is_file() for line in listed)
    crate = json.loads((own_run.path / "ro-crate-metadata.json").read_text())
    parts = {p["@id"] for p in crate["@graph"][1]["hasPart"]}
    assert "report.html" in parts and not any("private" in p for p in parts)
    assert parts == {e["@id"] for e in crate["@graph"][2:]}


def test_a_partial_run_gets_no_report(own_run: SyntheticRun, services: FakeServices) -> None:
    ledger = own_run.path / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(IncompleteRun, match="has not ended") as caught:
        report.run(arguments(own_run.path), services)
    assert caught.value.exit_code == 6 and not (own_run.path / "report.html").exists()


def test_what_is_no_run_is_named(tmp_path: Path, services: FakeServices) -> None:
    with pytest.raises(EvidenceError, match="no such run directory"):
        report.run(arguments(tmp_path / "none"), services)
    with pytest.raises(DraftgateError, match="no plan"):
        report.run(arguments(tmp_path), services)


def test_a_stored_verdict_that_contradicts_the_records_is_exit_five(
    one_figure: None, own_run: SyntheticRun, services: FakeServices, capsys: pytest.CaptureFixture[str]
) -> None:
    write_verdict(own_run.path, own_run.verdict)
    gates = (replace(own_run.verdict.gates[0], status="invalid"), *own_run.verdict.gates[1:])
    services.verdict = Verdict("INVALID", own_run.plan_id, gates, ("identity",))
    assert report.run(arguments(own_run.path), services) == 5
    assert "says GO, the records give INVALID" in capsys.readouterr().err
    assert "<title>INVALID" in (own_run.path / "report.html").read_text("utf-8")


@pytest.mark.parametrize("edited", ['{"verdict": "GO"}', "[]", "{", "", '{"format": "draftgate-verdict/1"}'])
def test_a_verdict_file_that_was_edited_out_of_shape_is_exit_five_and_the_reports_follow_the_records(
    one_figure: None, own_run: SyntheticRun, services: FakeServices, capsys: pytest.CaptureFixture[str], edited: str
) -> None:
    (own_run.path / "verdict.json").write_text(edited)
    assert report.run(arguments(own_run.path), services) == 5
    assert "the reports follow the records" in capsys.readouterr().err
    assert (own_run.path / "report.html").is_file() and (own_run.path / "verdict.json").read_text() == edited


def test_a_verdict_file_that_the_ledger_binds_otherwise_is_exit_five(
    one_figure: None, own_run: SyntheticRun, services: FakeServices, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_verdict(own_run.path, own_run.verdict)
    bind(own_run.path)
    assert report.run(arguments(own_run.path), services) == 0
    path.write_text(path.read_text().replace('"exploratory": false', '"exploratory":  false'))
    assert report.run(arguments(own_run.path), services) == 5
    assert "is not the verdict that the ledger binds" in capsys.readouterr().err


def test_gate_reads_the_tables_once(one_figure: None, own_run: SyntheticRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from draftgate.gates import evidence, judge
    from draftgate.reports import records

    read: list[Path] = []

    def counted(run_dir: Path) -> evidence.Evidence:
        read.append(run_dir)
        return evidence._load(Path(run_dir))

    monkeypatch.setattr(judge, "load_evidence", counted)
    monkeypatch.setattr(records, "load_evidence", counted)
    verdict = judge.judge(own_run.path)
    write_reports(own_run.path, verdict)
    assert read == [own_run.path]
    write_reports(own_run.path, replace(verdict, evidence=None))
    assert len(read) == 2


def test_a_verdict_never_lends_its_evidence_to_another_directory(
    one_figure: None, own_run: SyntheticRun, tmp_path: Path
) -> None:
    from draftgate.gates.judge import judge
    from draftgate.reports.records import load_records
    from support.synthetic_run import synthetic_run

    other = synthetic_run(tmp_path / "other", strata=("code",), prompts=2, blocks=1, tokens=4)
    assert load_records(other.path, judge(own_run.path)).plan_id == other.plan_id


def test_gate_imports_no_library_it_does_not_use(own_run: SyntheticRun) -> None:
    """Each of these takes as long to import as a sweep takes to judge."""
    code = (
        "import sys; from draftgate.harness.cli import main; main(['gate', sys.argv[1]]); "
        "print(sorted(m for m in ('scipy.stats', 'statsmodels', 'torch', 'matplotlib.pyplot') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(own_run.path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
