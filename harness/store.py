"""Tables: rebuilt from the records at the end of a run, and again by whoever verifies it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..strata.files import replacing
from .atomic import disk_errors, sync_folder
from .canonical import digest_file
from .collector import without_collector
from .exclusions import excluded_pairs, pair_of
from .journal import Parts, live_records
from .ledger import Records
from .rundir import RunDir
from .tables import TABLES, build, schema

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 16384
"""Rows of a row group: memory stays flat however long the run."""
KINDS = ("request", "warmup", "process", "audit")
"""Records that rows are made of."""
_KEYS = ("request_id", "arm", "stratum", "prompt_id", "family_id", "block", "turn", "entry")

Row = dict[str, Any]


def rows_of(kind: str, body: Row, parts: Parts) -> Iterator[tuple[str, Row]]:
    """Table and row of everything one live record stands for. ``excluded`` is left empty: it takes the whole run.

    Raises ValueError when a part's bytes are not what the record binds.
    """
    if kind == "request":
        yield "requests", body
        keys = {k: body[k] for k in _KEYS}
        for row in parts.line(body)["rounds"]:
            yield "rounds", keys | row
    elif kind == "warmup":
        yield "warmups", body
    elif kind == "process":
        block = int(body["unit"].rpartition("/b")[2])
        common = {"unit": body["unit"], "arm": body["arm"], "block": block}
        for i, (elapsed, phase, resident, peak, kv) in enumerate(parts.line(body)["memory"]):
            yield "memory", common | {
                "sample": i, "elapsed_ns": elapsed, "phase": phase, "resident_bytes": resident,
                "peak_resident_bytes": peak, "kv_bytes": kv,
            }  # fmt: skip
    elif body.get("part") and body.get("table") in TABLES:
        for row in parts.line(body)["rows"]:
            yield body["table"], row


class TableWriter:
    """One Parquet file, a row group at a time."""

    def __init__(self, file: BinaryIO, table: str, plan_id: str) -> None:
        import pyarrow.parquet as pq

        self.table, self.plan_id, self.rows = table, plan_id, 0
        self._waiting: list[Row] = []
        self._writer = pq.ParquetWriter(file, schema(table, plan_id), compression="zstd")

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) == CHUNK_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(build(self.table, self._waiting, self.plan_id))
        self.rows += len(self._waiting)
        self._waiting = []

    def finish(self) -> None:
        """Write what waits and the file's footer."""
        if self._waiting or not self.rows:
            self._flush()
        self._writer.close()


def write_tables(run_dir: RunDir, plan: Mapping[str, Any], plan_id: str, records: Records) -> list[Row]:
    """Every table of the run; returns a body of a `table` record for each: name, sha256, rows."""
    dropped = excluded_pairs(plan, (body for _, body in live_records(records, "request")))
    writers: dict[str, TableWriter] = {}
    with disk_errors(run_dir.results), without_collector():
        with contextlib.ExitStack() as files, contextlib.closing(Parts(run_dir)) as parts:
            for table in TABLES:
                file = files.enter_context(replacing(run_dir.table(table)))
                writers[table] = TableWriter(file, table, plan_id)
            for kind, body in live_records(records, *KINDS):
                if kind == "request" and dropped:
                    body["excluded"] = dropped.get(pair_of(body), "")
                for table, row in rows_of(kind, body, parts):
                    writers[table].add(row)
            for writer in writers.values():
                writer.finish()
        sync_folder(run_dir.results)
    return [{"name": t, "sha256": digest_file(run_dir.table(t)), "rows": w.rows} for t, w in writers.items()]


def read_table(run_dir: RunDir | Path | str, name: str) -> pd.DataFrame:
    """One table of a run as a frame; a folder of part files of that name is read as one. Raises FileNotFoundError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = RunDir(run_dir).table(name)
    if path.is_dir():
        table = pa.concat_tables([pq.read_table(p) for p in sorted(path.glob("*.parquet"))])
    else:
        table = pq.read_table(path)
    frame: pd.DataFrame = table.to_pandas()
    return frame
