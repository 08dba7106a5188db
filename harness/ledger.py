"""The ledger: one JSON object a line, each holding the sha256 of the stored bytes of the line before (its newline
excluded).

Appended and fsynced by the parent process alone. A line is ``{"seq":N,"prev":"…","kind":"…","body":{…}}`` in exactly
that key order and without spaces, so that a scan can follow the chain without parsing the bodies: a million records
are followed in seconds.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, overload

from .atomic import append_durably, disk_errors, sync_folder
from .canonical import compact
from .errors import DraftgateError, IntegrityError
from .formats import LEDGER_FORMAT
from .rundir import RunDir

FIRST = "0" * 64
KINDS = (
    "plan", "reveal", "segment", "process", "request", "warmup", "realised", "canary", "deviation", "audit", "table",
    "close", "verdict",
)  # fmt: skip
_HEAD = re.compile(rb'\{"seq":(\d{1,15}),"prev":"([0-9a-f]{64})","kind":"([a-z_]+)","body":\{')


class Record(dict[str, Any]):
    """One record: a mapping with ``seq``, ``prev``, ``kind``, ``body``, also as attributes."""

    @property
    def seq(self) -> int:
        return int(self["seq"])

    @property
    def kind(self) -> str:
        return str(self["kind"])

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = self["body"]
        return body


class Records(Sequence[Record]):
    """The records of a scanned ledger, parsed when asked for: memory is eight bytes a record."""

    def __init__(self, path: Path, offsets: array[int], end: int) -> None:
        self._path, self._offsets, self._end = path, offsets, end

    def __len__(self) -> int:
        return len(self._offsets)

    def extend(self, length: int) -> None:
        """One more line of so many bytes was appended."""
        self._offsets.append(self._end)
        self._end += length

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        stop = self._offsets[i + 1] if i + 1 < len(self) else self._end
        with self._path.open("rb") as file:
            file.seek(self._offsets[i])
            return Record(json.loads(file.read(stop - self._offsets[i])))

    def __iter__(self) -> Iterator[Record]:
        return self.of_kind()

    def of_kind(self, *kinds: str) -> Iterator[Record]:
        """In order, parsing only the given kinds (all when none is given)."""
        wanted = {k.encode() for k in kinds}
        if not len(self):
            return
        with self._path.open("rb") as file:
            for _ in range(len(self)):
                line = file.readline()
                if wanted:
                    head = _HEAD.match(line)
                    if head is None or head[3] not in wanted:
                        continue
                yield Record(json.loads(line))


@dataclass(frozen=True)
class LedgerReading:
    """A ledger as found: the whole records from the start, and what is wrong after them."""

    records: Records
    problem: str | None
    """None when chain and lines hold to the last byte."""
    head: str = FIRST
    """sha256 of the last whole line, without its newline."""
    torn_at: int | None = None
    """Offset from which bytes are a torn tail (no whole record after them); None when there is none."""


Visit = Callable[[int, bytes, bytes], None]
"""Called with sequence number, kind and the line's bytes (newline included)."""


def _whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _begun(line: bytes) -> bool:
    """Whether these bytes may be what a crash left of the first record: its beginning, or blocks never written."""
    start = b'{"seq":0,"prev":"' + FIRST.encode() + b'","kind":"plan","body":{'
    return line.startswith(start[: len(line)]) or not line.strip(b"\0")


def _visited(visit: Visit, seq: int, kind: bytes, line: bytes) -> str | None:
    """The visitor's word on a chained record: what it cannot read was not written by a runner."""
    try:
        visit(seq, kind, line)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        return f"record {seq}: not a record of a runner ({type(error).__name__}: {str(error)[:80]})"
    return None


def scan_ledger(path: Path, visit: Visit | None = None) -> LedgerReading:
    """Follow the chain from the first byte. Never raises for bad content: that is ``problem``."""
    offsets: array[int] = array("Q")
    if not path.exists() or path.stat().st_size == 0:
        return LedgerReading(Records(path, offsets, 0), None)
    end, position, prev = path.stat().st_size, 0, FIRST
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            head = _HEAD.match(line)
            expected, stop = len(offsets), position + len(line)
            problem: str | None = None
            torn: int | None = None
            if head is None or (stop == end and not _whole(line)):
                problem = f"record {expected}: not a whole record"
                ours = position > 0 or _begun(line)
                torn = position if ours and not any(_HEAD.match(later) for later in file) else None
            elif int(head[1]) != expected:
                problem = f"record {expected}: has sequence number {int(head[1])} (dropped, repeated or reordered)"
            elif head[2].decode() != prev:
                problem = f"record {expected}: does not hold the hash of the record before it (one of them was edited)"
            elif head[3].decode() not in KINDS:
                problem = f"record {expected}: unknown kind {head[3].decode()[:40]!r}"
            elif visit is not None:
                problem = _visited(visit, expected, head[3], line)
            if problem is not None:
                return LedgerReading(Records(path, offsets, position), problem, prev, torn)
            offsets.append(position)
            prev = sha256(line[:-1]).hexdigest()
            position = stop
    return LedgerReading(Records(path, offsets, position), None, prev)


def read_ledger(run_dir: RunDir | Path | str) -> LedgerReading:
    """Scan the ledger of a run directory; a missing one is an empty reading with a problem."""
    path = RunDir(run_dir).ledger
    if not path.exists():
        return LedgerReading(Records(path, array("Q"), 0), "there is no ledger: the plan has not been run")
    reading = scan_ledger(path)
    if reading.problem is None and len(reading.records):
        first = reading.records[0]
        found = first.body.get("format")
        if first.kind != "plan" or found != LEDGER_FORMAT:
            return LedgerReading(
                reading.records, f"unknown ledger format {found!r}; this version reads {LEDGER_FORMAT}", reading.head
            )
    return reading


@dataclass(frozen=True)
class TornTail:
    """Bytes cut from the end of a file after a crash."""

    file: str
    offset: int
    bytes: int
    kept_as: str


def cut_tail(run_dir: RunDir, path: Path, offset: int) -> TornTail:
    """Move the bytes of ``path`` from ``offset`` on to the torn folder, then truncate: nothing is lost."""
    with disk_errors(path):
        run_dir.torn.mkdir(exist_ok=True)
        with path.open("r+b") as file:
            file.seek(offset)
            tail = file.read()
            count = sum(1 for _ in run_dir.torn.iterdir())
            kept = run_dir.torn / f"{count:04d}-{path.parent.name}-{path.name}"
            with kept.open("xb") as side:
                side.write(tail)
                side.flush()
                os.fsync(side.fileno())
            sync_folder(run_dir.torn)
            file.truncate(offset)
            file.flush()
            os.fsync(file.fileno())
    return TornTail(str(path.relative_to(run_dir.path)), offset, len(tail), str(kept.relative_to(run_dir.path)))


class Ledger:
    """The open ledger of a run that holds the lock. ``append`` returns when the record is on the disk."""

    def __init__(
        self, run_dir: RunDir, visit: Visit | None = None, admit: Callable[[LedgerReading], None] | None = None
    ) -> None:
        """Scan, cut a torn tail (kept aside in ``torn_tail``), open for appending.

        ``admit`` sees what was scanned before anything is changed, and may raise. Raises IntegrityError when the chain
        is broken anywhere before the tail.
        """
        self.path = run_dir.ledger
        reading = scan_ledger(self.path, visit)
        self.torn_tail: TornTail | None = None
        if reading.problem is not None and reading.torn_at is None:
            raise IntegrityError(f"{self.path}: {reading.problem}; nothing was changed")
        if admit is not None:
            admit(reading)
        if reading.torn_at is not None:
            self.torn_tail = cut_tail(run_dir, self.path, reading.torn_at)
        self.records, self.head = reading.records, reading.head
        with disk_errors(self.path):
            created = not self.path.exists()
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            if created:
                sync_folder(self.path.parent)

    @property
    def length(self) -> int:
        return len(self.records)

    def append(self, kind: str, body: dict[str, Any]) -> bytes:
        """Chain, write and fsync one record; returns its line. A failed append leaves no bytes."""
        if kind not in KINDS:
            raise DraftgateError(f"unknown ledger record kind {kind!r}")
        record = {"seq": self.length, "prev": self.head, "kind": kind, "body": body}
        line = compact(record) + b"\n"
        append_durably(self._handle, line, self.path)
        self.head = sha256(line[:-1]).hexdigest()
        self.records.extend(len(line))
        return line

    def close(self) -> None:
        os.close(self._handle)
