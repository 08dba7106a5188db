"""Held-out figures are those of rounds, not of positions."""

from __future__ import annotations

import numpy as np
from draftgate.arms.distill.rounds import Rounds


def test_rounds_are_walked_as_a_greedy_run_walks_them() -> None:
    # Ten tokens of answer after two of prompt; the draft is right everywhere but at places 4 and 5.
    hit = np.ones(12, bool)
    hit[[4, 5]] = False
    answer = np.arange(12) >= 2
    rounds = Rounds()
    rounds.add([hit] * 5, answer)
    # k = 5: 2 3 (4 wrong: corrected), (5 wrong), 6 … 10 and the bonus 11: three rounds, ten tokens.
    found = rounds.figures()
    assert found["rounds"] == 3 and found["tokens_per_verification"]["5"] == round(10 / 3, 3)
    assert found["survival"] == [round(2 / 3, 3), round(2 / 3, 3), *[round(1 / 3, 3)] * 3]
    # By position the draft looks better than it is: right at eight of ten.
    assert hit[answer].mean() == 0.8


def test_no_answer_gives_no_rounds_and_no_division_by_zero() -> None:
    rounds = Rounds()
    rounds.add([np.ones(4, bool)] * 5, np.zeros(4, bool))
    assert rounds.figures()["tokens_per_verification"]["3"] == 0.0 and rounds.figures()["rounds"] == 0


def test_the_last_round_emits_no_more_than_the_answer_has() -> None:
    rounds = Rounds()
    rounds.add([np.ones(3, bool)] * 5, np.ones(3, bool))
    assert rounds.tokens == {3: 3, 4: 3, 5: 3} and rounds.rounds == {3: 1, 4: 1, 5: 1}
