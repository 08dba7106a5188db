"""Rows recomputed from the tokens agree with the shipped incremental processors after any pushes and rollbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
from draftgate.arms.processors import ProcessorChain
from draftgate.gates.proofs.history import law_after
from hypothesis import given, settings
from hypothesis import strategies as st

V = 7
tokens = st.integers(0, V - 1)
decodings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.7, 1.0]),
        "top_k": st.sampled_from([0, 3]),
        "top_p": st.sampled_from([1.0, 0.8]),
        "repetition_penalty": st.sampled_from([1.0, 1.3, 0.7]),
        "frequency_penalty": st.sampled_from([0.0, 0.4, -0.3]),
        "presence_penalty": st.sampled_from([0.0, 0.6]),
        "logit_bias": st.sampled_from([{}, {"2": 1.5, "4": -3.0}]),
        "suppress": st.sampled_from([[], [1]]),
        "bad_words": st.sampled_from([[], [[3], [2, 5]], [[0, 0, 6]]]),
        "min_new_tokens": st.sampled_from([0, 2]),
    }
)


prompts = st.lists(tokens, min_size=1, max_size=6)
bursts = st.lists(st.lists(tokens, max_size=3), max_size=4)


@settings(max_examples=200, deadline=None)
@given(decodings, prompts, bursts, st.data())
def test_any_sequence_of_pushes_and_rollbacks_agrees_with_a_fresh_count(
    decoding: dict[str, Any], prompt: list[int], bursts: list[list[int]], data: st.DataObject
) -> None:
    state = ProcessorChain(decoding, V, stop_ids=(6,)).open(prompt)
    new: list[int] = []
    logits = np.random.default_rng(len(prompt)).normal(size=V).astype(np.float32) * 2
    for burst in bursts:
        mark = state.mark()
        for token in burst:
            state.push(token)
        keep = data.draw(st.integers(0, len(burst)))
        state.rollback(mark + keep)
        new += burst[:keep]
        np.testing.assert_array_equal(state.masses(logits), law_after(logits, decoding, prompt, new, (6,)))
