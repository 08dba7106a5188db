"""Weights and designation of the strata that ship, as a plan takes them when it says nothing else.

Weights are the shares of requests in the mix that a general assistant is assumed to meet; they are the project's own
assumption, sum to 1, and belong in the plan, where they can be replaced by a log's. Four strata are designated: they
have forty prompts, so that each can carry a confirmatory claim by itself. The adversarial stratum has a small weight
because the gate that matters there, no regression, looks at every stratum alone.
"""

from __future__ import annotations

WEIGHTS: dict[str, float] = {
    "casual_chat": 0.18,
    "ambiguous_requests": 0.05,
    "source_conflict": 0.04,
    "current_preference": 0.05,
    "distrust_of_memory": 0.04,
    "summaries": 0.12,
    "rewrites": 0.09,
    "structured_json": 0.10,
    "extraction": 0.07,
    "code": 0.11,
    "repetitive_text": 0.03,
    "multilingual": 0.06,
    "long_context": 0.04,
    "adversarial": 0.02,
}
DESIGNATED = ("casual_chat", "code", "structured_json", "summaries")
MOST_DESIGNATED = 4


def weights(strata: list[str]) -> dict[str, float]:
    """Default weights of some strata, scaled to sum to 1; a stratum that does not ship counts as the average one."""
    raw = {name: WEIGHTS.get(name, 1 / len(WEIGHTS)) for name in strata}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}
