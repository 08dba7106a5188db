"""What the report says, before any markup: plain values that the HTML and Markdown templates print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..gates.result import GateResult, Verdict
from .byte_table import Row, byte_rows, measurement_notes
from .checklists import ADOPTION, DELETION, SOURCES, Criterion, Source, state_of
from .explain import Explained, explain, headline, what_would_change
from .facts import answers
from .gate_texts import GROUPS, LABELS
from .numbers import count, quantity
from .records import RunRecords
from .robustness import Robustness, card_problem, robustness
from .strata_table import StrataTable, strata_table

ALWAYS_NOT_SHOWN = (
    "Anything about prompts unlike these: the intervals speak of prompts such as those sampled, not of all prompts.",
    "Other champions, drafts, quantisations, machines, or many requests served at once.",
    "That no rare slow case exists: no interval sees what the sample lacks.",
    "That the champion's answers are good: the gates ask whether they stay the champion's.",
)


@dataclass(frozen=True)
class Page:
    verdict: Verdict
    headline: str
    plan: Mapping[str, Any]
    plan_id: str
    candidate: str
    facts_line: str
    deviations: Sequence[str]
    problems: Sequence[str]
    """What is wrong with the records themselves, said at the top."""
    gates: Sequence[Explained]
    groups: Sequence[tuple[str, Sequence[Explained]]]
    counts: Mapping[str, int]
    strata: StrataTable
    change: Sequence[tuple[str, str]]
    not_shown: Sequence[str]
    robustness: Robustness
    deletion: Sequence[tuple[Criterion, str, str]]
    adoption: Sequence[tuple[Criterion, str, str]]
    facts: Sequence[tuple[str, bool, str]]
    identities: Sequence[tuple[str, str]]
    machine: Sequence[tuple[str, str]]
    bytes: Sequence[Row]
    measurement: Sequence[tuple[str, str]]
    sources: Sequence[Source] = SOURCES
    labels: Mapping[str, str] = field(default_factory=lambda: LABELS)


def build_page(records: RunRecords, verdict: Verdict) -> Page:
    """Everything the report prints, from records and verdict."""
    plan, extra = records.plan, verdict.extra
    gates = [explain(g) for g in verdict.gates]
    by_id: dict[str, GateResult] = {g.id: g for g in verdict.gates}
    decoding = "stochastic" if float((plan.get("decoding") or {}).get("temperature") or 0) > 0 else "greedy"
    counts: dict[str, int] = {}
    for g in verdict.gates:
        counts[g.status] = counts.get(g.status, 0) + 1
    return Page(
        verdict=verdict,
        headline=headline(verdict),
        plan=plan,
        plan_id=verdict.plan_id,
        candidate=records.candidate,
        facts_line=_facts_line(records),
        deviations=[_sentence(d) for d in _deviations(records, verdict)],
        problems=_problems(records, verdict),
        gates=gates,
        groups=[
            (title, [e for e in gates if e.text.group == g])
            for g, title in GROUPS.items()
            if any(e.text.group == g for e in gates)
        ],
        counts=counts,
        strata=strata_table(records, verdict),
        change=what_would_change(verdict, gates),
        not_shown=_not_shown(extra.get("not_shown")),
        robustness=robustness(verdict),
        deletion=[(c, *state_of(c, by_id, decoding)) for c in DELETION],
        adoption=[(c, *state_of(c, by_id, decoding)) for c in ADOPTION],
        facts=answers(records, by_id),
        identities=_identities(plan, verdict.plan_id),
        machine=_machine(records),
        bytes=byte_rows(records),
        measurement=measurement_notes(records),
    )


def _facts_line(records: RunRecords) -> str:
    plan = records.plan
    prompts = sum(len(s.get("prompts", [])) for s in plan.get("strata", []))
    requests = records.table("requests")
    return ", ".join(
        [
            count(len(plan.get("strata", [])), "stratum", "strata"),
            count(prompts, "prompt"),
            count(int((plan.get("schedule") or {}).get("blocks", 0)), "block"),
            count(len(records.arms), "arm"),
            count(len(requests), "recorded request"),
        ]
    )


def _deviations(records: RunRecords, verdict: Verdict) -> list[Any]:
    listed = verdict.extra.get("deviations")
    return (
        list(listed)
        if isinstance(listed, Sequence) and not isinstance(listed, str)
        else list(records.evidence.deviations)
    )


def _problems(records: RunRecords, verdict: Verdict) -> list[str]:
    found = [f"The ledger: {records.evidence.ledger.problem}."] if records.evidence.ledger.problem else []
    if not records.complete:
        found.append("The run has no closing record: it is partial, and no verdict on it is final.")
    if records.plan_id != verdict.plan_id:
        found.append(f"The verdict is about plan {verdict.plan_id[:12]}, the folder's plan is {records.plan_id[:12]}.")
    card = card_problem(records, verdict)
    return [*found, card] if card else found


def _sentence(value: Any) -> str:
    """A deviation or note as one readable line, whatever its shape."""
    if not isinstance(value, Mapping):
        return str(value)
    lead = next((str(value[k]) for k in ("what", "reason", "message", "text", "kind", "name") if value.get(k)), "")
    rest = {k: v for k, v in value.items() if str(v) != lead and v not in (None, "", [], {})}
    tail = ", ".join(
        f"{k} {v if isinstance(v, str | int | float) else json.dumps(v, sort_keys=True)}" for k, v in rest.items()
    )
    return f"{lead} ({tail})" if lead and tail else lead or tail


def _not_shown(value: Any) -> list[str]:
    """What the gates say they do not show, and what no run of this kind shows."""
    told = _strings(value)
    return [*told, ALWAYS_NOT_SHOWN[-1]] if told else list(ALWAYS_NOT_SHOWN)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [_sentence(v) for v in value] if isinstance(value, Sequence) else []


def _identities(plan: Mapping[str, Any], plan_id: str) -> list[tuple[str, str]]:
    rows = [("plan", plan_id), ("source digest", str(plan.get("source_digest", "")))]
    for role in ("champion", "draft"):
        model = plan.get(role) or {}
        if model:
            rows.append(
                (f"{role}: {model.get('name')} ({quantity(model.get('bytes'), 'bytes')})", str(model.get("sha256", "")))
            )
            rows.append((f"{role} tokenizer", str(model.get("tokenizer_sha256", ""))))
            rows.append((f"{role} chat template", str(model.get("template_sha256", ""))))
    rows.append(("arithmetic", str((plan.get("arithmetic") or {}).get("golden", ""))))
    return [(name, value) for name, value in rows if value]


def _machine(records: RunRecords) -> list[tuple[str, str]]:
    hardware = records.plan.get("hardware_class") or {}
    rows = [(f"plan: {k.replace('_', ' ')}", _flat(v)) for k, v in hardware.items()]
    rows += [(k.replace("_", " "), _flat(v)) for k, v in records.evidence.environment.items() if k != "hardware_class"]
    return [(k, v) for k, v in rows if v]


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_flat(v)}" for k, v in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
