"""The auditor's law and the shipped one agree to the bit; neither shares code with the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from draftgate.arms import draws, masses
from draftgate.gates.proofs import law
from hypothesis import given, settings
from hypothesis import strategies as st

decodings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.2, 0.7, 1.0, 1.3, 5.0]),
        "top_k": st.sampled_from([0, 0, 1, 2, 5]),
        "top_p": st.sampled_from([1.0, 1.0, 0.9, 0.5, 1e-6]),
        "min_p": st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0]),
        "typical_p": st.sampled_from([1.0, 1.0, 0.8, 0.2]),
    }
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3, 7, 40, 300]), st.sampled_from([0.1, 2.0, 20.0]), decodings)
def test_rows_agree_to_the_bit(seed: int, size: int, spread: float, decoding: dict[str, float]) -> None:
    rng = np.random.default_rng(seed)
    logits = (
        np.round(rng.normal(size=size) * spread, 1) + rng.choice([0, -200, -np.inf], size, p=[0.9, 0.05, 0.05])
    ).astype(np.float32)
    logits[rng.integers(size)] = 0.5
    mine = law.masses_of(logits, decoding)
    cut = masses.Truncation.of(int(decoding["top_k"]), decoding["top_p"], decoding["min_p"], decoding["typical_p"])
    shipped, _ = masses.row(logits, masses.scale_of(decoding["temperature"]), cut)
    np.testing.assert_array_equal(mine, shipped)
    assert int(mine.sum()) == 2**48


def test_a_row_of_a_real_vocabulary_agrees_to_the_bit() -> None:
    logits = np.random.default_rng(1).normal(size=49_152).astype(np.float32) * 4
    np.testing.assert_array_equal(law.masses_of(logits, {}), masses.row(logits, masses.scale_of(1.0))[0])


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.text(max_size=8), st.integers(1, 2**63), st.integers(0, 2**32 - 1))
def test_draws_agree(seed: int, stream: str, n: int, round: int) -> None:
    for domain in ("draft_sample", "accept_uniform", "correction_sample", "target_extra", "pit"):
        mine = law.Chance(seed, stream).uniform(n, domain, round, 3)
        assert mine == draws.PhiloxDraws(seed, stream, round).uniform(n, domain, 3)
        assert 1 <= mine <= n


def test_philox_gives_the_published_vectors() -> None:
    """Known-answer vectors of the Random123 distribution for philox4x32-10."""
    assert law.philox(0, (0, 0, 0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 0xFFFFFFFF
    assert law.philox((ones << 32) | ones, (ones,) * 4) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert law.philox((0x299F31D0 << 32) | 0xA4093822, pi) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any))
def test_every_integer_of_a_row_falls_on_its_token(values: list[int]) -> None:
    row = np.array(values, np.uint64)
    hits = [law.token_at(row, r) for r in range(1, sum(values) + 1)]
    assert [hits.count(x) for x in range(len(values))] == values
    for outside in (0, sum(values) + 1):
        with pytest.raises(law.LawError):
            law.token_at(row, outside)


def test_rows_without_a_distribution_are_refused() -> None:
    for bad in ([math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]):
        with pytest.raises(law.LawError):
            law.masses_of(np.array(bad, np.float32), {})
