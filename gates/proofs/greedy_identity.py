"""Greedy identity: every arm's answer is champion-alone's, token for token, its end included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...arms.build import build_arm
from ...arms.kinds import BASELINE
from ...arms.request import Request, StopPolicy
from ..private_outputs import first_difference
from .battery import count_events
from .finding import Finding

ALONE = {"name": BASELINE, "kind": BASELINE}


def check_greedy_identity(
    specs: Sequence[Mapping[str, Any]],
    champion: Any,
    draft: Any | None,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    decoding: Mapping[str, Any] | None = None,
) -> Finding:
    """Each arm of ``specs`` on each prompt against champion-alone, up to ``tokens`` new tokens."""
    settings = {**(decoding or {}), "temperature": 0.0}
    stop = StopPolicy(tuple(champion.tokenizer.stop_ids))
    alone = build_arm(ALONE, champion, None, settings)
    arms = [build_arm(dict(spec), champion, draft, settings) for spec in specs]
    mismatches, completions, compared = [], [], 0
    ends: Counter[str] = Counter()
    for number, prompt in enumerate(prompts):
        request = Request(f"identity/{number}", tuple(prompt), tokens, number, stop, "identity")
        own = alone.generate(request)
        ends[own.finish_reason] += 1
        for arm in arms:
            done = arm.generate(request)
            completions.append(done)
            compared += len(own.tokens)
            if (done.tokens, done.finish_reason) != (own.tokens, own.finish_reason):
                mismatches.append(
                    {
                        "request_id": request.request_id,
                        "arm": arm.name,
                        **first_difference(done.tokens, own.tokens),
                        "reason": f"ended by {done.finish_reason}, champion-alone by {own.finish_reason}",
                    }
                )
    detail = {
        "arms": [str(s["name"]) for s in specs],
        "prompts": len(prompts),
        "upper_bound": 3 / max(1, len(prompts)),
        "event_classes": count_events(completions),
        "ends": dict(ends),
        "mismatches": mismatches[:20],
        "mismatch_count": len(mismatches),
    }
    return Finding("greedy_identity", not mismatches and compared > 0, compared, "tokens compared", detail)
