"""The run directory described as an RO-Crate 1.1, so that archives can index it. Optional."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .files import write_text
from .page import Page

PARTS = {
    "plan.json": ("The frozen plan", "application/json"),
    "ledger.jsonl": ("The hash-chained record of the run", "application/jsonl"),
    "verdict.json": ("The verdict and its gates", "application/json"),
    "report.html": ("The adoption report", "text/html"),
    "report.md": ("The report as a comment", "text/markdown"),
    "junit.xml": ("A test case per gate", "application/xml"),
    "results/requests.parquet": ("A row a request", "application/vnd.apache.parquet"),
    "results/rounds.parquet": ("A row a round", "application/vnd.apache.parquet"),
    "results/memory.parquet": ("Memory timeline", "application/vnd.apache.parquet"),
}
"""Public parts only: the private folder is never listed."""


def write_crate(run_dir: Path, page: Page) -> Path:
    """Writes ``ro-crate-metadata.json`` over the public files that are there."""
    there = [name for name in PARTS if (run_dir / name).is_file()]
    there += sorted(f"figures/{p.name}" for p in (run_dir / "figures").glob("*") if p.suffix in (".svg", ".csv"))
    graph: list[dict[str, Any]] = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": str(page.plan["title"]),
            "description": f"{page.verdict.verdict}. {page.headline}",
            "identifier": f"sha256:{page.plan_id}",
            "hasPart": [{"@id": name} for name in there],
        },
        *(_file(run_dir, name) for name in there),
    ]
    value = {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}
    return write_text(run_dir / "ro-crate-metadata.json", json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _file(run_dir: Path, name: str) -> dict[str, Any]:
    title, kind = PARTS.get(
        name, (f"Figure {Path(name).stem}", "image/svg+xml" if name.endswith(".svg") else "text/csv")
    )
    stored = (run_dir / name).read_bytes()
    return {
        "@id": name,
        "@type": "File",
        "name": title,
        "encodingFormat": kind,
        "contentSize": str(len(stored)),
        "sha256": hashlib.sha256(stored).hexdigest(),
    }
