"""Checks on code: it parses, and passes its tiny test in a process with limits."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ..errors import StrataError
from .data import fenced
from .sandbox import run_python, run_sql

PARSE_WEIGHT = 0.25
"""What code that only parses is worth where it also has a test to pass."""
DEFAULT_SECONDS = 2.0


def find_code(answer: str, language: str) -> str:
    """The code of an answer: its longest fence of that language, else of any, else all of it."""
    blocks = list(fenced(answer))
    mine = [body for tag, body in blocks if tag in (language, language[:2], f"{language}3")]
    return max(mine or [body for _, body in blocks] or [answer], key=len)


def python(check: Mapping[str, Any], answer: str) -> float:
    """0 unless it parses and does something; without ``tests`` 1; with them 0.25 plus 0.75 × the share that passes."""
    code = find_code(answer, "python")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0.0
    if not any(not isinstance(node, ast.Expr | ast.Pass) or _calls(node) for node in tree.body):
        return 0.0  # a bare word or number parses, and is no program
    tests = check.get("tests")
    if not tests:
        return 1.0
    passed = run_python(code, tests, seconds=check.get("seconds", DEFAULT_SECONDS))
    return PARSE_WEIGHT + (1 - PARSE_WEIGHT) * passed / len(tests)


def validate_python(check: Mapping[str, Any]) -> None:
    tests = check.get("tests", [])
    if not all(isinstance(test, str) for test in tests):
        raise StrataError("check python: tests are expressions or statements, as text")
    for test in tests:
        try:
            ast.parse(test)
        except (SyntaxError, ValueError):
            raise StrataError(f"check python: the test {test!r} does not parse") from None
    _validate_seconds(check)


def sql(check: Mapping[str, Any], answer: str) -> float:
    """0 unless it gives rows on SQLite after ``setup``, 0.25 for wrong rows, 1 for ``rows`` (any order by default)."""
    outcome = run_sql(check["setup"], find_code(answer, "sql"), seconds=check.get("seconds", DEFAULT_SECONDS))
    if outcome is None:
        return 0.0
    want, got = [list(row) for row in check["rows"]], outcome
    if not check.get("ordered", False):
        want, got = sorted(want, key=repr), sorted(got, key=repr)
    return 1.0 if got == want else PARSE_WEIGHT


def validate_sql(check: Mapping[str, Any]) -> None:
    if not all(isinstance(row, list) for row in check["rows"]):
        raise StrataError("check sql: rows is a list of lists")
    _validate_seconds(check)


def _calls(node: ast.stmt) -> bool:
    return any(isinstance(inner, ast.Call | ast.Await) for inner in ast.walk(node))


def _validate_seconds(check: Mapping[str, Any]) -> None:
    if not 0 < check.get("seconds", DEFAULT_SECONDS) <= 30:
        raise StrataError(f"check {check['kind']}: seconds has to lie in (0, 30]")
