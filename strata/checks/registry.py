"""The kinds of checks, their parameters, and the one function that runs any of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import StrataError
from . import code, data, text

Check = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    score: Callable[[Check, str], float]
    """Pure, except that ``python`` and ``sql`` run a subprocess."""
    required: Mapping[str, type | tuple[type, ...]]
    optional: Mapping[str, type | tuple[type, ...]]
    validate: Callable[[Check], None] | None = None
    """Raises StrataError for parameters of the right types that make no sense."""


_NUMBER = (int, float)

KINDS: dict[str, Kind] = {
    "json_schema": Kind(data.json_schema, {"schema": dict}, {}, data.validate_schema),
    "extraction": Kind(
        data.extraction, {"expected": (dict, list, str, int, float)}, {"mode": str}, data.validate_extraction
    ),
    "number": Kind(data.number, {"value": _NUMBER}, {"tolerance": _NUMBER}),
    "python": Kind(code.python, {}, {"tests": list, "seconds": _NUMBER}, code.validate_python),
    "sql": Kind(code.sql, {"setup": str, "rows": list}, {"ordered": bool, "seconds": _NUMBER}, code.validate_sql),
    "script": Kind(text.script, {"script": str}, {"share": _NUMBER}, text.validate_script),
    "length": Kind(text.length, {"unit": str}, {"min": int, "max": int}, text.validate_length),
    "list_of_n": Kind(text.list_of_n, {"n": int}, {}, text.validate_list),
    "contains": Kind(text.contains, {}, {"all": list, "any": list, "none": list}, text.validate_contains),
    "equals": Kind(text.equals, {"text": str}, {}),
}


def run_check(check: Check, answer: str) -> float:
    """Score of an answer, 0 to 1, whatever the answer holds. A malformed check raises StrataError."""
    if check.get("kind") == "all":
        parts = check["checks"]
        return math.fsum(run_check(part, answer) for part in parts) / len(parts)
    kind = _kind(check)
    score = float(kind.score(check, answer))
    return min(max(score, 0.0), 1.0)


def validate_check(check: Check) -> None:
    """Raises StrataError unless the check names a known kind and exactly its parameters, of their types."""
    if check.get("kind") == "all":
        parts = check.get("checks")
        if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
            raise StrataError("check all: checks has to be a list of checks, at least one")
        if extra := sorted(set(check) - {"kind", "checks", "turn"}):
            raise StrataError(f"check all: unknown parameter {extra[0]!r}")
        for part in parts:
            validate_check(part)
        return
    kind = _kind(check)
    name = check["kind"]
    known = {**kind.required, **kind.optional}
    if extra := sorted(set(check) - set(known) - {"kind", "turn"}):
        raise StrataError(f"check {name}: unknown parameter {extra[0]!r}; known are {', '.join(sorted(known))}")
    if missing := sorted(set(kind.required) - set(check)):
        raise StrataError(f"check {name}: parameter {missing[0]!r} is missing")
    for key, types in known.items():
        if key in check and not _is(check[key], types):
            raise StrataError(f"check {name}: {key} has the wrong type ({type(check[key]).__name__})")
    if kind.validate is not None:
        kind.validate(check)


def _kind(check: Check) -> Kind:
    name = check.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise StrataError(f"check kind {name!r} is none of {', '.join(sorted(KINDS))}, all")
    return KINDS[name]


def _is(value: object, types: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool):  # a bool is an int to Python, never to a check
        return types is bool
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, types)
