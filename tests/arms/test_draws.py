"""Counter-based draws: the published generator, unbiased integers, and no counter used twice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from draftgate.arms import _sampling
from draftgate.arms.draws import (
    DOMAINS,
    CounterReused,
    PhiloxDraws,
    bounded_reference,
    key_of,
    philox_reference,
)
from hypothesis import given, settings
from hypothesis import strategies as st

word = st.integers(0, 2**32 - 1)
long_word = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [  # known answers published with the generator
        (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (2**64 - 1, (2**32 - 1,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0_A4093822,
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_has_the_published_answers(key: int, counter: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert philox_reference(key, counter) == expected  # type: ignore[arg-type]
    assert _sampling.philox(key, *counter) == expected


@given(long_word, word, word, word, st.one_of(st.integers(1, 2**64 - 1), st.integers(1, 9)))
@settings(max_examples=400, deadline=None)
def test_native_and_plain_python_draw_the_same(key: int, domain: int, round: int, position: int, n: int) -> None:
    drawn = _sampling.bounded(key, domain, round, position, n)
    assert drawn == bounded_reference(key, domain, round, position, n)
    assert 1 <= drawn[0] <= n


def test_rejection_happens_and_is_counted() -> None:
    n = 2**63 + 1  # half of all words are rejected
    tries = [_sampling.bounded(3, 0, 0, position, n)[1] for position in range(200)]
    assert max(tries) > 3 and 1.5 < np.mean(tries) < 2.6


def test_small_ranges_are_even() -> None:
    counts = Counter(PhiloxDraws(1, "even", round).uniform(6, "pit", 0) for round in range(30_000))
    chi2 = sum((c - 5000) ** 2 / 5000 for c in counts.values())
    assert len(counts) == 6 and chi2 < 30  # 5 degrees of freedom: beyond the 0.99998 quantile


def test_accept_has_the_exact_probability() -> None:
    accepted = sum(PhiloxDraws(2, "a", round).accept(3, 8, 0) for round in range(20_000))
    assert abs(accepted - 7500) < 5 * (20_000 * 3 / 8 * 5 / 8) ** 0.5
    draws = PhiloxDraws(2, "edge", 0)
    assert not any(draws.accept(0, 1, position) for position in range(500))  # q = 0 is always rejected
    assert all(draws.accept(7, 7, position) for position in range(500))  # q >= p is never rejected
    assert all(draws.accept(9, 7, position) for position in range(500))


def test_categorical_respects_masses_and_totals() -> None:
    masses = np.array([0, 5, 0, 15, 0], np.uint64)
    drawn = Counter(PhiloxDraws(3, "c", r).categorical(masses, "draft_sample", 0, 20) for r in range(8000))
    assert set(drawn) == {1, 3} and abs(drawn[3] - 6000) < 5 * (8000 * 0.1875) ** 0.5


def test_draws_depend_on_every_coordinate_and_on_nothing_else() -> None:
    def word_of(seed: int, stream: str, round: int, domain: str, position: int) -> int:
        return PhiloxDraws(seed, stream, round).uniform(2**48, domain, position)

    base = word_of(1, "s", 2, "accept_uniform", 3)
    others = [
        word_of(2, "s", 2, "accept_uniform", 3),
        word_of(1, "t", 2, "accept_uniform", 3),
        word_of(1, "s", 3, "accept_uniform", 3),
        word_of(1, "s", 2, "correction_sample", 3),
        word_of(1, "s", 2, "accept_uniform", 4),
    ]
    assert len({base, *others}) == 6
    busy = PhiloxDraws(1, "s", 2)
    for position in range(10):
        busy.uniform(7, "draft_sample", position)
    assert busy.uniform(2**48, "accept_uniform", 3) == base


def test_a_counter_used_twice_is_noticed_in_assertion_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhiloxDraws, "used", set())
    draws = PhiloxDraws(1, "s", 0)
    draws.uniform(5, "pit", 0)
    draws.uniform(5, "pit", 1)
    with pytest.raises(CounterReused, match="pit, round 0, position 0"):
        PhiloxDraws(1, "s", 0).uniform(6, "pit", 0)


def test_domains_are_fixed_numbers() -> None:
    assert list(DOMAINS.values()) == list(range(len(DOMAINS)))
    with pytest.raises(KeyError):
        PhiloxDraws(0, "", 0).uniform(2, "no_such_domain", 0)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_is_an_unsigned_64_bit_number(seed: int) -> None:
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        key_of(seed, "")


def test_a_draw_from_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        PhiloxDraws(0, "", 0).uniform(0, "pit", 0)
