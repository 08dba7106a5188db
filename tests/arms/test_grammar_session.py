"""Grammars inside a request: legal text in every arm, forced tokens without a draw, dead ends by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from draftgate.arms.draws import PhiloxDraws
from draftgate.arms.grammar import Grammar
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arms_kit import Kit, checked_run
from support.letters import Letters
from support.toy import hashed_logits

V, STOP = 6, 0
LETTERS = Letters([b"<end>", b"b", b"c", b"d", b"e", b"f"], (STOP,))
PATTERNS = ["(bc|bd)+e", "b(c|d)f?", "bcdef", "[b-f]{3}", "(b|cd)*ef"]


def kit(pattern: str, seed: int, k: int = 3, **decoding: Any) -> Kit:
    spec = {"kind": "regex", "text": pattern}
    made = Kit(
        {"grammar": spec, **decoding},
        vocabulary=V,
        champion=hashed_logits(V, seed),
        draft=hashed_logits(V, seed, 1.5, 2),
        k=k,
        grammar=Grammar(spec, LETTERS, V, (STOP,)),
    )
    made.letters = LETTERS
    return made


@given(st.sampled_from(PATTERNS), st.integers(0, 10**6), st.integers(0, 4), st.sampled_from([0.0, 1.0]))
@settings(max_examples=80, deadline=None)
def test_every_arm_speaks_the_grammar_and_rolls_it_back(pattern: str, seed: int, k: int, temperature: float) -> None:
    made = kit(pattern, seed, k, temperature=temperature)
    request = made.request((3, 3, 2), 40, seed)
    texts = []
    for arm in (made.alone(), made.lookup(), made.neural()):
        session = checked_run(arm.open(request))
        assert session.failure is None
        if session.finish == "stop":
            assert re.fullmatch(pattern, LETTERS.decode(session.emitted))
        texts.append((session.emitted, session.finish))
    if not temperature:
        assert texts[0] == texts[1] == texts[2]


def test_forced_tokens_are_appended_without_a_draw_and_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhiloxDraws, "used", set())
    made = kit("bcdef", 1, temperature=1.0)
    for arm in (made.alone(), made.neural(), made.lookup()):
        made.engine.calls = 0
        completion = arm.generate(made.request((3, 2), 40))
        assert completion.tokens == [1, 2, 3, 4, 5, STOP] and completion.finish_reason == "stop"
        assert completion.counters["forced_tokens"] == 6 == sum(r.forced for r in completion.rounds)
        assert sum(r.proposed for r in completion.rounds) == 0
    assert PhiloxDraws.used == set()


def test_forced_tokens_go_through_the_champion() -> None:
    made = kit("bcd[b-f]", 2)
    session = checked_run(made.neural().open(made.request((3, 2), 40)))
    assert session.emitted[:3] == [1, 2, 3] and len(session.emitted) == 5
    assert session.cache.length >= len(session.context) - 1


def test_the_length_limit_counts_forced_tokens() -> None:
    made = kit("bcdef", 3)
    completion = made.neural().generate(made.request((3, 2), 3))
    assert completion.tokens == [1, 2, 3] and completion.finish_reason == "length"


def test_a_dead_end_is_a_named_failure() -> None:
    spec = {"kind": "regex", "text": "b[cd]"}
    made = Kit(
        {"grammar": spec, "suppress": [2, 3]},
        vocabulary=V,
        grammar=Grammar(spec, LETTERS, V, (STOP,)),
        stop_ids=(STOP,),
    )
    for arm in (made.alone(), made.neural(), made.lookup()):
        completion = arm.generate(made.request((3, 2), 9))
        assert completion.failure == "grammar_dead_end" and completion.finish_reason == "error"
