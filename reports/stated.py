"""A plan as the report prints it: every field of the shape that the templates expect, and what was not stated said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOT_STATED = "not stated"
MAPPINGS = ("champion", "decoding", "schedule", "measurement", "session_lengths", "hardware_class", "arithmetic")
LISTS = ("strata", "arms", "gates")
EXPECTED = ("title", "champion", "candidate", "strata", "arms", "decoding", "schedule", "hardware_class")
"""Fields that every frozen plan has; a reader is told which of them this one lacks."""


def stated(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan with mappings where mappings belong, lists of named mappings where those do, and text as text.

    Nothing is made up: a missing name is NOT_STATED, a missing section is empty. The plan itself is not changed.
    """
    shaped: dict[str, Any] = {str(k): v for k, v in plan.items()}
    for key in MAPPINGS:
        shaped[key] = _mapping(plan.get(key))
    for key in LISTS:
        shaped[key] = [dict(entry) for entry in _list(plan.get(key)) if isinstance(entry, Mapping)]
    shaped["title"] = _text(plan.get("title") or plan.get("name"))
    shaped["candidate"] = _text(plan.get("candidate"))
    shaped["champion"]["name"] = _text(shaped["champion"].get("name"))
    draft = _mapping(plan.get("draft"))
    shaped["draft"] = {**draft, "name": _text(draft.get("name"))} if draft else None
    for arm in shaped["arms"]:
        arm["name"] = _text(arm.get("name"))
    for stratum in shaped["strata"]:
        stratum["name"] = _text(stratum.get("name"))
        prompts = [dict(p) for p in _list(stratum.get("prompts")) if isinstance(p, Mapping)]
        stratum["prompts"] = [{**p, "turns": whole(p.get("turns", 1), 1)} for p in prompts]
    shaped["schedule"]["blocks"] = whole(shaped["schedule"].get("blocks"))
    shaped["session_lengths"] = {str(k): _mapping(v) for k, v in shaped["session_lengths"].items()}
    return shaped


def unstated(plan: Mapping[str, Any]) -> list[str]:
    """The expected fields that a plan leaves out or gives another shape, in the order of EXPECTED."""
    shapes = {**dict.fromkeys(MAPPINGS, Mapping), **dict.fromkeys(LISTS, list)}
    return [key for key in EXPECTED if not plan.get(key) or not isinstance(plan[key], shapes.get(key, str))]


def whole(value: Any, otherwise: int = 0) -> int:
    """A count as a plan states it; ``otherwise`` for what is none."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1 << 53 else otherwise


def _mapping(value: Any) -> dict[str, Any]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else NOT_STATED if value in (None, "") else str(value)
