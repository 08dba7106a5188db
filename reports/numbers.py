"""Numbers as people read them: one place for units, signs and rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..harness.wording import counted

NONE = "–"
_BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SECONDS = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"), (0.0, 1e9, "ns"))
BOUNDS = {">=": "≥", "<=": "≤", "=": "=", "": ""}


def quantity(value: float | None, unit: str = "") -> str:
    """``value`` with its unit, to about three significant digits; an en dash for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NONE
    if math.isinf(value):
        return "never" if unit == "tokens" else "∞" if value > 0 else "−∞"
    if unit == "ratio":
        return f"{_signed(_fixed(value, 3 if abs(value) < 10 else 1))}×"
    if unit in ("probability", "share", "0…1"):
        return f"{_signed(f'{100 * value:.3g}')} %"
    if unit == "bytes":
        scale, name = next(((s, n) for s, n in _BYTES if abs(value) >= s), (1, "B"))
        return f"{_signed(f'{value / scale:.4g}')} {name}"
    if unit in ("s", "seconds", "ns"):
        return _time(value / 1e9 if unit == "ns" else value)
    text = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e12 else f"{value:.3g}"
    return f"{_signed(text)} {unit}".rstrip()


def _time(seconds: float) -> str:
    _, scale, name = next(row for row in _SECONDS if abs(seconds) >= row[0])
    return f"{_signed(f'{seconds * scale:.3g}')} {name}" if seconds else "0 s"


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


def _signed(text: str) -> str:
    return text.replace("-", "−") if text.startswith("-") else text


def interval(limits: Sequence[float | None] | None, unit: str = "") -> str:
    """Both limits as ``[low, high]``; an en dash where there is no interval."""
    if limits is None or len(limits) != 2 or all(x is None or math.isnan(x) for x in limits):
        return NONE
    return f"[{quantity(limits[0], unit)}, {quantity(limits[1], unit)}]"


def bound(direction: str, threshold: float | None, unit: str = "") -> str:
    """The rule a number is held against, such as ``≥ 1.150×`` or ``within ±1 %``."""
    if threshold is None:
        return NONE
    if direction == "within":
        return f"within ±{quantity(*((threshold - 1, 'share') if unit == 'ratio' else (threshold, unit)))}"
    return f"{BOUNDS.get(direction, '')} {quantity(threshold, unit)}".strip()


def count(n: int, noun: str, plural: str | None = None) -> str:
    """``1 prompt``, ``2 prompts``, ``no prompts``."""
    return f"no {plural or noun + 's'}" if n == 0 else counted(n, noun, plural)
