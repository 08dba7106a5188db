"""The privacy audit: what may be shown to anyone holds no prompt, no answer, no token ids in a row, no local path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .bound import Bound
from .journal import live_records, read_line
from .ledger import Records
from .rundir import RunDir
from .tables import TABLES

FEWEST_CHARACTERS = 20
"""A shorter piece of text turns up by chance."""
FEWEST_IDS = 5
PIECE = 48
"""Characters of a prompt that are looked for."""


def privacy_audit(run_dir: RunDir, bound: Bound, operational: Mapping[str, Any], records: Records) -> dict[str, Any]:
    """Body of the `privacy` audit; ``n`` counts what was looked for, and ``detail.problems`` names where it was
    found."""
    secrets = dict(_secrets(run_dir, bound, operational, records))
    problems = [f"{path.name}: holds {what}" for path in _files(run_dir) for what in _found(path.read_bytes(), secrets)]
    problems += [f"table {name}: holds {what}" for name, what in _in_tables(run_dir, secrets)]
    problems += list(_receipts(run_dir, records))
    return {"ok": not problems, "n": len(secrets), "detail": {"problems": problems[:20], "count": len(problems)}}


def _secrets(
    run_dir: RunDir, bound: Bound, operational: Mapping[str, Any], records: Records
) -> Iterator[tuple[bytes, str]]:
    """Bytes to look for, and what they are called without saying them."""
    paths = [operational.get("champion_path"), operational.get("draft_path"), str(run_dir.path.resolve())]
    paths += operational.get("arm_paths", {}).values()
    for path in [*paths, str(Path.home())]:
        if path and len(str(path)) > 3:
            yield json.dumps(str(path))[1:-1].encode(), "a local path"
    for (stratum, name), prompt in bound.prompts.items():
        for text in prompt.texts():
            if len(text) >= FEWEST_CHARACTERS:
                yield json.dumps(text[:PIECE])[1:-1].encode(), f"text of prompt {stratum}/{name}"
    if not run_dir.private.is_dir():
        return
    for _, body in live_records(records, "request"):
        line = read_line(run_dir, body, private=True)
        for what in ("output", "prompt"):
            ids = line[what][:12]
            if len(ids) >= FEWEST_IDS:
                yield json.dumps(ids, separators=(",", ":"))[1:-1].encode(), f"token ids of {body['request_id']}"


def _files(run_dir: RunDir) -> Iterator[Path]:
    yield run_dir.plan
    yield run_dir.ledger
    yield from sorted(run_dir.parts.glob("*.jsonl"))


def _found(data: bytes, secrets: Mapping[bytes, str]) -> list[str]:
    return [what for secret, what in secrets.items() if secret in data]


def _in_tables(run_dir: RunDir, secrets: Mapping[bytes, str]) -> Iterator[tuple[str, str]]:
    import pyarrow.parquet as pq

    for name in TABLES:
        file = pq.ParquetFile(run_dir.table(name))
        texts = [f.name for f in file.schema_arrow if str(f.type) == "string"]
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=texts)
            for column in texts:
                values = json.dumps(table.column(column).unique().to_pylist()).encode()
                yield from ((name, what) for what in _found(values, secrets))


def _receipts(run_dir: RunDir, records: Records) -> Iterator[str]:
    """Receipts that break their own schema."""
    from ..arms.receipt import receipt_problems

    for _, body in live_records(records, "request"):
        receipt = read_line(run_dir, body).get("receipt")
        if receipt is not None:
            yield from (f"receipt of {body['request_id']}: {said}" for said in receipt_problems(receipt))
