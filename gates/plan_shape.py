"""Whether a plan has the shape that a verdict needs: said by name before any gate is asked.

A plan that `freeze` wrote always has it. One from elsewhere may not, and what goes wrong with it must not be confused
with what goes wrong in a gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .evidence import Evidence


def misshapen(evidence: Evidence) -> str:
    """The first field that is not what a frozen plan or a ledger's first record has there; empty when all are."""
    plan = evidence.plan
    for name, kind in _FIELDS.items():
        if plan.get(name) is not None and not kind(plan[name]):
            return f"{name} is not {_KINDS[kind]}"
    for name, fields in _ENTRIES.items():
        for number, entry in enumerate(plan.get(name) or ()):
            where = f"{name}[{number}]"
            if not isinstance(entry, Mapping):
                return f"{where} is not {_KINDS[_mapping]}"
            for field, (needed, kind) in fields.items():
                value = entry.get(field)
                if value is None and needed:
                    return f"{where} has no {field}"
                if value is not None and not kind(value):
                    return f"{where}.{field} is not {_KINDS[kind]}"
            if name == "strata" and (said := _prompts(entry.get("prompts") or ())):
                return f"{where}.{said}"
    temperature = (plan.get("decoding") or {}).get("temperature")
    if temperature is not None and not _number(temperature):
        return f"decoding.temperature is not {_KINDS[_number]}"
    return _environment(evidence)


def _prompts(prompts: Sequence[Any]) -> str:
    for number, prompt in enumerate(prompts):
        if not isinstance(prompt, Mapping):
            return f"prompts[{number}] is not {_KINDS[_mapping]}"
        if not isinstance(prompt.get("id"), str):
            return f"prompts[{number}] has no id"
    return ""


def _environment(evidence: Evidence) -> str:
    for record in evidence.ledger.records:
        if record.get("kind") == "plan":
            environment = (record.get("body") or {}).get("environment")
            return "" if not environment or _mapping(environment) else f"the ledger's environment is not {_A_MAPPING}"
    return ""


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_A_MAPPING = "a mapping"
_KINDS: Mapping[Callable[[Any], bool], str] = {
    _mapping: _A_MAPPING, _list: "a list", _text: "a text", _number: "a number",
}  # fmt: skip
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "strata": _list, "arms": _list, "gates": _list, "decoding": _mapping, "schedule": _mapping, "parent": _mapping,
    "hardware_class": _mapping, "alpha": _number, "attempts_budget": _number, "candidate": _text,
}  # fmt: skip
_ENTRIES: Mapping[str, Mapping[str, tuple[bool, Callable[[Any], bool]]]] = {
    "strata": {"name": (True, _text), "weight": (False, _number), "prompts": (False, _list)},
    "arms": {"name": (True, _text), "kind": (False, _text)},
    "gates": {"id": (True, _text), "requirement": (False, _text), "params": (False, _mapping)},
}
"""List of the plan to the fields of its entries: whether needed, and what they are."""
