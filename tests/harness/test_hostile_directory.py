"""A run directory from a stranger: links, pipes and chained nonsense are named; nothing outside it is touched."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from draftgate.gates.evidence import load_evidence
from draftgate.harness.canonical import canonical_bytes
from draftgate.harness.errors import DraftgateError, IntegrityError
from draftgate.harness.freeze import load_plan
from draftgate.harness.ledger import scan_ledger
from draftgate.harness.verify import verify_run

from .conftest import Services, Toy, copy_run


@pytest.mark.parametrize("name", ["ledger.jsonl", "run.lock", "parts", "parts/00000.jsonl", "private", "torn"])
def test_a_link_in_a_run_directory_never_carries_a_write_outside(toy: Toy, finished: Path, name: str) -> None:
    folder = copy_run(finished, toy.folder / "run")
    outside = toy.folder / "outside"
    path = folder / name
    if path.is_dir() or name == "torn":
        path.rename(outside) if path.exists() else outside.mkdir()
        (outside / "00000.jsonl").write_bytes(b"somebody else's\n")
    else:
        path.unlink()
        outside.write_bytes(b"somebody else's\n")
    path.symlink_to(outside)
    before = {p: p.read_bytes() for p in toy.folder.rglob("*") if p.is_file()}
    with pytest.raises(IntegrityError, match=r"symbolic link.*nothing was changed"):
        toy.run()
    assert {p: p.read_bytes() for p in toy.folder.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("name", ["ledger.jsonl", "plan.json", "parts/00000.jsonl"])
def test_a_pipe_is_named_and_never_waited_for(toy: Toy, finished: Path, name: str) -> None:
    folder = copy_run(finished, toy.folder / "run")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(IntegrityError, match="not a plain file"):
        toy.run()
    assert any("not a plain file" in line for line in verify_run(folder, Services()).problems)
    if name == "plan.json":
        with pytest.raises(DraftgateError, match="not a plain file"):
            load_plan(folder)


def test_a_file_that_never_was_a_ledger_is_left_as_it_is(toy: Toy, finished: Path) -> None:
    folder = copy_run(finished, toy.folder / "run")
    (folder / "ledger.jsonl").write_bytes(b"root:x:0:0\ndaemon:x:1:1\n")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "run.lock"}
    with pytest.raises(IntegrityError, match=r"not a whole record; nothing was changed"):
        toy.run()
    with pytest.raises(IntegrityError, match="not a whole record"):
        load_evidence(folder)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "run.lock"} == before


BODIES = {
    "unknown kind": ("zzz", b'"request_id":"x"'),
    "retracted is a number": ("deviation", b'"retracted":5'),
    "ends is a list": ("deviation", b'"part_ends":[1]'),
    "time is a text": ("segment", b'"wall_ns":"x"'),
    "unicode": ("deviation", b'"kind":"\xff"'),
    "digits": ("deviation", b'"n":' + b"9" * 10_000),
    "deep": ("deviation", b'"n":' + b"[" * 100_000 + b"]" * 100_000),
    "no fields": ("request", b'"request_id":"x"'),
    "part of another shape": ("request", b'"request_id":"x","part":"no"'),
    "no such part": ("request", b'"request_id":"x","part":[99999999999,1,1,1,1]'),
}


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_a_chained_record_that_no_runner_writes_is_a_problem_and_no_traceback(
    toy: Toy, finished: Path, name: str, last: bool
) -> None:
    added = [BODIES[name], *([] if last else [("deviation", b'"kind":"x","reason":"x"')])]
    folder = copy_run(finished, toy.folder / "run")
    ledger = folder / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    for kind, body in added:
        head = f'{{"seq":{len(lines)},"prev":"{hashlib.sha256(lines[-1][:-1]).hexdigest()}","kind":"{kind}","body":{{'
        lines.append(head.encode() + body + b"}}\n")
    ledger.write_bytes(b"".join(lines))
    scan_ledger(ledger)
    assert verify_run(folder, Services()).problems
    with_code(lambda: load_evidence(folder))
    with_code(toy.run)


def with_code(action: Callable[[], object]) -> None:
    """It works, or says what is wrong."""
    try:
        action()
    except DraftgateError as error:
        assert "\n" not in str(error)


PLANS: dict[str, Callable[[bytes], bytes]] = {
    "deep": lambda raw: b"[" * 200_000,
    "beyond 2^53": lambda raw: raw.replace(b'"attempts_budget":8', b'"attempts_budget":9007199254740993'),
    "fields gone": lambda raw: canonical_bytes({"format": json.loads(raw)["format"]}),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_was_never_frozen_is_an_integrity_failure(finished: Path, tmp_path: Path, name: str) -> None:
    folder = copy_run(finished, tmp_path / "run")
    (folder / "plan.json").write_bytes(PLANS[name]((folder / "plan.json").read_bytes()))
    if name != "fields gone":
        with pytest.raises(IntegrityError, match="edited"):
            load_plan(folder)
    assert verify_run(folder, Services()).problems
