"""What the report says, before any markup: plain values that the HTML and Markdown templates print."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pandas as pd

from ..gates.result import GateResult, Verdict
from .byte_table import Row, byte_rows, measurement_notes
from .checklists import ADOPTION, DELETION, SOURCES, Criterion, Source, state_of
from .explain import Explained, explain, headline, what_would_change
from .facts import answers
from .gate_texts import GROUPS, LABELS
from .numbers import count, quantity
from .pace import PaceRow, pace_rows
from .records import RunRecords
from .robustness import NOTHING_KNOWN, Robustness, card_problem, robustness
from .stated import NOT_STATED, unstated
from .strata_table import StrataTable, strata_table

Part = TypeVar("Part")

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
    pace: Sequence[PaceRow]
    sources: Sequence[Source] = SOURCES
    labels: Mapping[str, str] = field(default_factory=lambda: LABELS)


def build_page(records: RunRecords, verdict: Verdict) -> Page:
    """Everything the report prints, from records and verdict.

    A verdict has been reached by now, so nothing in here raises: a part that the records cannot fill stays empty, and
    the page says so at its top.
    """
    plan, extra, problems = records.plan, verdict.extra, list[str]()

    def part(what: str, build: Callable[[], Part], empty: Part) -> Part:
        try:
            return build()
        except Exception as error:
            problems.append(f"{what} cannot be told from these records ({type(error).__name__}: {str(error)[:120]}).")
            return empty

    gates = [explain(g) for g in verdict.gates]
    by_id: dict[str, GateResult] = {g.id: g for g in verdict.gates}
    decoding = part("How the plan decodes", lambda: _decoding(plan), "greedy")
    counts: dict[str, int] = {}
    for g in verdict.gates:
        counts[g.status] = counts.get(g.status, 0) + 1
    return Page(
        verdict=verdict,
        headline=headline(verdict),
        plan=plan,
        plan_id=verdict.plan_id,
        candidate=records.candidate,
        facts_line=part("The extent of the evidence", lambda: _facts_line(records), NOT_STATED),
        deviations=[_sentence(d) for d in _deviations(records, verdict)],
        gates=gates,
        groups=[
            (title, [e for e in gates if e.text.group == g])
            for g, title in GROUPS.items()
            if any(e.text.group == g for e in gates)
        ],
        counts=counts,
        strata=part("The table of strata", lambda: strata_table(records, verdict), StrataTable((), 50.0)),
        change=what_would_change(verdict, gates),
        not_shown=_not_shown(extra.get("not_shown")),
        robustness=part("The decision card", lambda: robustness(verdict), NOTHING_KNOWN),
        deletion=[(c, *state_of(c, by_id, decoding)) for c in DELETION],
        adoption=[(c, *state_of(c, by_id, decoding)) for c in ADOPTION],
        facts=answers(records, by_id),
        identities=part("The identities", lambda: _identities(plan, verdict.plan_id), []),
        machine=part("The machine", lambda: _machine(records), []),
        bytes=part("The table of bytes", lambda: byte_rows(records), []),
        measurement=part("The cost of measuring", lambda: measurement_notes(records), []),
        pace=part("The table of paces", lambda: pace_rows(records), []),
        problems=[*part("What is wrong with the records", lambda: _problems(records, verdict), list[str]()), *problems],
    )


def _decoding(plan: Mapping[str, Any]) -> str:
    return "stochastic" if float(plan["decoding"].get("temperature") or 0) > 0 else "greedy"


def _facts_line(records: RunRecords) -> str:
    plan = records.plan
    prompts = sum(len(s["prompts"]) for s in plan["strata"])
    requests = records.table("requests")
    return ", ".join(
        [
            count(len(plan["strata"]), "stratum", "strata"),
            count(prompts, "prompt"),
            count(plan["schedule"]["blocks"], "block"),
            count(len(records.arms), "arm"),
            count(len(requests), "recorded request"),
            *_left_out(requests),
        ]
    )


def _left_out(requests: pd.DataFrame) -> list[str]:
    """Requests that an exclusion rule of the plan dropped, on every arm: why a gate rests on fewer prompts."""
    rules = requests["excluded"].fillna("") if "excluded" in requests else pd.Series(dtype=str)
    dropped = rules[rules != ""]
    if dropped.empty:
        return []
    return [f"{len(dropped):,} of them left out by the plan's exclusion rules ({', '.join(sorted(set(dropped)))})"]


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
    if missing := unstated(records.evidence.plan):
        found.append(f"The plan does not state: {', '.join(missing)}.")
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
