"""`draftgate gate`: the exit code is the verdict, and a partial run has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness import cli
from support.gate_world import bind, good_evidence, with_gates, write_run

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


def test_a_verdict_of_another_version_is_kept_and_the_new_one_lies_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", GOOD)
    path = run / "verdict.json"
    assert cli.main(["gate", str(run)]) == 0
    ours = json.loads(path.read_text())
    assert ours["computed_by"]["analysis_version"] == "gates/1"
    older = {**ours, "computed_by": {"package_version": "0.0.9", "analysis_version": "gates/0"}}
    path.write_text(json.dumps(older))  # says the same: nothing to do, whatever the version
    before = path.read_bytes()
    assert cli.main(["gate", str(run)]) == 0 and path.read_bytes() == before
    assert not (run / "verdict.rejudged.json").exists()

    wording = {**older, "reasons": ["another sentence"]}
    path.write_text(json.dumps(wording))
    capsys.readouterr()
    assert cli.main(["gate", str(run)]) == 0 and json.loads(path.read_text()) == wording
    assert json.loads((run / "verdict.rejudged.json").read_text()) == ours
    assert "by draftgate 0.0.9, gates/0) is kept: it decides the same" in capsys.readouterr().err

    path.write_text(json.dumps({**older, "verdict": "NO-GO"}))
    assert cli.main(["gate", str(run)]) == 5
    assert "it says NO-GO, these gates say GO" in capsys.readouterr().err
    assert json.loads(path.read_text())["verdict"] == "NO-GO"


def test_a_bound_verdict_is_kept_and_an_edited_or_damaged_one_is_told_and_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", GOOD)
    path = run / "verdict.json"
    assert cli.main(["gate", str(run)]) == 0
    ours = path.read_bytes()
    changed = json.dumps({**json.loads(ours), "reasons": ["x"]})
    path.write_text(changed)
    bind(run)
    assert cli.main(["gate", str(run)]) == 0 and path.read_text() == changed
    edited = json.dumps({**json.loads(changed), "verdict": "NO-GO"})  # after it was bound
    others = (b"{", b"[]", b'{"gates": 3}', json.dumps({**json.loads(ours), "plan_id": "0" * 64}).encode())
    for number, damage in enumerate((edited.encode(), *others)):
        path.write_bytes(damage)
        capsys.readouterr()
        assert cli.main(["gate", str(run)]) == 5 and path.read_bytes() == ours
        kept = "verdict.replaced.json" if number == 0 else f"verdict.replaced-{number + 1}.json"
        said = capsys.readouterr().err
        assert "is not the one that the ledger binds" in said and kept in said
        assert (run / kept).read_bytes() == damage


def test_an_unbound_verdict_that_says_otherwise_is_told_and_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", GOOD)
    path = run / "verdict.json"
    assert cli.main(["gate", str(run)]) == 0 and capsys.readouterr().err == ""
    ours = path.read_bytes()
    for changes, code, said in (
        ({"verdict": "NO-GO"}, 5, "says NO-GO where these records give GO"),
        ({"reasons": ["x"]}, 0, "says other words"),
        ({"gates": 3}, 0, "is no verdict on this plan"),
    ):
        path.write_text(json.dumps({**json.loads(ours), **changes}))
        edited = path.read_bytes()
        assert cli.main(["gate", str(run)]) == code and path.read_bytes() == ours
        assert said in capsys.readouterr().err
        assert edited in [p.read_bytes() for p in run.glob("verdict.replaced*.json")]
        assert cli.main(["gate", str(run)]) == 0 and capsys.readouterr().err == ""
