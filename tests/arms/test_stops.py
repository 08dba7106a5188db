"""Where answers end."""

from __future__ import annotations

import pytest
from draftgate.arms.errors import ArmError
from draftgate.arms.request import StopPolicy
from draftgate.arms.stops import StopWatcher
from hypothesis import given, settings
from hypothesis import strategies as st
from support.letters import Letters, LettersDecoder

PIECES = [b"a", b"b", b"c", b"ab", b"bc", b"\xc3", b"\xa9", b"<end>"]
LETTERS = Letters(PIECES, (7,))


def watcher(*strings: str) -> StopWatcher:
    return StopWatcher(StopPolicy((7,), strings), lambda: LettersDecoder(LETTERS))


@given(
    st.lists(st.integers(0, 6), max_size=30), st.lists(st.text("abcé", min_size=1, max_size=4), min_size=1, max_size=3)
)
@settings(deadline=None)
def test_the_text_ends_before_the_first_stop_string_and_at_the_earliest_token(
    ids: list[int], strings: list[str]
) -> None:
    stops = watcher(*strings)
    for i, token in enumerate(ids):
        shown = stops.visible()
        ended = stops.ends(token)
        decoder = LettersDecoder(LETTERS)
        text = decoder.push(ids[: i + 1])  # complete code points only
        found = [at for at in (text.find(s) for s in strings) if at >= 0]
        assert ended == bool(found)
        assert stops.text.startswith(shown)  # what was shown is never taken back
        if ended:
            assert stops.text == text[: min(found)] and stops.reason == "stop_string"
            return
    assert stops.reason is None


def test_a_stop_string_across_three_tokens_is_found() -> None:
    stops = watcher("abcab")
    assert [stops.ends(t) for t in (2, 3, 2, 3)] == [False, False, False, True]
    assert stops.text == "c"


def test_text_that_may_begin_a_stop_string_is_held_back() -> None:
    stops = watcher("bca")
    stops.ends(0)
    assert stops.visible() == "a"
    stops.ends(1)
    assert stops.visible() == "a"
    stops.ends(1)
    assert stops.visible() == "ab"


def test_a_stop_token_ends_without_a_decoder() -> None:
    stops = StopWatcher(StopPolicy((7,)))
    assert not stops.ends(0)
    assert stops.ends(7) and stops.reason == "stop"


@pytest.mark.parametrize("strings", [("",), (3,)])
def test_useless_stop_strings_are_refused(strings: tuple[str, ...]) -> None:
    with pytest.raises(ArmError, match="stop string"):
        watcher(*strings)


def test_stop_strings_need_a_tokenizer() -> None:
    with pytest.raises(ArmError, match="tokenizer"):
        StopWatcher(StopPolicy((), ("x",)))
