"""One pass over the records of a run under check: part lines against their hashes, rows against the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .canonical import digest, digest_file
from .collector import without_collector
from .exclusions import excluded
from .journal import Index, Parts, live_records, part_path
from .ledger import Records
from .rundir import RunDir
from .store import CHUNK_ROWS, KINDS, Row, rows_of
from .tables import TABLES, build, schema

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST = 20


def _read_for_rows(kind: str, body: Row) -> bool:
    """Whether making the record's rows reads, and so checks, its part line."""
    return kind in ("request", "process") or (
        kind == "audit" and body.get("table") in TABLES and bool(body.get("part"))
    )


class Comparer:
    """A stored table beside the rows rebuilt for it, a row group at a time. ``excluded`` is compared afterwards."""

    def __init__(self, path: Path, table: str, plan_id: str) -> None:
        import pyarrow.parquet as pq

        self.table, self.plan_id, self.group = table, plan_id, 0
        self.problem: str | None = None
        self._waiting: list[Row] = []
        self.file: pq.ParquetFile = pq.ParquetFile(path)
        if not self.file.schema_arrow.equals(schema(table, plan_id), check_metadata=True):
            self.problem = f"table {table}: another schema, plan id or version than this run's"

    def add(self, row: Row) -> None:
        if self.problem is None:
            self._waiting.append(row)
            if len(self._waiting) == CHUNK_ROWS:
                self._flush()

    def _flush(self) -> None:
        rebuilt = build(self.table, self._waiting, self.plan_id)
        self._waiting = []
        if self.group >= self.file.num_row_groups:
            self.problem = f"table {self.table}: fewer rows than the records give"
            return
        there = self.file.read_row_group(self.group)
        self.group += 1
        if self.table == "requests":
            rebuilt, there = rebuilt.drop_columns(["excluded"]), there.drop_columns(["excluded"])
        if not rebuilt.equals(there):
            self.problem = f"table {self.table}: a value differs from the records"

    def finish(self) -> str | None:
        if self.problem is None and (self._waiting or not self.group):
            self._flush()
        if self.problem is None and self.group < self.file.num_row_groups:
            self.problem = f"table {self.table}: more rows than the records give"
        return self.problem


class RecordCheck:
    """Problems of parts and tables; ``lines`` counts the part lines that held."""

    def __init__(self, run_dir: RunDir, plan: Mapping[str, Any], plan_id: str, index: Index) -> None:
        self.run_dir, self.plan, self.plan_id, self.index = run_dir, plan, plan_id, index
        self.lines = 0
        self.parts_problems: list[str] = []
        self.table_problems: list[str] = []

    @without_collector()
    def run(self, records: Records) -> None:
        comparers = self._comparers() if self.index.closed else {}
        parts = Parts(self.run_dir)
        ends: dict[int, int] = {}
        try:
            for kind, body in live_records(records, *KINDS, "canary", "realised", retracted=self.index.retracted):
                if body.get("part"):
                    unit, at, size, _, _ = body["part"]
                    ends[unit] = max(ends.get(unit, 0), at + size)
                if comparers and kind in KINDS:
                    self._rows(kind, body, parts, comparers)
                if body.get("part") and not (comparers and _read_for_rows(kind, body)):
                    self._line(kind, body, parts)
        finally:
            parts.close()
        self._extents(ends)
        self.table_problems += [p for p in (c.finish() for c in comparers.values()) if p is not None]
        if "requests" in comparers and not self.table_problems:
            self.table_problems += exclusion_problems(self.plan, comparers["requests"].file)

    def _comparers(self) -> dict[str, Comparer]:
        known = {body["name"]: body["sha256"] for body in self.index.bodies["table"]}
        found: dict[str, Comparer] = {}
        for name in TABLES:
            path = self.run_dir.table(name)
            if name not in known:
                self.table_problems.append(f"table {name}: no record of it")
            elif not path.is_file():
                self.table_problems.append(f"table {name}: missing")
            elif digest_file(path) != known[name]:
                self.table_problems.append(f"table {name}: its bytes are not what was recorded")
            else:
                found[name] = Comparer(path, name, self.plan_id)
        return found

    def _line(self, kind: str, body: Row, parts: Parts) -> None:
        """The record's part line is there as recorded."""
        try:
            held = digest(parts.data(body)) == body["rounds_sha256"]
        except OSError:
            held = False
        self._held(held, kind, body)

    def _held(self, held: bool, kind: str, body: Row) -> None:
        self.lines += held
        if not held:
            name = next(iter(body.values()))
            self.parts_problems.append(f"parts: the line of {kind} {name} is not what was recorded")

    def _rows(self, kind: str, body: Row, parts: Parts, comparers: Mapping[str, Comparer]) -> None:
        """Rows of one record; reading them checks the part line's hash."""
        try:
            for table, row in rows_of(kind, body, parts):
                if table in comparers:
                    comparers[table].add(row)
        except (KeyError, TypeError) as error:
            said = f"tables: the rows of {kind} {next(iter(body.values()))} cannot be made: {error}"
            self.table_problems += [said] if len(self.table_problems) < MOST else []
        except (ValueError, OSError):
            self._held(False, kind, body)
        else:
            self.lines += _read_for_rows(kind, body)

    def _extents(self, ends: Mapping[int, int]) -> None:
        for unit, end in ends.items():
            path = part_path(self.run_dir, unit)
            size = path.stat().st_size if path.exists() else 0
            if size > end and self.index.closed:
                self.parts_problems.append(f"parts: {path.name} has {size - end} bytes that no record binds")
        known = {part_path(self.run_dir, unit).name for unit in ends} | {self.run_dir.extra_part.name}
        strangers = [p.name for p in self.run_dir.parts.glob("*") if p.name not in known]
        self.parts_problems += [f"parts: {name} belongs to no record" for name in sorted(strangers)]


def exclusion_problems(plan: Mapping[str, Any], file: pq.ParquetFile) -> list[str]:
    """The ``excluded`` column, derived again from the other columns, which are known to hold."""
    pair = ("stratum", "prompt_id", "block", "turn", "entry")
    columns = [*pair, "probe_ns", "steal_ticks", "excluded"]

    def rows() -> Iterator[tuple[Any, ...]]:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            values = {name: table.column(name).to_pylist() for name in columns}
            pairs = zip(*(values[name] for name in pair), strict=True)
            yield from zip(pairs, *(values[name] for name in columns[len(pair) :]), strict=True)

    dropped = excluded(plan, (row[:3] for row in rows()))
    wrong = sum(said != dropped.get(key, "") for key, _, _, said in rows())
    return [f"table requests: {wrong} rows are excluded otherwise than the plan's rules say"] if wrong else []
