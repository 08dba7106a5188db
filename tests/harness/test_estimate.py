"""What `check` adds to the requests' own time: audits, shadow replay of drafts, scoring of sampled answers."""

from __future__ import annotations

from typing import Any

import pytest
from draftgate.harness.estimate import AUDITED_TOKENS, off_clock_seconds


def plan(temperature: float, *kinds: str, shadow_k: int = 5, score_tokens: int = 2000) -> dict[str, Any]:
    return {
        "measurement": {"shadow_k": shadow_k, "score_tokens": score_tokens},
        "arms": [{"kind": kind} for kind in kinds],
        "decoding": {"temperature": temperature},
    }


def test_audits_always_count_scores_where_answers_are_sampled_and_shadows_where_a_draft_is_fed() -> None:
    tokens, prompts, prefill_s, token_s = 10_000, 500, 0.001, 0.004
    audits = AUDITED_TOKENS * token_s
    for said, more in (
        (plan(0, "champion_alone", "prompt_lookup"), 0.0),
        (plan(0, "neural_draft", "hybrid"), 2 * prompts * prefill_s),
        (plan(0, "neural_draft", shadow_k=0), 0.0),
        (plan(0.7, "prompt_lookup"), 2 * 2000 * token_s),
        (plan(0.7, "prompt_lookup", score_tokens=10**6), 2 * tokens * token_s),
    ):
        assert off_clock_seconds(said, tokens, prompts, prefill_s, token_s) == pytest.approx(audits + more)
