"""A patch applies exactly where it says, or planting fails; and everything is put back."""

from __future__ import annotations

import pytest
from draftgate.gates.proofs import family, scores
from draftgate.gates.proofs.sabotage.patch import PatchDidNotApply, patched, planted


def sample(a: int, b: int) -> int:
    total = a + b
    if total > 3:
        total = total * 2
    return total


def test_an_expression_and_a_run_of_statements_are_exchanged() -> None:
    assert patched(sample, ("a + b", "a - b"))(5, 1) == 8
    assert patched(sample, ("total = total * 2", "total += 1\ntotal += 1"))(2, 2) == 6
    assert patched(sample, ("total = total * 2", "pass"))(2, 2) == 4
    assert sample(2, 2) == 8


def test_a_patch_that_does_not_match_as_often_as_expected_fails() -> None:
    with pytest.raises(PatchDidNotApply):
        patched(sample, ("a * b", "a"))
    with pytest.raises(PatchDidNotApply):
        patched(sample, ("total", "b"))


def test_planting_reaches_other_holders_and_is_undone_even_after_an_error() -> None:
    before = scores.score_token
    with pytest.raises(RuntimeError), planted(scores, "score_token", lambda *a: None):
        assert scores.score_token is not before
        raise RuntimeError
    assert scores.score_token is before
    with pytest.raises(PatchDidNotApply), planted(family, "no_such_name", 1):
        pass


def test_planting_on_a_class_is_undone() -> None:
    class Thing:
        def size(self) -> int:
            return 1

    class Small(Thing):
        pass

    with planted(Small, "size", lambda self: 7):
        assert Small().size() == 7 and Thing().size() == 1
    assert Small().size() == 1 and "size" not in vars(Small)
