"""Processors against a plain reference, their order, their transactions, and the refusals by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from draftgate.arms import masses as law
from draftgate.arms import masses_definition as slow
from draftgate.arms.errors import ArmError
from draftgate.arms.processors import DEFAULTS, ORDER, ChainState, ProcessorChain
from hypothesis import given, settings
from hypothesis import strategies as st

V, STOP = 9, (8,)
tokens = st.lists(st.integers(0, V - 1), min_size=1, max_size=12)
decodings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.5, 1.0, 1.7]),
        "top_k": st.sampled_from([0, 3]),
        "top_p": st.sampled_from([1.0, 0.8]),
        "min_p": st.sampled_from([0.0, 0.05]),
        "repetition_penalty": st.sampled_from([1.0, 1.3, 0.8]),
        "frequency_penalty": st.sampled_from([0.0, 0.4]),
        "presence_penalty": st.sampled_from([0.0, -0.3, 0.6]),
        "logit_bias": st.sampled_from([{}, {"2": 1.5, 4: -2.0}]),
        "suppress": st.sampled_from([[], [5], [2, 5]]),
        "bad_words": st.sampled_from([[], [[1]], [[3, 4], [0, 0, 7]]]),
        "min_new_tokens": st.sampled_from([0, 2, 20]),
    }
)


def reference(
    decoding: dict[str, Any], prompt: list[int], emitted: list[int], row: npt.NDArray[np.float32]
) -> list[int]:
    """The declared order, one token at a time, in float32."""
    f, history = np.float32, prompt + emitted
    out = []
    for token in range(V):
        x, n = row[token], history.count(token)
        if n:
            r = f(decoding["repetition_penalty"])
            x = x / r if x > 0 else x * r
        x = x - f(decoding["frequency_penalty"]) * f(n)
        if n:
            x = x - f(decoding["presence_penalty"])
        for key, bias in decoding["logit_bias"].items():
            if int(key) == token:
                x = x + f(bias)
        banned = token in decoding["suppress"] or (token in STOP and len(emitted) < decoding["min_new_tokens"])
        for word in decoding["bad_words"]:
            before = history[len(history) - len(word) + 1 :] if len(word) > 1 else []
            banned |= word[-1] == token and before == word[:-1]
        out.append(f(-np.inf) if banned else x)
    processed = np.array(out, np.float32)
    cut = law.Truncation.of(decoding["top_k"], decoding["top_p"], decoding["min_p"])
    scale = law.scale_of(decoding["temperature"])
    return slow.truncated(slow.row(processed, scale), cut.top_k, cut.top_p, cut.min_p, cut.typical_p)


@given(decodings, tokens, st.lists(st.integers(0, V - 1), max_size=6), st.integers(0, 2**32))
@settings(max_examples=250, deadline=None)
def test_rows_follow_the_declared_order(
    decoding: dict[str, Any], prompt: list[int], emitted: list[int], seed: int
) -> None:
    row = (np.random.default_rng(seed).normal(size=V) * 2).astype(np.float32)
    state = ProcessorChain(decoding, V, STOP).open(prompt)
    for token in emitted:
        state.push(token)
    assert state.masses(row).tolist() == reference(decoding, prompt, emitted, row)


@given(decodings, tokens, st.lists(st.lists(st.integers(0, V - 1), max_size=4), max_size=5), st.data())
@settings(max_examples=150, deadline=None)
def test_rollback_leaves_no_trace(
    decoding: dict[str, Any], prompt: list[int], blocks: list[list[int]], data: Any
) -> None:
    chain = ProcessorChain(decoding, V, STOP)
    state, kept = chain.open(prompt), list[int]()
    row = np.linspace(-1, 1, V).astype(np.float32)
    for block in blocks:
        mark = state.mark()
        for token in block:
            state.push(token)
            state.masses(row)
        n = data.draw(st.integers(0, len(block)))
        state.rollback(mark + n)
        kept += block[:n]
        fresh = chain.open(prompt)
        for token in kept:
            fresh.push(token)
        assert state.fingerprint() == fresh.fingerprint()
        assert state.masses(row).tolist() == fresh.masses(row).tolist()


def test_fingerprint_tells_prompt_from_output() -> None:
    chain = ProcessorChain({"min_new_tokens": 2}, V, STOP)
    pushed = chain.open([1])
    pushed.push(2)
    assert pushed.fingerprint() != chain.open([1, 2]).fingerprint()


def test_greedy_ignores_truncation_and_temperature_zero_is_one_hot() -> None:
    chain = ProcessorChain({"temperature": 0.0, "typical_p": 0.1, "top_k": 2}, V)
    row = np.array([0, 1, 5, 5, 0, 0, 0, 0, 0], np.float32)
    state = chain.open([0])
    assert chain.greedy and state.argmax(row) == 2
    assert state.masses(row).tolist() == [0, 0, law.TOTAL] + [0] * 6


def test_edits_apply_to_greedy_choices_too() -> None:
    state = ProcessorChain({"suppress": [2], "logit_bias": {6: 9.0}}, V).open([0])
    assert state.argmax(np.array([0, 1, 5, 5, 0, 0, 0, 0, 0], np.float32)) == 6


def test_many_penalised_tokens_grow_the_table() -> None:
    chain = ProcessorChain({"temperature": 1.0, "frequency_penalty": 0.5}, 5000)
    state = chain.open(list(range(3000)))
    row = np.zeros(5000, np.float32)
    masses = state.masses(row)
    assert len({int(m) for m in masses[1:3000]}) == 1 and masses[4000] > masses[10]


@pytest.mark.parametrize(
    ("decoding", "words"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": 1e-9}, "0 is greedy"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_p": "0.9"}, "top_p"),
        ({"typical_p": 0}, "typical_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 2.5}, "top_k"),
        ({"min_new_tokens": -3}, "min_new_tokens"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"frequency_penalty": float("inf")}, "frequency_penalty"),
        ({"mirostat": 2}, "mirostat"),
        ({"suppress": [V]}, "suppress"),
        ({"suppress": [-1]}, "suppress"),
        ({"bad_words": [[]]}, "empty word"),
        ({"bad_words": [[1, 99]]}, "bad_words"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {3: float("-inf")}}, "suppress"),
        ({"logit_bias": {99: 1.0}}, "logit_bias"),
        ({"grammar": {"kind": "regex", "text": "a"}}, "grammar"),
    ],
)
def test_bad_settings_are_refused_by_name(decoding: dict[str, Any], words: str) -> None:
    with pytest.raises(ArmError, match=words):
        ProcessorChain(decoding, V, STOP)


def test_the_policy_text_holds_every_processor_in_order() -> None:
    text = ProcessorChain({"temperature": 0.5}, V).policy_text()
    assert [text.index(f'"{name}"') for name in ORDER] == sorted(text.index(f'"{name}"') for name in ORDER)
    assert set(ORDER) | {"stop_strings"} == set(DEFAULTS)


def test_a_row_that_everything_masks_is_an_error() -> None:
    state: ChainState = ProcessorChain({"suppress": list(range(V))}, V).open([1])
    with pytest.raises(law.NoValidToken):
        state.argmax(np.zeros(V, np.float32))
