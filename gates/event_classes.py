"""How often each way a round or a request can end was seen: what "zero mismatches" was tried on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from .evidence import Evidence

AUDITS = ("greedy_battery", "battery")


def event_classes(evidence: Evidence) -> dict[str, int]:
    """Counts for the candidate's rounds of the first block (greedy repeats add nothing), plus the batteries'.

    Classes: accepted_all, rejected, reject_at_1…, stop (in a block), length, champion_step, stop_string, context.
    """
    counts: Counter[str] = Counter()
    rounds = evidence.rounds
    if not rounds.empty and {"arm", "outcome", "proposed", "accepted"} <= set(rounds.columns):
        mine = rounds[rounds["arm"] == evidence.candidate]
        if evidence.greedy and "block" in mine and len(mine):
            mine = mine[mine["block"] == mine["block"].min()]
        counts.update({str(k): int(v) for k, v in mine["outcome"].value_counts().items()})
        at = mine.loc[mine["outcome"] == "rejected", "accepted"].value_counts()
        counts.update({f"reject_at_{int(str(k)) + 1}": int(v) for k, v in at.items()})
        if "censored" in mine:
            counts["context"] += int((mine["censored"] == "context").sum())
    requests = evidence.requests
    if not requests.empty and {"arm", "finish_reason"} <= set(requests.columns):
        mine = requests[requests["arm"] == evidence.candidate]
        if evidence.greedy and "block" in mine and len(mine):
            mine = mine[mine["block"] == mine["block"].min()]
        counts["stop_string"] += int((mine["finish_reason"] == "stop_string").sum())
    for name in AUDITS:
        for body in evidence.audits.get(name, ()):
            found = (body.get("detail") or {}).get("event_classes")
            counts.update(_counts(found))
    return {k: v for k, v in sorted(counts.items()) if v}


def _counts(found: Any) -> dict[str, int]:
    if not isinstance(found, Mapping):
        return {}
    return {str(k): int(v) for k, v in found.items() if isinstance(v, int) and v >= 0}
