"""Counts and times in sentences."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """``1 prompt``, ``2 prompts``, ``0 prompts``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def spoken(seconds: float) -> str:
    """A time as one would say it: ``8 s``, ``95 s``, ``4 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
