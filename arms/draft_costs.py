"""What rounds of a draft cost on this machine: the frozen costs of a plan's `cost-model` policy.

Whole rounds of the real arm are timed, so that drafting, verification, sampling and what is kept or undone afterwards
are all in them. Sessions of every k take turns, so that a slow moment of the machine falls on all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .build import build_arm
from .errors import ArmError
from .kinds import BASELINE
from .request import Request, StopPolicy

if TYPE_CHECKING:
    from .models import Model

TEXT = "The lighthouse stood at the end of the old pier, and every evening somebody walked out to look after its lamp. "
LEAST_ROUNDS = 7
FRUITLESS = 3
"""Passes, after time is up, that may end without a round of some number of proposals before we say there are none."""
MOST_TOKENS = 400
"""The text grows while it is timed: sessions of one context end after so many tokens and are opened again."""


def measure(
    champion: Model,
    draft: Model,
    contexts: Sequence[int],
    k: int,
    decoding: Mapping[str, Any] | None = None,
    seconds: float = 10.0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """One entry a context: ``context``, ``draft``, ``verify`` (of 0 … k proposals) and ``reading`` (of a token of the
    prompt, beside the champion's own), in rounds without a proposal; ``round_us`` by number of proposals, medians."""
    found = []
    for context in contexts:
        progress(f"{context} tokens of context")
        rounds, drafts, reading = _rounds(champion, draft, context, k, decoding or {}, seconds)
        step = drafts[k] / max(k, 1)
        verify = [round((rounds[i] - min(i * step, drafts[i])) / rounds[0], 3) for i in range(k + 1)]
        entry = {"context": context, "draft": round(step / rounds[0], 3), "verify": verify}
        entry["reading"] = round(max(0.0, reading) / rounds[0], 4)
        found.append(entry | {"round_us": [round(ns / 1e3, 1) for ns in rounds]})
    return found


def _rounds(
    champion: Model, draft: Model, context: int, k: int, decoding: Mapping[str, Any], seconds: float
) -> tuple[list[float], list[float], float]:
    """Median nanoseconds of a round of 0, 1, …, k proposals, of the drafting in it, and of reading a token."""
    text = champion.encode_raw(TEXT)
    prompt = tuple((text * (context // len(text) + 1))[:context])
    request = Request("costs", prompt, MOST_TOKENS, 1, StopPolicy(), "costs")
    arms = [_arm(champion, draft, i, decoding) for i in range(k + 1)]
    alone: Any = build_arm({"name": BASELINE, "kind": BASELINE}, champion, None, decoding)
    times: list[list[tuple[int, int]]] = [[] for _ in arms]
    readings: list[int] = []
    end, fruitless = time.perf_counter() + seconds, 0

    def fewest() -> int:
        return min(map(len, times))

    def wanting() -> bool:
        return time.perf_counter() < end or fewest() < LEAST_ROUNDS

    while wanting():
        before = fewest()
        own = _prefill(alone.open(request))
        readings.append(_prefill(arms[-1].open(request)) - own)
        _take_turns([arm.open(request) for arm in arms], times, wanting)
        fruitless = fruitless + 1 if fewest() == before else 0
        if fruitless >= FRUITLESS and fewest() < LEAST_ROUNDS and time.perf_counter() >= end:
            raise ArmError(
                f"the draft does not propose {k} tokens after {context}; ask for a shorter context or a smaller k"
            )
    totals = [statistics.median(total for total, _ in found) for found in times]
    drafts = [statistics.median(draft for _, draft in found) for found in times]
    return totals, drafts, statistics.median(readings) / context


def _prefill(session: Any) -> int:
    """Nanoseconds until both models have read the prompt."""
    try:
        session.prefill()
        return int(session.prefill_ns + session.draft_prefill_ns)
    finally:
        session.close()


def _take_turns(sessions: Sequence[Any], times: Sequence[list[tuple[int, int]]], wanting: Callable[[], bool]) -> None:
    """One pass from the prompt to the first session's end; the first round of each is a warm-up."""
    try:
        for session in sessions:
            session.prefill()
        while wanting() and not any(session.finished() for session in sessions):
            for proposals, session in enumerate(sessions):
                record = session.step()
                if record.proposed == proposals and record.round > 0:
                    times[proposals].append((record.total_ns, record.draft_ns))
    finally:
        for session in sessions:
            session.close()


def _arm(champion: Model, draft: Model, k: int, decoding: Mapping[str, Any]) -> Any:
    spec = {"name": "neural_draft", "kind": "neural_draft", "k": k, "policy": {"kind": "fixed"}}
    return build_arm(spec, champion, draft, decoding)


def policy_lines(costs: Sequence[Mapping[str, Any]], k: int) -> list[str]:
    """The lines of an arm's entry in a plan."""
    lines = [f"k: {k}", "policy:", "  kind: cost-model", "  prior: 0.6", "  costs:"]
    for entry in costs:
        verify = ", ".join(f"{v:g}" for v in entry["verify"])
        fields = f"context: {entry['context']}, draft: {entry['draft']:g}, reading: {entry['reading']:g}"
        lines.append(f"    - {{{fields}, verify: [{verify}]}}")
    return lines
