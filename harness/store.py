"""Tables: rebuilt from the records at the end of a run, and again by whoever verifies it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .atomic import disk_errors, sync_folder
from .canonical import digest_file
from .exclusions import Pair, excluded_pairs, pair_of
from .journal import live_records, read_line
from .ledger import Records
from .rundir import RunDir
from .tables import TABLES, build, schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

CHUNK_ROWS = 16384
"""Rows of a row group: memory stays flat however long the run."""
_KEYS = ("request_id", "arm", "stratum", "prompt_id", "family_id", "block", "turn", "entry")


class TableRows:
    """Rows of each table, streamed from ledger and parts."""

    def __init__(self, run_dir: RunDir, plan: Mapping[str, Any], records: Records) -> None:
        self.run_dir, self.plan, self.records = run_dir, plan, records
        self.excluded: dict[Pair, str] = excluded_pairs(plan, self._bodies("request"))

    def _bodies(self, kind: str) -> Iterator[dict[str, Any]]:
        return (body for _, body in live_records(self.records, kind))

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Raises ValueError when a part's bytes are not what a record binds."""
        if table == "requests":
            for body in self._bodies("request"):
                yield body | {"excluded": self.excluded.get(pair_of(body), "")}
        elif table == "warmups":
            yield from self._bodies("warmup")
        elif table == "rounds":
            for body in self._bodies("request"):
                keys = {k: body[k] for k in _KEYS}
                for row in read_line(self.run_dir, body)["rounds"]:
                    yield keys | row
        elif table == "memory":
            for body in self._bodies("process"):
                yield from _memory_rows(body, read_line(self.run_dir, body)["memory"])
        else:
            for body in self._bodies("audit"):
                if body.get("part") and body.get("table") == table:
                    yield from read_line(self.run_dir, body)["rows"]

    def chunks(self, table: str, plan_id: str) -> Iterator[pa.Table]:
        rows = self.rows(table)
        empty = True
        while chunk := list(itertools.islice(rows, CHUNK_ROWS)):
            empty = False
            yield build(table, chunk, plan_id)
        if empty:
            yield build(table, [], plan_id)


def _memory_rows(body: Mapping[str, Any], samples: list[list[Any]]) -> Iterator[dict[str, Any]]:
    block = int(body["unit"].rpartition("/b")[2])
    for i, (elapsed, phase, resident, peak, kv) in enumerate(samples):
        yield {
            "unit": body["unit"], "arm": body["arm"], "block": block, "sample": i, "elapsed_ns": elapsed,
            "phase": phase,
            "resident_bytes": resident, "peak_resident_bytes": peak, "kv_bytes": kv,
        }  # fmt: skip


def write_table(path: Path, chunks: Iterator[pa.Table], table: str, plan_id: str) -> int:
    """Write one Parquet file, one row group a chunk; temporary name, fsync, replace. Returns the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
        try:
            with temporary.open("wb") as file:
                with pq.ParquetWriter(file, schema(table, plan_id), compression="zstd") as writer:
                    for chunk in chunks:
                        writer.write_table(chunk)
                        rows += chunk.num_rows
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    return rows


def write_tables(run_dir: RunDir, plan: Mapping[str, Any], plan_id: str, records: Records) -> list[dict[str, Any]]:
    """Every table of the run; returns a body of a `table` record for each: name, sha256, rows."""
    source = TableRows(run_dir, plan, records)
    written = []
    for table in TABLES:
        path = run_dir.table(table)
        rows = write_table(path, source.chunks(table, plan_id), table, plan_id)
        written.append({"name": table, "sha256": digest_file(path), "rows": rows})
    return written


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
