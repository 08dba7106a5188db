"""Runs the calibration tables, and reads and writes the committed ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import card_agreement, estimands, false_verdicts, interval_misses, never_pays
from .cells import Cell, rows

FORMAT = "draftgate-calibration/1"
SEED = 20261130
SIZES: Mapping[str, int] = {"quick": 200, "moderate": 1000, "full": 4000}
"""Replicates a cell; the cells that resample or judge whole runs take a stated fraction of it."""
TABLES: Mapping[str, Callable[[int, int], Iterator[Cell]]] = {
    m.TABLE: m.cells for m in (interval_misses, false_verdicts, estimands, never_pays, card_agreement)
}


def run_table(
    name: str, size: str, seed: int = SEED, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """One table as JSON. Raises KeyError for an unknown table or size."""
    found = []
    for cell in TABLES[name](SIZES[size], seed):
        progress(f"{name}: {cell.truth}")
        found.append(cell)
    return {
        "format": FORMAT,
        "table": name,
        "size": size,
        "replicates": SIZES[size],
        "seed": seed,
        "cells": rows(found),
    }


def committed(name: str) -> dict[str, Any]:
    """A table as committed. Raises FileNotFoundError when there is none."""
    return dict(json.loads(files(__package__).joinpath("tables", f"{name}.json").read_text("utf-8")))


def write(table: Mapping[str, Any], folder: Path) -> Path:
    """One cell a line, so that a change of figures is a readable difference."""
    path = folder / f"{table['table']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    head = json.dumps({k: v for k, v in table.items() if k != "cells"}, ensure_ascii=False)
    lines = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in table["cells"])
    path.write_text(f'{head[:-1]}, "cells": [\n{lines}\n]}}\n', encoding="utf-8")
    return path


def broken(table: Mapping[str, Any]) -> list[str]:
    """Claims that the simulation does not bear out."""
    return [
        f"{c['truth']}: {c['quantity']} {c['rate']:.2%}, claimed ≤ {c['limit']:.2%}, noise allows {c['bound']:.2%}"
        for c in table["cells"]
        if c["holds"] is False
    ]
