"""Lookup against a rescan of the whole context, and its cost."""

from __future__ import annotations

from typing import Any

import pytest
from draftgate.arms.errors import ArmError
from draftgate.arms.prompt_lookup import NgramIndex, PromptLookup, copied, lookup_settings
from hypothesis import given, settings
from hypothesis import strategies as st


def rescan(context: list[int], low: int, high: int) -> tuple[int, int]:
    """Longest suffix first, most recent earlier occurrence: the definition."""
    for n in range(high, low - 1, -1):
        suffix = context[len(context) - n :]
        for end in range(len(context) - 1, n - 1, -1):
            if n <= len(context) and context[end - n : end] == suffix:
                return n, end
    return 0, 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 3), st.integers(0, 3), st.data())
@settings(deadline=None)
def test_the_index_finds_what_a_rescan_finds(tokens: list[int], low: int, more: int, data: Any) -> None:
    index, at = NgramIndex(low, low + more), 0
    while at < len(tokens):
        at += data.draw(st.integers(1, 5))
        context = tokens[:at]
        index.extend(context)
        assert index.longest(context) == rescan(context, low, low + more)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=20), st.integers(1, 30), st.data())
@settings(deadline=None)
def test_a_copy_past_the_end_reads_itself(context: list[int], k: int, data: Any) -> None:
    begin = data.draw(st.integers(1, len(context) - 1))
    whole = list(context)
    for i in range(k):
        whole.append(whole[begin + i])
    assert copied(context, begin, k, frozenset()) == whole[len(context) :]


def test_a_copy_ends_after_a_stop_token() -> None:
    assert copied([5, 7, 0, 3, 5], 1, 4, frozenset({0})) == [7, 0]


def test_nothing_is_proposed_without_a_match() -> None:
    proposer = PromptLookup(4, 2, 3, frozenset())
    proposer.prefill([1, 2, 3])
    assert proposer.propose([1, 2, 3], 4, None).tokens == []
    assert proposer.propose([1, 2, 3, 1, 2], 4, None).tokens == [3, 1, 2, 3]
    assert proposer.propose([1, 2, 3, 1, 2], 1, None).tokens == [3]


def test_proposing_does_not_look_at_the_whole_context_again() -> None:
    reads = 0

    class Counting(list):  # type: ignore[type-arg]
        def __getitem__(self, at: Any) -> Any:
            nonlocal reads
            reads += 1
            return super().__getitem__(at)

    proposer = PromptLookup(5, 2, 4, frozenset())
    context = Counting(i % 50 for i in range(4000))
    proposer.prefill(context)
    reads = 0
    for token in range(10):
        context.append(token)
        proposer.propose(context, 5, None)
    assert reads < 10 * 30


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"k": 0}, "k must be"),
        ({"k": "5"}, "k must be"),
        ({"min_ngram": 0}, "min_ngram"),
        ({"max_ngram": True}, "max_ngram"),
        ({"min_ngram": 5, "max_ngram": 3}, "above max_ngram"),
    ],
)
def test_bad_settings_are_refused_by_name(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ArmError, match=words):
        lookup_settings(spec)
