"""A file that is about to be replaced though it was not ours to lose: kept under a name of its own."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from .atomic import write_bytes


def set_aside(path: Path) -> Path:
    """Copies ``path`` to ``NAME.replaced.EXT`` (``NAME.replaced-2.EXT``, …), never over other bytes; returns where."""
    raw = path.read_bytes()
    for number in count(1):
        kept = path.with_name(f"{path.stem}.replaced{'' if number == 1 else f'-{number}'}{path.suffix}")
        if not kept.exists():
            return write_bytes(kept, raw)
        if kept.read_bytes() == raw:
            return kept
    raise AssertionError("unreachable")
