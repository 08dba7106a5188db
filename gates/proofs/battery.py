"""Ends made to happen: stops, stop strings, lengths and context edges at chosen places, often enough to be counted.

Prompts of the run are continued freely by the champion alone; then the candidate gets the same prompts with a stop
token, a stop string, a length or a shortened context put at a chosen token of that continuation. A greedy answer must
be the champion's up to there, and must end for the right reason; a stochastic one is replayed decision by decision.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...arms.build import build_arm
from ...arms.kinds import BASELINE, DRAFT_ALONE, WITH_DRAFT
from ...arms.request import Completion, Request, StopPolicy
from ..private_outputs import first_difference
from .finding import Finding
from .history import is_greedy
from .replay import Auditor
from .trace import from_completion

FREE_TOKENS = 14


class Shortened:
    """An engine with a smaller context limit."""

    def __init__(self, engine: Any, context_limit: int) -> None:
        self._engine, self.context_limit = engine, context_limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One request with its end put somewhere; ``context_limit`` None leaves the engine's."""

    request: Request
    way: str
    context_limit: int | None = None


def shortened(model: Any, context_limit: int) -> Any:
    """The model with less context."""
    return dataclasses.replace(model, engine=Shortened(model.engine, context_limit))


def variants(
    name: str, prompt: Sequence[int], free: Sequence[int], tokenizer: Any, stop_ids: Sequence[int]
) -> Iterator[Variant]:
    """One of each way at every second place of a continuation."""
    for at in range(1, len(free), 2):
        base = Request(
            f"{name}/{at}", tuple(prompt), len(free), at, StopPolicy(tuple(stop_ids)), f"battery/{name}/{at}"
        )

        def changed(way: str, base: Request = base, **fields: Any) -> Request:
            return dataclasses.replace(base, request_id=f"{base.request_id}/{way}", **fields)

        ids = tuple(dict.fromkeys([*stop_ids, free[at]]))
        yield Variant(changed("stop", stop=StopPolicy(ids)), "stop")
        text = tokenizer.decode(free[at - 1 : at + 1])
        if text and "\ufffd" not in text:
            yield Variant(changed("stop_string", stop=StopPolicy(tuple(stop_ids), (text,))), "stop_string")
        yield Variant(changed("length", max_new_tokens=at), "length")
        yield Variant(changed("context"), "context", len(prompt) + at)


def expected(variant: Variant, free: Sequence[int], tokenizer: Any, limit: int) -> tuple[list[int], str]:
    """What a greedy answer must be, from the champion's own continuation alone."""
    request = variant.request
    capacity = min(variant.context_limit or limit, len(request.prompt) + request.max_new_tokens)
    for n in range(1, len(free) + 1):
        tokens = list(free[:n])
        if tokens[-1] in request.stop.token_ids:
            return tokens, "stop"
        if any(s in tokenizer.decode(tokens) for s in request.stop.strings):
            return tokens, "stop_string"
        if n >= request.max_new_tokens:
            return tokens, "length"
        if len(request.prompt) + n > capacity:
            return tokens, "context"
    return list(free), "length"


def count_events(completions: Sequence[Completion]) -> dict[str, int]:
    """How often each way a round or an answer can end was seen, under the names of the gates' event classes."""
    counts: Counter[str] = Counter()
    for done in completions:
        for record in done.rounds:
            counts[record.outcome] += 1
            counts["context"] += record.censored == "context"
            if record.outcome == "rejected":
                counts[f"reject_at_{record.accepted + 1}"] += 1
        counts["stop_string"] += done.finish_reason == "stop_string"
        counts["ended_by_context"] += done.finish_reason == "context"
    return {name: n for name, n in sorted(counts.items()) if n}


def check_battery(
    spec: Mapping[str, Any],
    champion: Any,
    draft: Any | None,
    decoding: Mapping[str, Any],
    prompts: Sequence[Sequence[int]],
    free_tokens: int = FREE_TOKENS,
    most: int | None = None,
    method: str = "residual",
) -> Finding:
    """Every variant of every prompt on the arm ``spec``; at most ``most`` of them. ``method`` as in `Auditor`."""
    greedy = is_greedy(decoding)
    alone = build_arm({"name": BASELINE, "kind": BASELINE}, champion, None, decoding)
    stop_ids = tuple(champion.tokenizer.stop_ids)
    done: list[Completion] = []
    mismatches: list[dict[str, Any]] = []
    ran: Counter[str] = Counter()
    for number, prompt in enumerate(prompts):
        name = f"battery/{number}"
        request = Request(name, tuple(prompt), free_tokens, number, StopPolicy(stop_ids), name)
        copies = spec["kind"] not in DRAFT_ALONE and (spec["kind"] not in WITH_DRAFT or number % 2 == 1)
        if copies:  # something to copy: the prompt, its own continuation, and the prompt again
            said = alone.generate(request).tokens
            prompt = [*prompt, *(t for t in said if t not in stop_ids), *prompt]
            request = dataclasses.replace(request, prompt=tuple(prompt))
        free = alone.generate(request).tokens
        for variant in variants(name, prompt, free, champion.tokenizer, stop_ids):
            if most is not None and len(done) >= most:
                break
            model = champion if variant.context_limit is None else shortened(champion, variant.context_limit)
            arm = build_arm(dict(spec), model, draft, decoding)
            completion = arm.generate(variant.request)
            done.append(completion)
            ran[variant.way] += 1
            if greedy:
                found = _compare(variant, completion, free, champion)
            else:
                auditor = Auditor(model, draft, decoding, {arm.name: spec}, method)
                result = auditor.replay([from_completion(variant.request, arm.name, completion)])
                found = result.mismatches[0].body() if result.mismatches else None
            if found is not None:
                mismatches.append({**found, "way": variant.way})
    detail = {
        "arm": spec["name"],
        "variants": dict(ran),
        "event_classes": count_events(done),
        "mismatches": mismatches[:20],
        "mismatch_count": len(mismatches),
    }
    return Finding(
        "greedy_battery" if greedy else "battery", not mismatches and bool(done), len(done), "requests", detail
    )


def _compare(variant: Variant, completion: Completion, free: Sequence[int], champion: Any) -> dict[str, Any] | None:
    tokens, reason = expected(variant, free, champion.tokenizer, champion.engine.context_limit)
    if completion.tokens == tokens and completion.finish_reason == reason:
        return None
    return {
        "request_id": variant.request.request_id,
        **first_difference(completion.tokens, tokens),
        "reason": f"ended by {completion.finish_reason} after {len(completion.tokens)} tokens, "
        f"the champion by {reason} after {len(tokens)}",
    }
