"""Two JSON values side by side: floats within a tolerance, everything else exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

RELATIVE = 1e-9
"""Recomputed floats differ by the order of additions at most."""


def json_differences(frozen: Any, found: Any, where: str = "") -> list[str]:
    """One line per path that differs."""
    return list(_walk(frozen, found, where))


def _walk(a: Any, b: Any, where: str) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b), key=str):
            path = f"{where}.{key}" if where else str(key)
            if key not in a or key not in b:
                yield f"{path}: {'added' if key not in a else 'missing'}"
            else:
                yield from _walk(a[key], b[key], path)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{where}: {len(a)} entries against {len(b)}"
        else:
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                yield from _walk(x, y, f"{where}[{i}]")
    elif not _same(a, b):
        yield f"{where}: {_short(a)} against {_short(b)}"


def _same(a: Any, b: Any) -> bool:
    numbers = (int, float)
    if isinstance(a, numbers) and isinstance(b, numbers) and not isinstance(a, bool) and not isinstance(b, bool):
        return a == b or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=1e-12) or (a != a and b != b)
    return type(a) is type(b) and a == b


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
