"""What was expected, and how firmly the verdict stands: decision card, multiverse, self-check, open and reserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..gates.result import Verdict
from ..harness.canonical import digest_value
from .explain import STATUS_WORDS, SYMBOLS
from .numbers import NONE, interval, quantity
from .records import RunRecords

OUTCOMES = ("GO", "INCONCLUSIVE", "NO-GO", "INVALID")


@dataclass(frozen=True)
class Chance:
    """One assumed truth of the decision card, and how often each verdict came out of it."""

    truth: str
    shares: Sequence[tuple[str, float]]
    """Verdict and its percentage, in the order of ``OUTCOMES``, zeros left out."""
    replicates: int
    here: bool
    """The assumed truth nearest to what the run estimated."""


@dataclass(frozen=True)
class Card:
    chances: Sequence[Chance]
    note: str
    simulated: str
    assumed: str
    variation: str


@dataclass(frozen=True)
class Line:
    """A gate under another analysis, on a spoiled copy, or on a part of the prompts."""

    gate: str
    what: str
    status: str
    symbol: str
    words: str
    estimate: str
    interval: str
    mark: str
    """What is remarkable about it; empty when nothing is."""


@dataclass(frozen=True)
class Robustness:
    card: Card | None
    multiverse: Sequence[Line]
    self_check: Sequence[Line]
    splits: Sequence[Line]
    flips: str
    """The analyses under which a gate would say something else, in words; empty when none does."""


NOTHING_KNOWN = Robustness(None, (), (), (), "")


def robustness(verdict: Verdict) -> Robustness:
    extra, units = verdict.extra, {g.id: g.unit for g in verdict.gates}
    other = [
        _line(r, str(r.get("variant", "")), units, "flips" if r.get("flips") else "") for r in rows(extra, "multiverse")
    ]
    checked = [
        _line(r, str(r.get("reason") or ""), units, "held" if r.get("held", True) else "PASSES: the verdict is invalid")
        for r in rows(extra, "self_check")
    ]
    parts = [_line(r, str(r.get("split", "")), units, "") for r in rows(extra, "splits")]
    flipping = [f"{x.gate} is {x.words} with {x.what}" for x in other if x.mark]
    flips = f"{'; '.join(flipping[:6])}{' and more' if len(flipping) > 6 else ''}." if flipping else ""
    return Robustness(_card(verdict), other, checked, parts, flips)


def rows(extra: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The mappings of a list in ``extra``; nothing where it has another shape."""
    value = extra.get(key)
    return (
        [v for v in value if isinstance(v, Mapping)]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else []
    )


def _line(row: Mapping[str, Any], what: str, units: Mapping[str, str], mark: str) -> Line:
    gate, status = str(row.get("gate", "")), str(row.get("status", ""))
    unit = units.get(gate, "")
    limits = interval(row.get("interval"), unit)
    if limits == NONE and row.get("no_interval"):
        limits = f"not estimable from {row['no_interval']}"
    return Line(gate, what, status, SYMBOLS.get(status, "–"), STATUS_WORDS.get(status, status),
                quantity(row.get("estimate"), unit), limits, mark)  # fmt: skip


def _card(verdict: Verdict) -> Card | None:
    card = verdict.extra.get("decision_card")
    if not isinstance(card, Mapping) or not rows(card, "truths"):
        return None
    truths = rows(card, "truths")
    found = next((g.estimate for g in verdict.gates if g.id == "speedup" and g.estimate is not None), None)
    nearest = min(truths, key=lambda t: abs(float(t.get("speedup", 0)) - found)) if found is not None else None
    chances = [
        Chance(
            quantity(float(t.get("speedup", 0)), "ratio"),
            [(name, round(100 * float(t.get(name) or 0), 1)) for name in OUTCOMES if t.get(name)],
            int(t.get("replicates") or card.get("replicates") or 0),
            t is nearest,
        )
        for t in truths
    ]
    varied = card.get("variation")
    variation = (
        ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in varied.items()) if isinstance(varied, Mapping) else ""
    )
    return Card(chances, str(card.get("note", "")), ", ".join(map(str, card.get("simulated") or ())),
                ", ".join(map(str, card.get("assumed") or ())), variation)  # fmt: skip


def card_problem(records: RunRecords, verdict: Verdict) -> str:
    """Why the decision card shown is not the one that the plan binds; empty when it is, or when there is none."""
    bound, card = records.plan.get("decision_card_sha256"), verdict.extra.get("decision_card")
    if not bound or not isinstance(card, Mapping):
        return "" if not bound else "The plan binds a decision card that is not in this folder."
    return "" if digest_value(dict(card)) == bound else "The decision card is not the one that the plan binds by hash."
