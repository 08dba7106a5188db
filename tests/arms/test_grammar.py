"""Grammars as masks: what is allowed, refusals by name, dead ends, and rollback against a fresh state."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from draftgate.arms.grammar import Grammar, GrammarError, GrammarState
from draftgate.arms.masses import NoValidToken
from draftgate.arms.processors import ProcessorChain
from support.letters import Letters

PIECES = [bytes([c]) for c in b'abcdxyz0123456789{}[]":, '] + [b"ab", b'{"', b'":', b"true", b"<end>"]
STOP = len(PIECES) - 1
TEXTS = Letters(PIECES, (STOP,))
V = len(PIECES)
A, B, C, D = range(4)


def regex(text: str) -> Grammar:
    return Grammar({"kind": "regex", "text": text}, TEXTS, V, (STOP,))


def allowed(state: GrammarState) -> list[int]:
    found = state.allowed(limit=V)
    assert found is not None
    return found


def test_masks_follow_the_grammar() -> None:
    state = regex("ab(c|d)?").open()
    assert allowed(state) == [A, TEXTS.encode("ab")[0]]
    state.push(A)
    assert allowed(state) == [B]
    state.push(B)
    assert allowed(state) == [C, D, STOP]
    state.push(C)
    assert allowed(state) == [STOP]


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "regex", "text": "[ab]*(c|dd)x?"},
        {"kind": "lark", "text": 'start: "a" start "b" | "c"'},
        {"kind": "json_schema", "text": json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})},
    ],
)
def test_rollback_equals_a_fresh_state_after_every_block(spec: dict[str, str]) -> None:
    grammar, rng = Grammar(spec, TEXTS, V, (STOP,)), random.Random(0)
    for _ in range(25):
        state = grammar.open()
        kept: list[int] = []
        for _ in range(12):
            drawn: list[int] = []
            for _ in range(rng.randrange(1, 5)):
                choices = [t for t in allowed(state) if t != STOP]
                if not choices:
                    break  # the library has stopped by itself: the case that must roll back cleanly
                drawn.append(rng.choice(choices))
                state.push(drawn[-1])
            n = rng.randrange(len(drawn) + 1)
            state.rollback(len(drawn) - n)
            kept += drawn[:n]
            fresh = grammar.open()
            for token in kept:
                fresh.push(token)
            assert state.state() == fresh.state()


def test_a_forbidden_token_leaves_the_state_as_it_was() -> None:
    state = regex("ab").open()
    before = state.state()
    for token in (B, STOP):
        with pytest.raises(GrammarError, match="forbids"):
            state.push(token)
    assert state.state() == before
    state.push(A)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"kind": "regex", "text": "ab("}, "regex grammar does not compile"),
        ({"kind": "lark", "text": "start: nothing"}, "lark grammar does not compile"),
        ({"kind": "json_schema", "text": "{"}, "json_schema grammar does not compile"),
        ({"kind": "json_schema", "text": json.dumps({"type": "banana"})}, "json_schema grammar does not compile"),
        ({"kind": "gbnf", "text": ""}, "kind"),
        ({"kind": "regex"}, "kind"),
        ({"kind": "regex", "text": "a", "flags": 1}, "nothing else"),
    ],
)
def test_a_grammar_that_does_not_compile_is_refused_by_name(spec: dict[str, str], words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        Grammar(spec, TEXTS, V, (STOP,))


def test_a_grammar_needs_a_stop_token() -> None:
    with pytest.raises(GrammarError, match="stop token"):
        Grammar({"kind": "regex", "text": "a"}, TEXTS, V, ())


def test_only_a_single_token_left_by_every_processor_is_forced() -> None:
    spec = {"kind": "regex", "text": "a(b|c)"}
    decoding = {"temperature": 1.0, "grammar": spec, "suppress": [C]}
    state = ProcessorChain(decoding, V, (STOP,), Grammar(spec, TEXTS, V, (STOP,))).open([D])
    assert state.forced() is None  # "a" and the token "ab" are both allowed: forced bytes are no forced token
    state.push(A)
    assert state.forced() == B  # c is suppressed
    state.push(B)
    assert state.forced() == STOP
    mark = state.mark()
    state.push(STOP)
    state.rollback(mark)
    assert state.forced() == STOP


def test_suppressing_what_the_grammar_needs_is_a_dead_end() -> None:
    spec = {"kind": "regex", "text": "ac"}
    decoding = {"grammar": spec, "suppress": [C]}
    state = ProcessorChain(decoding, V, (STOP,), Grammar(spec, TEXTS, V, (STOP,))).open([D])
    state.push(A)
    assert state.forced() is None
    with pytest.raises(NoValidToken):
        state.argmax(np.zeros(V, np.float32))


def test_the_vocabulary_cannot_spell_it() -> None:
    with pytest.raises(GrammarError):
        state = regex("q").open()
        state.mask()


def test_a_regex_with_slashes_and_quotes_compiles() -> None:
    assert allowed(regex(r'["]a/b|/x').open()) != []


def test_lark_options_are_ours_to_set() -> None:
    with pytest.raises(GrammarError, match="%llguidance"):
        Grammar({"kind": "lark", "text": '%llguidance {}\nstart: "a"'}, TEXTS, V, (STOP,))
