"""A run is of what was frozen: models, prompts, plan, machine and stored files, or it is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draftgate.harness import execute
from draftgate.harness.errors import IntegrityError, PlanError
from draftgate.harness.formats import PLAN_FORMAT
from draftgate.harness.journal import live_records, read_line
from draftgate.harness.ledger import read_ledger
from draftgate.harness.rundir import RunDir
from draftgate.harness.verify import verify_run

from .conftest import StopAfter, Toy, copy_run
from .recorded import deviations


def test_any_bound_identity_that_differs_stops_the_run_and_is_named(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.freeze()
    toy.champion.write_text('{"seed": 2}')
    with pytest.raises(IntegrityError, match=r"champion\.sha256") as caught:
        toy.run()
    assert caught.value.exit_code == 5 and not list(RunDir(toy.folder / "run").parts.glob("*"))
    toy.champion.write_text('{"seed": 1}')
    monkeypatch.setattr("draftgate.harness.bound.source_digest", lambda: "0" * 64)
    with pytest.raises(IntegrityError, match="source_digest"):
        toy.run()
    monkeypatch.setattr("draftgate.harness.bound.package_version", lambda: "9.9")
    with pytest.raises(IntegrityError, match="package_version"):
        toy.run()


def test_a_prompt_file_that_changed_is_named(toy: Toy, tmp_path: Path) -> None:
    source = tmp_path / "mine.jsonl"
    source.write_text('{"id": "a", "prompt": "one"}\n')
    words = ("++strata.entries={mine: {weight: 1.0, designated: false, source: '" + str(source) + "'}}",)
    toy.freeze("run", *words)
    source.write_text('{"id": "a", "prompt": "two"}\n')
    with pytest.raises(IntegrityError, match=r"strata\.mine\.file_sha256"):
        toy.run()


def test_a_missing_model_is_named_and_nothing_is_downloaded(toy: Toy) -> None:
    toy.freeze()
    toy.champion.rename(toy.folder / "elsewhere.json")
    with pytest.raises(PlanError, match="--champion PATH"):
        toy.run()
    execution = toy.execution()
    execution.overrides = {"champion_path": str(toy.folder / "elsewhere.json")}
    execution.go()


def test_an_edited_or_foreign_plan_and_a_foreign_ledger_are_named(toy: Toy, finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "copy")
    plan = json.loads((folder / "plan.json").read_bytes())
    original = (folder / "plan.json").read_bytes()
    ledger = (folder / "ledger.jsonl").read_bytes()
    execution = toy.execution()
    execution.run_dir = RunDir(folder)

    (folder / "plan.json").write_bytes(original.replace(b'"alpha":0.025', b'"alpha":0.25'))
    with pytest.raises(IntegrityError, match="edited plan"):
        execution.go()
    (folder / "plan.json").write_text(json.dumps(plan, indent=1))
    with pytest.raises(IntegrityError, match="canonical"):
        execution.go()
    (folder / "plan.json").write_bytes(original.replace(PLAN_FORMAT.encode(), b"draftgate-plan/7"))
    with pytest.raises(PlanError, match="draftgate-plan/7"):
        execution.go()
    assert (folder / "ledger.jsonl").read_bytes() == ledger
    (folder / "plan.json").write_bytes(original)

    other = toy.freeze("other", "seed=00000000000000ff").run_dir
    (other.ledger).write_bytes(ledger)
    with pytest.raises(IntegrityError, match="foreign ledger"):
        toy.run("other")
    assert other.ledger.read_bytes() == ledger


def test_a_run_started_on_another_machine_needs_a_word(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(3))
    monkeypatch.setattr(execute, "machine_fingerprint", lambda salt: "another")
    with pytest.raises(IntegrityError, match="another machine"):
        toy.run()
    execution = toy.execution()
    execution.accept_machine = True
    execution.go()
    assert "environment" in deviations(toy.folder / "run")


def test_the_private_part_may_be_withheld_after_the_end_but_not_before(toy: Toy) -> None:
    import shutil

    folder = toy.whole()
    shutil.rmtree(folder / "private")
    toy.run()
    report = verify_run(folder, toy.services)
    assert report.ok and any("withheld" in line for line in report.not_checked)


@pytest.mark.parametrize(("name", "version"), [("operational.json", "operational"), ("private/salt.json", "salt")])
def test_a_stored_file_of_another_version_is_refused_by_name(toy: Toy, name: str, version: str) -> None:
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(1))
    path = toy.folder / "run" / name
    path.write_text(path.read_text().replace(f"draftgate-{version}/1", f"draftgate-{version}/8"))
    with pytest.raises(PlanError, match=f"draftgate-{version}/8"):
        toy.run()


def test_nothing_public_holds_a_path_a_prompt_or_an_output(toy: Toy) -> None:
    folder = toy.whole()
    public = [p for p in folder.rglob("*") if p.is_file() and "private" not in p.parts and p.name != "operational.json"]
    secrets = {str(toy.folder).encode()}
    for _, body in live_records(read_ledger(folder).records, "request"):
        line = read_line(RunDir(folder), body, private=True)
        for ids in (line["output"], line["prompt"]):
            if len(ids) >= 4:
                secrets |= {json.dumps(ids).encode(), json.dumps(ids, separators=(",", ":")).encode()}
    for path in public:
        data = path.read_bytes()
        assert not any(secret in data for secret in secrets), path.name
