"""Bytes, kept apart by kind: in files, shared tensors counted once, by formula, and as the kernel saw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .numbers import NONE, quantity
from .records import RunRecords

_PER_MODEL = (
    ("artifact_bytes", "Artifact: the file", "measured"),
    ("tensor_bytes", "Tensors in the file", "measured"),
    ("weight_bytes", "Weights as packed in memory", "measured"),
    ("scratch_bytes", "Scratch of the engine", "measured"),
    ("kv_formula_bytes", "Keys and values by formula", "derived"),
    ("kv_measured_bytes", "Keys and values as measured", "measured"),
)
_TOGETHER = (
    ("logical_bytes", "Logical composition: all files added up", "derived"),
    ("physical_bytes", "Physical: equal tensors counted once, by content", "measured"),
    ("incremental_bytes", "Incremental: what the draft adds", "derived"),
    ("resident_bytes", "Resident with both loaded", "measured"),
)

Row = tuple[str, str, str, str, str]
"""What, champion, draft, together, evidence label."""


def byte_rows(records: RunRecords) -> list[Row]:
    """From the run's memory audit and its timeline; empty where neither was recorded."""
    detail = next((b.get("detail") or {} for b in records.evidence.audits.get("memory_formula", ())), {})
    rows: list[Row] = []
    champion, draft = _part(detail, "champion"), _part(detail, "draft")
    for key, what, label in _PER_MODEL:
        if key in champion or key in draft:
            rows.append((what, _bytes(champion.get(key)), _bytes(draft.get(key)), NONE, label))
    for key, what, label in _TOGETHER:
        if key in detail:
            rows.append((what, NONE, NONE, _bytes(detail[key]), label))
    return rows + [("Peak resident: " + name, NONE, NONE, peak, "measured") for name, peak in _peaks(records)]


def _part(detail: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = detail.get(name)
    return part if isinstance(part, Mapping) else {}


def _bytes(value: Any) -> str:
    return quantity(float(value), "bytes") if isinstance(value, int | float) else NONE


def _peaks(records: RunRecords) -> Sequence[tuple[str, str]]:
    memory = records.table("memory")
    if memory.empty:
        return ()
    worst = memory.groupby("arm")["peak_resident_bytes"].max()
    return [(arm.replace("_", " "), _bytes(float(worst[arm]))) for arm in records.arms if arm in worst.index]


def measurement_notes(records: RunRecords) -> list[tuple[str, str]]:
    """What measuring itself cost, and whether the draft gets in the champion's way."""
    audits = records.evidence.audits
    over = next((b.get("detail") or {} for b in audits.get("overhead", ())), {})
    both = next((b.get("detail") or {} for b in audits.get("contention", ())), {})
    told = (
        ("harness, as a share of a request", over.get("harness_share_median"), "share"),
        ("tracing, as a share of a round", over.get("tracing_share"), "share"),
        ("largest gap between a request and the sum of its phases", over.get("phase_gap_max"), "share"),
    )
    notes = [(what, quantity(float(value), unit)) for what, value, unit in told if isinstance(value, int | float)]
    said = _against_alone(both)
    return [*notes, ("time of a champion step, a draft step before each", said)] if said else notes


def _against_alone(both: Mapping[str, Any]) -> str:
    """A champion step after the draft's, as a multiple of one without it, with both times where they are told."""
    ratio, mine, alone = both.get("alternating_ratio"), both.get("alternating_ns"), both.get("alone_ns")
    if not isinstance(ratio, int | float):
        return ""
    shown = ""
    if isinstance(mine, int | float) and isinstance(alone, int | float):
        shown = f" ({quantity(float(mine), 'ns')} against {quantity(float(alone), 'ns')})"
    return f"{quantity(float(ratio), 'ratio')} its time with no draft running{shown}"
