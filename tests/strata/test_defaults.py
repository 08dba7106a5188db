"""Weights, designation and session lengths: complete, normalised, and in the plan's form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from draftgate.strata.defaults import DESIGNATED, MOST_DESIGNATED, WEIGHTS, weights
from draftgate.strata.load import names
from draftgate.strata.sessions import LENGTHS, session_length, session_lengths


def test_every_stratum_has_a_weight_and_a_session_length() -> None:
    assert set(WEIGHTS) == set(LENGTHS) == set(names())
    assert math.fsum(WEIGHTS.values()) == pytest.approx(1.0)
    assert min(WEIGHTS.values()) > 0


def test_at_most_four_strata_are_designated() -> None:
    assert len(DESIGNATED) <= MOST_DESIGNATED == 4
    assert set(DESIGNATED) <= set(names())


def test_weights_of_a_part_are_scaled() -> None:
    part = weights(["code", "summaries"])
    assert math.fsum(part.values()) == pytest.approx(1.0)
    assert part["code"] / part["summaries"] == pytest.approx(WEIGHTS["code"] / WEIGHTS["summaries"])
    assert weights(["mine"]) == {"mine": 1.0}


def test_session_lengths_are_the_plans_section() -> None:
    section = session_lengths(["code", "mine"])
    assert set(section) == {"code", "mine", "*"}
    assert section["mine"] == section["*"] == session_length("anything")
    for value in section.values():
        assert value["kind"] == "lognormal" and value["median"] > 0 and 0 < value["sigma"] < 2


def test_every_default_is_argued_for_and_spreads_as_its_document_says() -> None:
    for _, sigma, why in LENGTHS.values():
        assert len(why.split()) >= 8
        assert 0.5 <= sigma <= 1.5
    draws = np.random.default_rng(1).lognormal(0.0, 0.7, 200_000)
    assert np.mean((draws > 0.5) & (draws < 2)) == pytest.approx(2 / 3, abs=0.02)
    draws = np.random.default_rng(1).lognormal(0.0, 1.1, 200_000)
    assert np.mean((draws > 1 / 3) & (draws < 3)) == pytest.approx(2 / 3, abs=0.02)
