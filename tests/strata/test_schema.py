"""Prompts: every spelling of a record becomes one canonical form, and the canonical form reads back."""

from __future__ import annotations

import json

import pytest
from draftgate.strata.errors import StrataError
from draftgate.strata.schema import Message, Prompt, from_record
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,20}", fullmatch=True)


@given(
    NAME,
    NAME,
    st.lists(TEXT, min_size=1, max_size=3),
    st.sampled_from(["open", "reserve"]),
    st.none() | st.integers(1, 1000),
    st.lists(NAME, max_size=3),
)
def test_the_canonical_record_reads_back_as_the_same_prompt(
    name: str, family: str, texts: list[str], split: str, limit: int | None, tags: list[str]
) -> None:
    prompt = from_record(
        {
            "id": name,
            "family_id": family,
            "stratum": "s",
            "turns": texts,
            "split": split,
            "max_new_tokens": limit,
            "tags": tags,
        }
    )
    assert from_record(json.loads(json.dumps(prompt.record()))) == prompt
    assert list(prompt.texts()) == texts


def test_prompt_messages_and_turns_say_the_same_thing() -> None:
    base = {"id": "a", "stratum": "s"}
    message = {"role": "user", "content": "Hi"}
    same = [
        from_record({**base, **content})
        for content in ({"prompt": "Hi"}, {"messages": [message]}, {"turns": ["Hi"]}, {"turns": [message]})
    ]
    assert all(prompt == same[0] for prompt in same)
    assert same[0].turns == ((Message("user", "Hi"),),)
    assert same[0].family_id == "a"


def test_raw_prompts_have_no_turns() -> None:
    prompt = from_record({"id": "a", "stratum": "s", "raw": "Once"})
    assert (prompt.turns, prompt.raw, list(prompt.texts())) == ((), "Once", ["Once"])


def test_a_check_belongs_to_the_last_answer_unless_it_names_a_turn() -> None:
    number = {"kind": "number", "value": 1}
    last = from_record({"id": "a", "stratum": "s", "turns": ["x", "y"], "check": number})
    first = from_record({"id": "a", "stratum": "s", "turns": ["x", "y"], "check": {**number, "turn": 0}})
    assert (last.check_for(0), last.check_for(1)) == (None, number)
    assert first.check_for(0) is not None and first.check_for(1) is None
    raw = from_record({"id": "a", "stratum": "s", "raw": "x", "check": number})
    assert raw.check_for(0) == number


def test_several_checks_become_one() -> None:
    checks = [{"kind": "number", "value": 1}, {"kind": "length", "unit": "words", "max": 3}]
    prompt = from_record({"id": "a", "stratum": "s", "prompt": "x", "checks": checks})
    assert prompt.check == {"kind": "all", "checks": checks}
    with pytest.raises(StrataError, match="together"):
        from_record({"id": "a", "stratum": "s", "prompt": "x", "checks": checks, "check": checks[0]})


def test_a_prompt_cannot_be_changed_after_it_was_made() -> None:
    prompt = from_record({"id": "a", "stratum": "s", "prompt": "x"})
    assert isinstance(prompt, Prompt)
    with pytest.raises(AttributeError):
        prompt.id = "b"  # type: ignore[misc]
