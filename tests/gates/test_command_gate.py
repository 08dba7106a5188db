"""`draftgate gate`: the exit code is the verdict, and a partial run has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness import cli
from support.gate_world import good_evidence, with_gates, write_run

GOOD = with_gates(good_evidence(), "identity", "complete", "exact-greedy", "speedup")


class Reports(cli.Services):
    """Services whose report writer only leaves files: reports have their own tests."""

    def write_reports(self, run_dir: Path, verdict: Any) -> list[Path]:
        paths = [run_dir / "report.md", run_dir / "junit.xml"]
        for path in paths:
            path.write_text(verdict.verdict)
        return paths


@pytest.fixture(autouse=True)
def reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "Services", Reports)


def test_exit_code_is_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    go = write_run(tmp_path / "go", GOOD)
    assert (
        cli.main(["gate", str(go), "--junit", str(tmp_path / "out" / "j.xml"), "--markdown", str(tmp_path / "m.md")])
        == 0
    )
    assert capsys.readouterr().out.startswith("GO ")
    assert (tmp_path / "out" / "j.xml").read_text() == (tmp_path / "m.md").read_text() == "GO"
    assert json.loads((go / "verdict.json").read_text())["verdict"] == "GO"

    slow = GOOD.requests.copy()
    slow.loc[slow["arm"] == "prompt_lookup", "total_ns"] *= 3
    assert cli.main(["gate", str(write_run(tmp_path / "slow", GOOD.replace(requests=slow))), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "NO-GO"
    few = GOOD.replace(rounds=GOOD.rounds.head(4))
    assert cli.main(["gate", str(write_run(tmp_path / "few", few))]) == 4
    assert "accepted_all" in capsys.readouterr().out
    assert cli.main(["gate", str(write_run(tmp_path / "lost", GOOD.replace(requests=GOOD.requests.iloc[1:])))]) == 5


def test_no_verdict_is_written_for_a_partial_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", GOOD, close=False)
    assert cli.main(["gate", str(run)]) == 6
    assert not (run / "verdict.json").exists() and "has not ended" in capsys.readouterr().err
    assert cli.main(["gate", str(tmp_path / "nowhere")]) == 2
