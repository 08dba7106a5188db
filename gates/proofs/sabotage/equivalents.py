"""Variants that are as exact as the shipped rounds: the battery must let them pass.

A variant that draws otherwise declares so, as a plan would: the auditor's interpreter knows sampler-match by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....arms import speculation
from ....arms.round import Decision
from .fault import Fault, wrap
from .world import GREEDY, STOCHASTIC

GROUP = "equivalent"


def sampler_match(original: Any) -> Any:
    """The champion draws its own token at every row and keeps going while the proposal is that token."""

    def round(proposal: Any, champion: Any, draws: Any, stops: Any, remaining: int) -> Decision:
        champion.verify(proposal.tokens)
        emitted: list[int] = []
        for i, proposed in enumerate(proposal.tokens):
            emitted.append(int(draws.categorical(champion.masses(i), "target_baseline", i)))
            ends = stops.ends(emitted[-1])
            if emitted[-1] != proposed:
                return Decision(emitted, i, i + 1, "rejected", ends)
            if ends:
                return Decision(emitted, i + 1, i + 1, "stop", ends)
            if len(emitted) == remaining:
                return Decision(emitted, i + 1, i + 1, "length", ends)
        count = len(proposal.tokens)
        emitted.append(speculation.bonus(champion.masses(count), draws))
        return Decision(emitted, count, count, "accepted_all", stops.ends(emitted[-1]))

    return round


def _nothing(original: Any) -> Any:
    """The round as it is, under another name, so that planting has something to do."""

    def round(*args: Any) -> Any:
        return original(*args)

    return round


_LOOKUP = {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 3, "min_ngram": 1, "max_ngram": 3}
_UNSURE = {**STOCHASTIC.spec, "policy": {"kind": "confidence", "threshold": 0.55}}
_MATCHED = replace(STOCHASTIC, name="sampler-match", method="sampler-match")
AS_IT_IS = wrap(speculation, "stochastic_round", _nothing)

EQUIVALENTS = [
    Fault("sampler-match", GROUP, (_MATCHED,), wrap(speculation, "stochastic_round", sampler_match)),
    Fault("deterministic proposer, one-hot p", GROUP, (replace(STOCHASTIC, name="one-hot", spec=_LOOKUP),), AS_IT_IS),
    Fault("stop proposing after a kept token", GROUP, (replace(STOCHASTIC, name="unsure", spec=_UNSURE),), AS_IT_IS),
    Fault("shipped, greedy", GROUP, (GREEDY,), AS_IT_IS),
    Fault("shipped, stochastic", GROUP, (STOCHASTIC,), AS_IT_IS),
]
