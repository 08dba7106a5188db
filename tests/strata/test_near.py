"""Near duplicates: the sketches agree with brute force, and copies are found in any crowd."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from draftgate.strata.near import SHINGLE_WORDS, near_duplicates, similarity, sketch
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.lists(st.sampled_from("a b c d e f".split()), max_size=30).map(" ".join)


def exact(a: str, b: str) -> float:
    def runs(text: str) -> set[tuple[str, ...]]:
        sequence = text.split()
        n = min(SHINGLE_WORDS, len(sequence))
        return {tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)} if n else set()

    x, y = runs(a), runs(b)
    return len(x & y) / len(x | y) if x and y else 0.0


@given(TEXT, TEXT)
def test_similarity_is_exact_for_short_texts(a: str, b: str) -> None:
    assert abs(similarity(sketch(a), sketch(b)) - exact(a, b)) < 1e-12


@given(st.lists(TEXT, max_size=12), st.sampled_from([0.3, 0.6, 0.9]))
def test_pairs_are_those_of_brute_force(texts: list[str], threshold: float) -> None:
    found = {(p.first, p.second) for p in near_duplicates([sketch(t) for t in texts], threshold)}
    expected = {(i, j) for i, j in combinations(range(len(texts)), 2) if exact(texts[i], texts[j]) >= threshold}
    assert found == expected


def test_long_texts_are_estimated_within_the_stated_error() -> None:
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(60):
        base = [f"w{n}" for n in rng.integers(0, 100_000, 600)]
        other = list(base)
        other[rng.integers(100, 500) :] = [f"v{n}" for n in rng.integers(0, 100_000, 300)]
        a, b = " ".join(base), " ".join(other)
        errors.append(similarity(sketch(a), sketch(b)) - exact(a, b))
    assert float(np.std(errors)) < 0.06
    assert abs(float(np.mean(errors))) < 0.03


def test_a_copy_is_found_among_many_and_boilerplate_is_no_copy() -> None:
    crowd = [
        f"Please answer politely and in full: what does item {i} cost in shop {i * 7} on day {i % 31}?"
        for i in range(500)
    ]
    crowd.append(crowd[123].upper())
    pairs = near_duplicates([sketch(t) for t in crowd], 0.95)
    assert [(p.first, p.second) for p in pairs] == [(123, 500)]


def test_a_thousand_copies_are_linked_in_time_that_is_not_quadratic() -> None:
    sketches = [sketch("the same prompt over and over again, word for word")] * 3000
    pairs = near_duplicates(sketches, 0.9)
    linked = {p.first for p in pairs} | {p.second for p in pairs}
    assert len(linked) == 3000
    assert len(pairs) < 10_000
