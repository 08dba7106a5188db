"""Checks on the data in an answer: JSON against a schema, extracted values, a number."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import StrataError
from .text import folded

_FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_NUMBER = re.compile(r"[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_MAX_STARTS = 64
"""Places in an answer where a JSON value is tried; keeps a page of braces from costing quadratic time."""


class _Missing:
    pass


MISSING = _Missing()


def fenced(answer: str) -> Iterator[tuple[str, str]]:
    """(language, body) of each fenced block; an unclosed last fence runs to the end."""
    for found in _FENCE.finditer(answer):
        yield found[1].lower(), found[2]


def find_json(answer: str) -> Any:
    """The JSON value of an answer: all of it, or of its fences, or the first object or list in it. MISSING if none."""
    for text in (answer.strip(), *(body.strip() for _, body in fenced(answer))):
        try:
            return _loads(text)
        except ValueError:
            continue
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for start in _starts(answer):
        try:
            value, _ = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            continue
        return value
    return MISSING


def json_schema(check: Mapping[str, Any], answer: str) -> float:
    """0 without JSON; 0.5 for JSON that is not valid under the schema; 1 for JSON that is."""
    value = find_json(answer)
    if value is MISSING:
        return 0.0
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

    try:
        Draft202012Validator(check["schema"]).validate(value)
    except (ValidationError, RecursionError):
        return 0.5
    return 1.0


def validate_schema(check: Mapping[str, Any]) -> None:
    """Cheap by intent (loading must not import jsonschema): refuses what no schema is, and references elsewhere."""
    for key, value in _walk(check["schema"]):
        if key in ("$ref", "$dynamicRef") and not (isinstance(value, str) and value.startswith("#")):
            raise StrataError(f"check json_schema: {key} {value!r} leaves the schema; only # references are followed")
        if key == "pattern" and not _compiles(value):
            raise StrataError(f"check json_schema: pattern {value!r} is no regular expression")


def deep_validate_schema(schema: Mapping[str, Any]) -> str | None:
    """What the JSON Schema metaschema says against a schema, or None. Imports jsonschema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return str(error.message)
    return None


def extraction(check: Mapping[str, Any], answer: str) -> float:
    """Exactness of what was extracted.

    An object: share of its fields with the expected value (from the answer's JSON; else from ``field: value`` lines). A
    list: F1 over its items (JSON list, else lines). A text or number: 1 when it is the whole answer, or with ``mode``
    ``contains`` when it is in it.
    """
    expected = check["expected"]
    if isinstance(expected, dict):
        got = find_json(answer)
        found = got if isinstance(got, dict) else _labelled(answer)
        table = {folded(str(key)): value for key, value in found.items()}
        hits = sum(same(value, table.get(folded(key), MISSING)) for key, value in expected.items())
        return hits / len(expected)
    if isinstance(expected, list):
        got = find_json(answer)
        items = got if isinstance(got, list) else _items(answer)
        return _f1([_plain(item) for item in expected], [_plain(item) for item in items])
    if check.get("mode", "exact") == "contains":
        return float(bool(re.search(rf"(?<!\w){re.escape(_plain(expected))}(?!\w)", folded(answer))))
    return float(_plain(answer) == _plain(expected))


def validate_extraction(check: Mapping[str, Any]) -> None:
    if check.get("mode", "exact") not in ("exact", "contains"):
        raise StrataError(f"check extraction: mode {check['mode']!r} is neither exact nor contains")
    if not check["expected"] and not isinstance(check["expected"], int | float):
        raise StrataError("check extraction: nothing is expected")


def number(check: Mapping[str, Any], answer: str) -> float:
    """1 when the last number of the answer is the value, within ``tolerance`` (absolute, 0)."""
    found = _NUMBER.findall(answer)
    if not found:
        return 0.0
    got = float(found[-1].replace(",", "").replace("−", "-"))
    return float(math.isfinite(got) and abs(got - check["value"]) <= check.get("tolerance", 0) + 1e-9)


def same(expected: Any, got: Any) -> bool:
    """Equal as data: numbers by value, texts with case, spaces and a closing full stop aside, lists in order."""
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, expected, got))
    if isinstance(expected, dict):
        return isinstance(got, dict) and set(got) == set(expected) and all(same(v, got[k]) for k, v in expected.items())
    if isinstance(expected, bool) or expected is None:
        return expected is got or _plain(got) == _plain(expected)
    if got is MISSING or isinstance(got, bool | list | dict) or got is None:
        return False
    return _plain(expected) == _plain(got)


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if value is None or isinstance(value, bool):
        value = json.dumps(value)
    text = folded(str(value)).strip("\"'“”‘’`*- ").removesuffix(".")
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    if re.fullmatch(r"-?\d+\.\d*0+", text):
        text = text.rstrip("0").rstrip(".")
    return text


def _labelled(answer: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in answer.splitlines() if ":" in line)
    return {key.strip("-*•\"' \t").replace("**", ""): value.strip(" ,\t").strip("*") for key, value in pairs}


def _items(answer: str) -> list[str]:
    lines = [re.sub(r"^\s*(?:[-*+•–]|\(?\d{1,3}[.)])\s+", "", line) for line in answer.splitlines() if line.strip()]
    return [part.strip() for part in lines[0].split(",")] if len(lines) == 1 else lines


def _f1(expected: list[str], got: list[str]) -> float:
    hits = (Counter(expected) & Counter(got)).total()
    return 2 * hits / (len(expected) + len(got)) if hits else 0.0


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _starts(answer: str) -> Iterator[int]:
    for tried, found in enumerate(re.finditer(r"[{\[]", answer)):
        if tried == _MAX_STARTS:
            return
        yield found.start()


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner)


def _compiles(pattern: object) -> bool:
    try:
        re.compile(pattern)  # type: ignore[call-overload]
    except (re.error, TypeError):
        return isinstance(pattern, dict)  # a property that happens to be called "pattern"
    return True
