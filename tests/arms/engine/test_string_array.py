"""Strings kept as bytes behave as the list of them."""

from __future__ import annotations

import struct
from array import array

import pytest
from draftgate.arms.engine.string_array import StringArray
from hypothesis import given
from hypothesis import strategies as st


def packed(strings: list[str]) -> StringArray:
    raw, ends = b"", array("Q")
    for text in strings:
        raw += struct.pack("<Q", len(text.encode())) + text.encode()
        ends.append(len(raw))
    return StringArray(raw, ends)


@given(st.lists(st.text(max_size=5), max_size=8), st.integers(-10, 10), st.integers(-10, 10))
def test_it_reads_as_a_list(strings: list[str], a: int, b: int) -> None:
    made = packed(strings)
    assert list(made) == strings and len(made) == len(strings)
    assert made == strings and made == packed(strings) and not (made != tuple(strings))
    assert made[a:b] == strings[a:b] and made[::-1] == strings[::-1]
    if -len(strings) <= a < len(strings):
        assert made[a] == strings[a]
    else:
        with pytest.raises(IndexError):
            made[a]
    if strings:
        assert strings[-1] in made and made.index(strings[-1]) == strings.index(strings[-1])


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_it_is_equal_to_the_same_strings_only(ours: list[str], theirs: list[str]) -> None:
    assert (packed(ours) == theirs) == (ours == theirs)
    assert (packed(ours) == packed(theirs)) == (ours == theirs)
    assert packed(ours) != "".join(ours) and packed(ours) != 1
