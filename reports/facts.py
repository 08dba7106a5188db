"""Facts that no publication can settle and a run on the spot must: each resolved by this run, or said to be open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..gates.result import GateResult
from .numbers import count, quantity
from .records import RunRecords

Answer = tuple[bool, str]
"""Resolved or not, and by what or why not."""


@dataclass(frozen=True)
class Seen:
    """What the answers look at."""

    records: RunRecords
    gates: Mapping[str, GateResult]

    @property
    def plan(self) -> Mapping[str, Any]:
        return self.records.plan

    def gate(self, id: str, what: str) -> Answer:
        found = self.gates.get(id)
        if found is None or found.status in ("not-measured", "not-applicable", "inconclusive"):
            return False, f"gate {id}: {found.status if found else 'not in this plan'}"
        return True, f"{what} (gate {id}: {found.status})"

    def audit(self, *names: str) -> Answer:
        nothing = ""
        for name in names:
            bodies = self.records.evidence.audits.get(name, [])
            unmeasured = [d for b in bodies if isinstance(d := b.get("detail"), Mapping) and d.get("measured") is False]
            if bodies and len(unmeasured) == len(bodies):
                why = unmeasured[0].get("reason") or "no reason was recorded"
                nothing = nothing or f"audit {name} of this run measured nothing: {why}"
            elif bodies:
                n = sum(int(b.get("n") or 0) for b in bodies)
                return (
                    True,
                    f"audit {name} of this run, {count(n, 'case')}, "
                    f"{'all clean' if all(b.get('ok') for b in bodies) else 'NOT clean'}",
                )
        return False, nothing or f"this run holds no audit named {' or '.join(names)}"


def _identities(seen: Seen) -> Answer:
    models = [m for m in (seen.plan["champion"], seen.plan["draft"]) if m and m.get("sha256")]
    names = ", ".join(
        f"{m.get('name')} {quantity(m.get('bytes'), 'bytes')}, {m.get('licence') or 'no licence stated'}"
        for m in models
    )
    return bool(models), f"bound by hash in the plan: {names}" if models else "the plan binds no model by hash"


def _peaks(seen: Seen) -> Answer:
    memory = seen.records.table("memory")
    if memory.empty:
        return False, "this run has no memory timeline"
    processes = count(memory.groupby(["unit", "arm"]).ngroups, "process", "processes")
    return True, f"kernel high-water marks in {processes}, loading included"


def _prefill(seen: Seen) -> Answer:
    requests = seen.records.table("requests")
    mine = requests[requests["arm"] == seen.records.candidate] if not requests.empty else requests
    if mine.empty:
        return False, "no request of the candidate is recorded"
    champion, draft = mine["prefill_ns"].median() / 1e9, mine["draft_prefill_ns"].median() / 1e9
    return (
        True,
        f"median prefill {quantity(champion, 's')} (champion), {quantity(draft, 's')} (draft); loads and prefills "
        f"do not overlap here",
    )


def _acceptance(seen: Seen) -> Answer:
    rounds = seen.records.table("rounds")
    if rounds.empty:
        return False, "no round is recorded"
    proposing = rounds.loc[(rounds["arm"] == seen.records.candidate) & (rounds["proposed"] > 0), ["stratum"]]
    asked = len(seen.records.strata)
    return (
        not proposing.empty,
        f"{count(len(proposing), 'proposing round')} in {proposing['stratum'].nunique()} of "
        f"{count(asked, 'stratum', 'strata')}",
    )


def _sessions(seen: Seen) -> Answer:
    declared = seen.plan.get("session_lengths") or {}
    kinds = sorted({str(v.get("kind")) for v in declared.values()}) if declared else []
    if kinds == ["table"]:
        return True, "a table of observed lengths is part of the plan"
    return False, f"assumed by the plan ({', '.join(kinds) or 'nothing declared'}), not observed here"


def _energy(seen: Seen) -> Answer:
    bodies = seen.records.evidence.audits.get("energy", ())
    if any((b.get("detail") or {}).get("measured") for b in bodies):
        requests = count(sum(int(b.get("n") or 0) for b in bodies), "request")
        return True, f"an energy counter was read during {requests}"
    return False, "no energy counter could be read; energy is not measured, which is not the same as zero"


def _processors(seen: Seen) -> Answer:
    decoding = seen.plan.get("decoding") or {}
    set_ = {
        k: v for k, v in decoding.items() if v not in (None, [], {}, 0, 0.0) and not (k.endswith("_p") and v == 1.0)
    }
    set_.pop("repetition_penalty", None) if set_.get("repetition_penalty") == 1.0 else None
    return bool(
        decoding
    ), f"fixed in the plan, in declared order: {', '.join(sorted(set_)) or 'plain greedy, no processor active'}"


def _turns(seen: Seen) -> Answer:
    turns = max((p["turns"] for s in seen.plan["strata"] for p in s["prompts"]), default=0)
    if turns > 1:
        return (
            True,
            f"conversations of up to {turns} turns were run; a next turn extends the cache after the stop token",
        )
    return False, "every prompt of this plan has one turn"


def _ids(seen: Seen) -> Answer:
    return (
        True,
        "receipts and tables hold aggregates and hashes; token ids lie in a private folder that can be withheld",
    )


FACTS: Sequence[tuple[str, Callable[[Seen], Answer]]] = (
    ("Sizes, encodings, tokenizer hashes, templates and licences of champion and draft", _identities),
    ("Whether the champion gives position-aligned k + 1 rows in one call", lambda s: s.gate("logit-conformance",
    "rows compared")),
    ("Numerical difference between one-token and many-token kernels", lambda s: s.audit("conformance")),
    ("Cache layouts, rollback costs and pending-token semantics", lambda s: s.audit("fresh_state", "memory_formula")),
    ("Loading peaks, fragmentation and behaviour when memory runs out", _peaks),
    ("Prompt prefill cost of both models, and whether it can overlap loading", _prefill),
    ("Acceptance by required stratum", _acceptance),
    ("Whether the draft competes with the champion for the same memory bandwidth", lambda s: s.audit("contention")),
    ("Cost of GPU submission, synchronisation, device loss and readback", lambda s: (False,
    "this engine runs on the CPU; nothing is said about GPUs")),
    ("SIMD availability and fallback in browsers", lambda s: (False,
    "no browser is involved; native instruction sets are in the plan")),
    ("Latency, authentication and cancellation of a companion process", lambda s: (False,
    "both models live in one process here")),
    ("Deduplication of artifacts by file, tensor and block", lambda s: s.audit("memory_formula")),
    ("The real distribution of session lengths", _sessions),
    ("Whether energy can be measured", _energy),
    ("Exact order of stop strings, grammar, top-p, penalties and other processors", _processors),
    ("Whether a self-speculative or feature-fed draft exists for this champion", lambda s: (
        (s.plan["draft"] or {}).get("kind") == "feature", "only the draft named in the plan was looked at")),
    ("Whether continuing after the end token reuses the cache or needs a new prompt", _turns),
    ("Whether token ids may be kept, or only aggregates", _ids),
)  # fmt: skip


def answers(records: RunRecords, gates: Mapping[str, GateResult]) -> list[tuple[str, bool, str]]:
    """Every fact with whether this run resolved it and how."""
    seen = Seen(records, gates)
    return [(fact, *_answer(ask, seen)) for fact, ask in FACTS]


def _answer(ask: Callable[[Seen], Answer], seen: Seen) -> Answer:
    """What the records cannot answer is open, never resolved."""
    try:
        return ask(seen)
    except Exception as error:
        return False, f"these records do not tell ({type(error).__name__})"
