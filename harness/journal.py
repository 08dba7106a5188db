"""Ledger and part files together: what is recorded, what a crash cut off, and how a record is bound to its bytes.

A keyed record's body begins with its key (``request_id`` and so on) and its place in the unit's part files:
``"part":[unit, offset, bytes, private offset, private bytes]``. Parts are written and fsynced before the record
that binds them,
so a crash leaves bytes without a record (cut off and kept aside), never a record without bytes. Where a file was
damaged otherwise, the records that lost their bytes are retracted by a deviation and run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from .atomic import append_durably, disk_errors, sync_folder
from .canonical import compact, digest
from .ledger import Ledger, Records, cut_tail
from .rundir import RunDir

_TORN = "bytes after the last whole record were cut off after an interruption and kept aside"
_LOST = "{} records lost the bytes they were bound to and are run again"
EXTRA = -1
"""Unit index of the file of rows written after the requests."""
_KEPT = ("deviation", "reveal", "table", "verdict")
_KEY = re.compile(rb'"body":\{"[a-z]+_id":"((?:[^"\\]|\\.)*)"(?:,"part":\[(-?\d+),(\d+),(\d+),(\d+),(\d+)\])?')


def part_path(run_dir: RunDir, unit: int) -> Path:
    return run_dir.extra_part if unit == EXTRA else run_dir.part(unit)


class Index:
    """Live keys and the extent of each part file, as a scan of the ledger finds them."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        """Key of each live keyed record (kind and id) to its sequence number."""
        self.ends: dict[int, list[int]] = {}
        """Unit to the end of its recorded bytes, public and private."""
        self.retracted: dict[str, int] = {}
        """Key to the sequence number of its last retraction: records of it before that one do not count."""
        self.twice: list[str] = []
        """Keys recorded again while still live: must not happen."""
        self.first: dict[str, Any] | None = None
        """Body of the plan record."""
        self.bodies: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KEPT}
        """Bodies of the kinds there are few of, in order."""
        self.closed = False
        self.last_wall_ns = 0

    def count(self, kind: str) -> int:
        """Live records of one kind."""
        start = f"{kind}:"
        return sum(1 for key in self.live if key.startswith(start))

    def visit(self, seq: int, kind: bytes, line: bytes) -> None:
        found = _KEY.search(line, 80, 4096)
        if found is not None:
            self._keyed(seq, kind.decode(), found)
        elif kind == b"plan":
            self.first = json.loads(line)["body"]
        if kind.decode() in self.bodies:
            self.bodies[kind.decode()].append(json.loads(line)["body"])
        if kind == b"deviation":
            self._deviation(seq, self.bodies["deviation"][-1])
        if kind in (b"plan", b"segment", b"close"):
            self.last_wall_ns = max(self.last_wall_ns, json.loads(line)["body"].get("wall_ns", 0))
        self.closed = kind == b"close" or (self.closed and kind == b"verdict")

    def _keyed(self, seq: int, kind: str, found: re.Match[bytes]) -> None:
        text = found[1].decode()
        key = f"{kind}:{json.loads(chr(34) + text + chr(34)) if chr(92) in text else text}"
        if key in self.live:
            self.twice.append(key)
        self.live[key] = seq
        if found[2] is not None:
            unit, at, size, private_at, private_size = (int(found[i]) for i in range(2, 7))
            ends = self.ends.setdefault(unit, [0, 0])
            ends[0], ends[1] = max(ends[0], at + size), max(ends[1], private_at + private_size)

    def _deviation(self, seq: int, body: dict[str, Any]) -> None:
        for key in body.get("retracted", ()):
            self.live.pop(key, None)
            self.retracted[key] = seq
        for unit, ends in body.get("part_ends", {}).items():
            self.ends[int(unit)] = list(ends)


class Journal:
    """The open record of a run. Holds what the runner asks: is this recorded, and write that."""

    def __init__(self, run_dir: RunDir, admit: Callable[[Index, int], None] | None = None) -> None:
        """Scan, ask ``admit`` (it sees the index and the number of records, and may raise), cut the ledger's torn end.

        Raises IntegrityError for a broken chain. Nothing is changed before ``admit`` has returned, and part files are
        left alone until `mend`, which has to come before anything is written.
        """
        self.run_dir = run_dir
        self.index = Index()
        check = admit or (lambda index, records: None)
        self.ledger = Ledger(run_dir, self.index.visit, lambda reading: check(self.index, len(reading.records)))
        self._handles: dict[Path, int] = {}
        with disk_errors(run_dir.path):
            run_dir.parts.mkdir(exist_ok=True)
        self._pending: list[dict[str, Any]] = []
        if self.ledger.torn_tail is not None:
            self.deviation("torn_tail", _TORN, tails=[asdict(self.ledger.torn_tail)])

    def mend(self) -> None:
        """Cut bytes that no record binds; retract records whose bytes are gone. A second call changes nothing."""
        tails, retracted, ends = [], [], {}
        units = {EXTRA: self.run_dir.extra_part} | {
            int(p.stem): p for p in self.run_dir.parts.glob("*.jsonl") if p.stem.isdigit()
        }
        for unit in sorted(set(units) | set(self.index.ends)):
            public, private = part_path(self.run_dir, unit), self.run_dir.private_part(unit)
            withheld = self.index.closed and not private.exists()
            recorded = self.index.ends.get(unit, [0, 0])
            there = [_size(public), recorded[1] if withheld or unit == EXTRA else _size(private)]
            if there[0] < recorded[0] or there[1] < recorded[1]:
                lost, keep = self._lost(unit, there)
                retracted += lost
                ends[str(unit)] = recorded = keep
            for path, size, keep_to in ((public, there[0], recorded[0]), (private, there[1], recorded[1])):
                if size > keep_to and path.exists():
                    tails.append(asdict(cut_tail(self.run_dir, path, keep_to)))
        if tails or retracted:
            kind, reason = ("lost_bytes", _LOST.format(len(retracted))) if retracted else ("torn_tail", _TORN)
            self.deviation(kind, reason, tails=tails, retracted=retracted, part_ends=ends)

    def _lost(self, unit: int, there: list[int]) -> tuple[list[str], list[int]]:
        keep, lost = [0, 0], []
        for key, seq in self.index.live.items():
            body = self.records[seq].body
            part = body.get("part")
            if part is None or part[0] != unit:
                continue
            if part[1] + part[2] > there[0] or part[3] + part[4] > there[1]:
                lost.append(key)
            else:
                keep = [max(keep[0], part[1] + part[2]), max(keep[1], part[3] + part[4])]
        return lost, keep

    @property
    def records(self) -> Records:
        return self.ledger.records

    def has(self, kind: str, key: str) -> bool:
        return f"{kind}:{key}" in self.index.live

    def body(self, kind: str, key: str) -> dict[str, Any]:
        """Body of a live keyed record. Raises KeyError when there is none."""
        return self.records[self.index.live[f"{kind}:{key}"]].body

    def private_line(self, kind: str, key: str) -> dict[str, Any]:
        """The private line of a live record."""
        return read_line(self.run_dir, self.body(kind, key), private=True)

    def append(self, kind: str, body: dict[str, Any]) -> None:
        line = self.ledger.append(kind, body)
        self.index.visit(self.ledger.length - 1, kind.encode(), line)
        if kind == "plan":
            pending, self._pending = self._pending, []
            for body in pending:
                self.append("deviation", body)

    def deviation(self, kind: str, reason: str, **detail: Any) -> None:
        """Something did not go as planned: recorded, never edited. Waits for the plan record, which comes first."""
        body = {"kind": kind, "reason": reason, **detail}
        if self.ledger.length == 0:
            self._pending.append(body)
        else:
            self.append("deviation", body)

    def write(
        self, kind: str, key: tuple[str, str], unit: int, public: dict[str, Any], private: dict[str, Any] | None,
        body: dict[str, Any],
    ) -> None:  # fmt: skip
        """Part lines first, fsynced; then the record that binds them by hash and place."""
        line = compact(public) + b"\n"
        hidden = compact(private) + b"\n" if private is not None else b""
        at = self._append(part_path(self.run_dir, unit), line)
        private_at = self._append(self.run_dir.private_part(unit), hidden) if hidden else 0
        bound = {
            key[0]: key[1],
            "part": [unit, at, len(line), private_at, len(hidden)],
            "rounds_sha256": digest(line),
            "output_sha256": digest(hidden) if hidden else "",
        }
        self.append(kind, bound | {k: v for k, v in body.items() if k not in bound})

    def _append(self, path: Path, data: bytes) -> int:
        handle = self._handles.get(path)
        if handle is None:
            with disk_errors(path):
                path.parent.mkdir(exist_ok=True, mode=0o700 if path.parent.name == "private" else 0o755)
                created = not path.exists()
                handle = os.open(
                    path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600 if path.parent.name == "private" else 0o644
                )
                if created:
                    sync_folder(path.parent)
            self._handles[path] = handle
        at = os.lseek(handle, 0, os.SEEK_END)
        append_durably(handle, data, path)
        return at

    def release_parts(self) -> None:
        """Close the part files of a finished unit."""
        for handle in self._handles.values():
            with contextlib.suppress(OSError):
                os.close(handle)
        self._handles.clear()

    def close(self) -> None:
        self.release_parts()
        self.ledger.close()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class Parts:
    """Reads the lines that records bind; keeps the last file of each kind open, since records come unit by unit."""

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self._open: dict[bool, tuple[int, BinaryIO]] = {}

    def data(self, body: dict[str, Any], *, private: bool = False) -> bytes:
        """The bytes; fewer or none when the file is short. Raises FileNotFoundError when it is missing."""
        unit, at, size, private_at, private_size = body["part"]
        held = self._open.get(private)
        if held is None or held[0] != unit:
            if held is not None:
                held[1].close()
                del self._open[private]
            path = self.run_dir.private_part(unit) if private else part_path(self.run_dir, unit)
            held = self._open[private] = (unit, path.open("rb"))
        held[1].seek(private_at if private else at)
        return held[1].read(private_size if private else size)

    def line(self, body: dict[str, Any], *, private: bool = False) -> dict[str, Any]:
        """The value. Raises ValueError when its bytes are not what the record says."""
        data = self.data(body, private=private)
        if digest(data) != body["output_sha256" if private else "rounds_sha256"]:
            where = "private" if private else "parts"
            raise ValueError(f"{where}: unit {body['part'][0]}: a line is not what was recorded")
        value: dict[str, Any] = json.loads(data)
        return value

    def close(self) -> None:
        for _, file in self._open.values():
            file.close()
        self._open.clear()


def read_line(run_dir: RunDir, body: dict[str, Any], *, private: bool = False) -> dict[str, Any]:
    """The part line a record binds. Raises ValueError when its bytes are not what the record says."""
    parts = Parts(run_dir)
    try:
        return parts.line(body, private=private)
    finally:
        parts.close()


def retractions(records: Records) -> dict[str, int]:
    """Key to the sequence number of its last retraction."""
    last: dict[str, int] = {}
    for record in records.of_kind("deviation"):
        for key in record.body.get("retracted", ()):
            last[key] = record.seq
    return last


def live_records(
    records: Records, *kinds: str, retracted: Mapping[str, int] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and body of every record of the given kinds that was not retracted later, in ledger order.

    ``retracted``: what a scan has found already (`Index.retracted`); else the ledger is read once more for it.
    """
    last = retractions(records) if retracted is None else retracted
    for record in records.of_kind(*kinds):
        if last:
            name = next(iter(record.body))
            key = f"{record.kind}:{record.body[name]}" if name.endswith("_id") else ""
            if record.seq < last.get(key, -1):
                continue
        yield record.kind, record.body
