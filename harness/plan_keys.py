"""A misspelt key of a plan: the nearest real one, from the schema and from the plan that was being changed."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any

from .plan_schema import PlanConf

CLOSE = 0.6
"""Similarity from which a name is taken for a misspelling (difflib's own default)."""


def key_hint(key: str, composed: Mapping[str, Any]) -> str:
    """What to write instead of the dotted ``key``; empty where a plan may have it.

    ``composed``: the plan without the override, as plain values; empty where it does not compose.
    """
    kind: Any = PlanConf
    node: Any = composed
    parts = key.split(".")
    for place, part in enumerate(parts):
        fields, kind_below = _below(kind, part)
        there = {str(k) for k in node} if isinstance(node, Mapping) else set[str]()
        known = fields | there
        if part not in known:
            return _said(parts, place, known, open_=not fields and kind_below is not None)
        kind = kind_below
        node = node.get(part) if isinstance(node, Mapping) else None
    return ""


def _said(parts: list[str], place: int, known: set[str], open_: bool) -> str:
    """``open_``: names of its own are welcome here, so only a near one is a misspelling."""
    wrong, above = ".".join(parts[: place + 1]), ".".join(parts[:place])
    near = difflib.get_close_matches(parts[place], sorted(known), 1, CLOSE)
    if near:
        meant = ".".join([*parts[:place], near[0], *parts[place + 1 :]])
        return f"{wrong}: no such key; did you mean {meant}?" + (
            f" (+{'.'.join(parts)}=… adds a new one)" if open_ else ""
        )
    if open_:
        return ""
    where = f"under {above}" if above else "in a plan"
    return f"{wrong}: no such key; {where} there {_are(known)}"


def _are(known: set[str]) -> str:
    return f"are {', '.join(sorted(known))}" if known else "is nothing of the kind"


def _below(kind: Any, part: str) -> tuple[set[str], Any]:
    """Names that the schema has at a node (none where it leaves them open), and the type of ``part`` there; None where
    nothing can be."""
    kind = _without_none(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return set(hints), hints.get(part)
    if typing.get_origin(kind) is dict:
        return set(), typing.get_args(kind)[1]
    return set(), Any if kind is Any else None


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        return next((k for k in typing.get_args(kind) if k is not type(None)), None)
    return kind
