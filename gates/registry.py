"""The gates by id, their default parameters, and what a plan must say about them before it freezes."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args

from .check import Check
from .result import Requirement

MODULES = (
    "record", "greedy", "law", "audited", "quality", "control", "speed", "tail", "ttft", "break_even", "lookup",
    "liveness",
    "resources",
)  # fmt: skip
"""Under `gates/checks/`, in the order in which gates are shown."""


@cache
def checks() -> Mapping[str, type[Check]]:
    """Every gate of ours by id, in the order in which they are shown."""
    found: dict[str, type[Check]] = {}
    for name in MODULES:
        module = importlib.import_module(f".checks.{name}", __package__)
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Check)
                and hasattr(value, "id")
                and value.__module__ == module.__name__
            ):
                found.setdefault(value.id, value)
    return found


def build_check(entry: Mapping[str, Any]) -> Check:
    """One gate of a plan, from its entry. Raises KeyError for an unknown id."""
    return checks()[str(entry["id"])](entry.get("params") or {}, entry.get("requirement", "required"))


def default_gates() -> list[dict[str, Any]]:
    """Entries for a plan, every threshold stated."""
    return [{"id": c.id, "requirement": c.default_requirement, "params": _plain(c.defaults)} for c in checks().values()]


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def validate_gates(gates: Iterable[Mapping[str, Any]]) -> list[str]:
    """Problems in a plan's gates, empty when there are none: bad ids, missing thresholds, unknown or bad parameters."""
    problems, seen = [], set()
    for entry in gates:
        name = str(entry.get("id", ""))
        if name not in checks():
            problems.append(f"gate {name!r}: unknown; there are {', '.join(checks())}")
            continue
        if name in seen:
            problems.append(f"gate {name}: stated twice")
        seen.add(name)
        problems += [f"gate {name}: {said}" for said in _entry_problems(checks()[name], entry)]
    if not seen:
        problems.append("no gate is asked; a verdict needs at least one")
    return problems


def _entry_problems(check: type[Check], entry: Mapping[str, Any]) -> list[str]:
    problems = []
    if entry.get("requirement") not in get_args(Requirement):
        problems.append(f"requirement {entry.get('requirement')!r}; one of {', '.join(get_args(Requirement))}")
    params = entry.get("params") or {}
    if not isinstance(params, Mapping):
        return [*problems, "params is a mapping of thresholds"]
    if entry.get("requirement") != "not-applicable":
        problems += [f"does not state its threshold {k!r}" for k in check.thresholds if k not in params]
    has = ", ".join(check.defaults) or "none"
    problems += [f"unknown parameter {k!r}; it has {has}" for k in params if k not in check.defaults]
    problems += [
        f"{k} is {params[k]!r}, not {_kind(check.defaults[k])}"
        for k in params
        if k in check.defaults and not _fits(params[k], check.defaults[k])
    ]
    return problems


def _kind(default: Any) -> str:
    if isinstance(default, (tuple, list)):
        return "a list"
    return "a positive finite number" if default else "a finite number, 0 or more"


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, (tuple, list)):
        return isinstance(value, (tuple, list))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and (value > 0 if default else value >= 0)
