"""Whoever changes one thing in a finished run is found out: each field once, each way of tampering with a record."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draftgate.harness.canonical import canonical_bytes
from draftgate.harness.formats import HEAD_FORMAT
from draftgate.harness.tables import TABLES
from draftgate.harness.verify import verify_run

from .conftest import Services, copy_run


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every leaf of a JSON value; empty containers count as leaves."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list) and value:
        for i, child in enumerate(value):
            yield from leaves(child, (*path, i))
    else:
        yield path


def flipped(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1") if value else "x"
    return 1 if value is None else [1] if value == [] else {"x": 1}


def with_flip(value: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(value)
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = flipped(node[path[-1]])
    return changed


def caught(folder: Path) -> bool:
    return not verify_run(folder, Services()).ok


def encoded(record: Any) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def test_an_untouched_run_is_honest_and_checking_it_changes_nothing(finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    report = verify_run(folder, Services())
    assert report.ok and report.complete, report.problems
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_every_field_of_the_ledger(finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    kinds: set[tuple[str, Any]] = set()
    count = 0
    for number, line in enumerate(lines):
        record = json.loads(line)
        for path in leaves(record):
            where = (record["kind"], tuple("i" if isinstance(p, int) else p for p in path))
            last = number == len(lines) - 1
            if where in kinds and not last:
                continue  # the same field of another record of this kind
            kinds.add(where)
            changed = [*lines]
            changed[number] = encoded(with_flip(record, path))
            (folder / "ledger.jsonl").write_bytes(b"".join(changed))
            assert caught(folder), (number, path)
            count += 1
    assert count > 150


@pytest.mark.parametrize("change", ["drop", "duplicate", "swap"])
def test_every_record_dropped_repeated_or_moved(finished: Path, tmp_path: Path, change: str) -> None:
    folder = copy_run(finished, tmp_path / "run")
    lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    for i in range(len(lines) - (change == "swap")):
        changed = [*lines]
        if change == "drop":
            del changed[i]
        elif change == "duplicate":
            changed.insert(i, changed[i])
        else:
            changed[i], changed[i + 1] = changed[i + 1], changed[i]
        (folder / "ledger.jsonl").write_bytes(b"".join(changed))
        assert caught(folder), (change, i)


def chained(records: list[dict[str, Any]]) -> bytes:
    """A forger's ledger: links and numbers made right again."""
    lines, prev = [], "0" * 64
    for seq, record in enumerate(records):
        line = encoded({"seq": seq, "prev": prev, "kind": record["kind"], "body": record["body"]})
        prev = sha256(line[:-1]).hexdigest()
        lines.append(line)
    return b"".join(lines)


def forge(folder: Path, records: list[dict[str, Any]]) -> None:
    """A ledger whose chain and head were made right again."""
    data = chained(records)
    (folder / "ledger.jsonl").write_bytes(data)
    head = {
        "format": HEAD_FORMAT,
        "records": len(records),
        "sha256": sha256(data[:-1].rpartition(b"\n")[2]).hexdigest(),
    }
    (folder / "ledger.head.json").write_text(json.dumps(head))


def test_a_chain_made_right_again_still_betrays_a_request(finished: Path, tmp_path: Path) -> None:
    """Every stored field of a request, chain and head repaired after it: tables, parts or schedule disagree."""
    folder = copy_run(finished, tmp_path / "run")
    records = [json.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]
    index = next(i for i, r in enumerate(records) if r["kind"] == "request")
    forge(folder, records)
    assert not caught(folder)
    columns = {c.name for c in TABLES["requests"]} - {"excluded"}  # that one is derived, whatever a record says
    for path in leaves(records[index]["body"]):
        if path[0] not in columns | {"part", "rounds_sha256", "output_sha256"}:
            continue
        changed = copy.deepcopy(records)
        changed[index]["body"] = with_flip(records[index]["body"], path)
        forge(folder, changed)
        assert caught(folder), path
    forge(folder, [r for i, r in enumerate(records) if i != index])
    assert caught(folder)
    forge(folder, [*records[: index + 1], *records[index:]])
    assert caught(folder)


def test_every_field_of_the_plan(finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    plan = json.loads((folder / "plan.json").read_bytes())
    for path in leaves(plan):
        (folder / "plan.json").write_bytes(canonical_bytes(with_flip(plan, path)))
        assert caught(folder), path
    (folder / "plan.json").write_bytes(json.dumps(plan).encode())
    assert caught(folder)


def test_every_column_of_every_table_even_with_its_hash_put_right(finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    ledger = (folder / "ledger.jsonl").read_bytes()
    flips = 0
    for name, columns in TABLES.items():
        path = folder / "results" / f"{name}.parquet"
        data = path.read_bytes()
        table = pq.read_table(path)
        for i, column in enumerate(columns):
            if not table.num_rows:
                continue
            values = table.column(i).to_pylist()
            values[-1] = 7.0 if column.type == pa.float64() and values[-1] is None else flipped(values[-1])
            field = table.schema.field(i)
            changed = table.set_column(i, field, pa.array(values, type=field.type))
            pq.write_table(changed, path)
            assert caught(folder), (name, column.name)
            new = sha256(path.read_bytes()).hexdigest()
            (folder / "ledger.jsonl").write_bytes(ledger.replace(sha256(data).hexdigest().encode(), new.encode()))
            assert caught(folder), (name, column.name, "with its hash")
            (folder / "ledger.jsonl").write_bytes(ledger)
            flips += 1
        path.write_bytes(data)
    assert flips > 80
    assert not caught(folder)


def test_every_field_of_the_parts_and_of_the_private_lines(finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    for path in (folder / "parts" / "00000.jsonl", folder / "private" / "00001.jsonl"):
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        for number in (0, len(lines) - 1):
            value = json.loads(lines[number])
            for leaf in list(leaves(value))[:: 1 + len(list(leaves(value))) // 25]:
                changed = [*lines]
                changed[number] = encoded(with_flip(value, leaf))
                path.write_bytes(b"".join(changed))
                assert caught(folder), (path.name, number, leaf)
        path.write_bytes(data + b'{"more": 1}\n')
        assert caught(folder) or path.parent.name == "private"
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["verdict.json", "ledger.head.json", "decision_card.json"])
def test_every_field_of_what_stands_beside(finished: Path, tmp_path: Path, name: str) -> None:
    folder = copy_run(finished, tmp_path / "run")
    value = json.loads((folder / name).read_bytes())
    for path in leaves(value):
        (folder / name).write_text(json.dumps(with_flip(value, path)))
        assert caught(folder), path
    (folder / name).unlink()
    assert caught(folder) or name == "decision_card.json"


@pytest.mark.parametrize("edited", ["[]", "{}", "3", '{"gates": [1]}', "[" * 100_000])
def test_a_verdict_of_any_other_shape_is_a_problem_and_no_traceback(
    finished: Path, tmp_path: Path, edited: str
) -> None:
    folder = copy_run(finished, tmp_path / "run")
    (folder / "verdict.json").write_text(edited)
    assert any("verdict.json" in line for line in verify_run(folder, Services()).problems)


def test_a_run_that_has_not_ended_is_said_to_be_so(finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    close = next(i for i, line in enumerate(lines) if json.loads(line)["kind"] == "close")
    (folder / "ledger.jsonl").write_bytes(b"".join(lines[:close]))
    (folder / "ledger.head.json").unlink()
    report = verify_run(folder, Services())
    assert not report.complete and report.ok, report.problems
    (folder / "ledger.jsonl").unlink()
    assert not verify_run(folder, Services()).complete
