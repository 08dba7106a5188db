"""The chain: whatever is cut, edited, dropped, repeated or moved is seen, and a crash loses nothing that was
recorded."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness import atomic
from draftgate.harness.errors import IncompleteRun, IntegrityError
from draftgate.harness.formats import LEDGER_FORMAT
from draftgate.harness.ledger import Ledger, read_ledger, scan_ledger
from draftgate.harness.rundir import RunDir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def ledger_with(folder: Path, records: int = 5) -> RunDir:
    run_dir = RunDir(folder)
    ledger = Ledger(run_dir)
    ledger.append("plan", {"format": LEDGER_FORMAT, "plan_id": "x"})
    for i in range(records - 1):
        ledger.append("deviation", {"kind": "toy", "reason": f"number {i}"})
    ledger.close()
    return run_dir


def lines_of(run_dir: RunDir) -> list[bytes]:
    return run_dir.ledger.read_bytes().splitlines(keepends=True)


def test_reads_back_what_was_appended(tmp_path: Path) -> None:
    reading = read_ledger(ledger_with(tmp_path))
    assert reading.problem is None
    assert [r.seq for r in reading.records] == list(range(5))
    assert reading.records[3].body["reason"] == "number 2"
    assert [r.kind for r in reading.records.of_kind("plan")] == ["plan"]


def test_cut_at_every_byte_recovers_every_whole_record_and_keeps_the_rest_aside(tmp_path: Path) -> None:
    whole = ledger_with(tmp_path / "a") if (tmp_path / "a").mkdir() is None else None
    assert whole is not None
    data = whole.ledger.read_bytes()
    ends = [0]
    for line in lines_of(whole):
        ends.append(ends[-1] + len(line))
    for cut in range(len(data)):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        run_dir = RunDir(folder)
        run_dir.ledger.write_bytes(data[:cut])
        ledger = Ledger(run_dir)
        kept = max(e for e in ends if e <= cut)
        assert ledger.length == ends.index(kept)
        if cut != kept:
            assert ledger.torn_tail is not None
            assert (folder / ledger.torn_tail.kept_as).read_bytes() == data[kept:cut]
        ledger.append("deviation", {"kind": "after", "reason": ""})
        ledger.close()
        assert scan_ledger(run_dir.ledger).problem is None


@pytest.mark.parametrize("change", ["edit", "drop", "repeat", "swap", "insert"])
def test_a_changed_middle_is_named_and_nothing_is_touched(tmp_path: Path, change: str) -> None:
    run_dir = ledger_with(tmp_path)
    lines = lines_of(run_dir)
    if change == "edit":
        lines[2] = lines[2].replace(b"number 1", b"number 9")
    elif change == "drop":
        del lines[2]
    elif change == "repeat":
        lines.insert(2, lines[2])
    elif change == "swap":
        lines[2], lines[3] = lines[3], lines[2]
    else:
        lines.insert(2, b"{}\n")
    run_dir.ledger.write_bytes(b"".join(lines))
    before = run_dir.ledger.read_bytes()
    assert scan_ledger(run_dir.ledger).problem is not None
    with pytest.raises(IntegrityError, match="record"):
        Ledger(run_dir)
    assert run_dir.ledger.read_bytes() == before


def test_a_full_disk_leaves_whole_records_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = ledger_with(tmp_path)
    before = run_dir.ledger.read_bytes()
    ledger = Ledger(run_dir)
    real = os.write

    def half(handle: int, data: Any) -> int:
        real(handle, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "write", half)
    with pytest.raises(IncompleteRun, match="disk is full"):
        ledger.append("deviation", {"kind": "x", "reason": ""})
    monkeypatch.undo()
    assert run_dir.ledger.read_bytes() == before
    ledger.append("deviation", {"kind": "x", "reason": ""})
    ledger.close()
    assert scan_ledger(run_dir.ledger).problem is None


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    ledger = Ledger(run_dir)
    ledger.append("plan", {"format": "draftgate-ledger/9", "plan_id": "x"})
    ledger.close()
    assert "draftgate-ledger/9" in str(read_ledger(run_dir).problem)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(st.dictionaries(st.text(max_size=6), json_values, max_size=4), max_size=5))
def test_any_body_survives_and_any_flipped_byte_is_seen(tmp_path_factory: Any, bodies: list[dict[str, Any]]) -> None:
    run_dir = RunDir(tmp_path_factory.mktemp("ledger"))
    ledger = Ledger(run_dir)
    for body in bodies:
        ledger.append("audit", body)
    ledger.append("close", {"end": True})
    ledger.close()
    reading = scan_ledger(run_dir.ledger)
    assert [r.body for r in reading.records][:-1] == json.loads(json.dumps(bodies))
    data = bytearray(run_dir.ledger.read_bytes())
    last = data.rfind(b"\n", 0, len(data) - 1) + 1
    for at in range(
        0, last, max(1, last // 40)
    ):  # a change in the last record shows by the head file, not by the chain
        changed = bytearray(data)
        changed[at] ^= 1
        run_dir.ledger.write_bytes(changed)
        assert scan_ledger(run_dir.ledger).problem is not None or scan_ledger(run_dir.ledger).head != reading.head
