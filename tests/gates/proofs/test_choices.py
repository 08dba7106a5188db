"""The tree walk visits every path once, with probabilities that sum to exactly one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from draftgate.gates.proofs.choices import Choices, TreeTooLarge, outcomes
from hypothesis import given, settings
from hypothesis import strategies as st


def rows(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 7), min_size=size, max_size=size).filter(lambda r: sum(r) > 0)


@settings(deadline=None)
@given(rows(3), rows(3))
def test_probabilities_of_two_dependent_draws_are_the_product_law(first: list[int], second: list[int]) -> None:
    def procedure(draws: Choices) -> tuple[int, int]:
        x = draws.categorical(np.array(first, np.uint64), "a", 0)
        return x, draws.categorical(np.array(second if x else first, np.uint64), "b", 1)

    law: dict[tuple[int, int], Fraction] = {}
    for outcome in outcomes(procedure):
        assert outcome.result not in law, "a path was visited twice"
        law[outcome.result] = outcome.probability
    assert sum(law.values()) == 1
    for (x, y), probability in law.items():
        row = second if x else first
        assert probability == Fraction(first[x], sum(first)) * Fraction(row[y], sum(row))


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(1, 50))
def test_acceptance_has_probability_min_one_q_over_p(q: int, p: int) -> None:
    law = {o.result: o.probability for o in outcomes(lambda draws: draws.accept(q, p, 0))}
    assert law.get(True, 0) == min(Fraction(1), Fraction(q, p))
    assert sum(law.values()) == 1
    assert all(probability > 0 for probability in law.values())


def test_a_row_without_mass_cannot_be_drawn_from() -> None:
    with pytest.raises(ZeroDivisionError):
        list(outcomes(lambda draws: draws.categorical(np.zeros(3, np.uint64), "a", 0)))


def test_a_tree_past_the_limit_is_an_error_not_a_sample() -> None:
    flat = np.ones(4, np.uint64)
    with pytest.raises(TreeTooLarge):
        list(outcomes(lambda draws: [draws.categorical(flat, "a", i) for i in range(3)], limit=63))
    assert len(list(outcomes(lambda draws: [draws.categorical(flat, "a", i) for i in range(3)], limit=64))) == 64
