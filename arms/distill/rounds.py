"""Held-out figures as a greedy run would see them: rounds walked along the champion's own greedy answers.

Averages over positions would flatter a draft: a round begins where the last one was rejected, so rounds gather at the
hard places, and an answer that was sampled follows its argmax only where it is easy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

DRAFTED = 5
"""Positions of the survival curve."""


class Rounds:
    """Gathers sequences; `figures` says what rounds of three to five proposals came to."""

    def __init__(self) -> None:
        self.survived = np.zeros(DRAFTED, np.int64)
        self.rounds = dict.fromkeys((3, 4, DRAFTED), 0)
        self.tokens = dict.fromkeys((3, 4, DRAFTED), 0)

    def add(self, hits: Sequence[npt.NDArray[np.bool_]], answer: npt.NDArray[np.bool_]) -> None:
        """hits[j][i]: proposal j made for place i is the champion's token; answer[i]: i belongs to an answer."""
        places = np.flatnonzero(answer)
        if not len(places):
            return
        for k in self.rounds:
            at, end = int(places[0]), int(places[-1]) + 1
            while at < end:
                accepted = 0
                while accepted < k and at + accepted < end and hits[accepted][at + accepted]:
                    accepted += 1
                self.rounds[k] += 1
                self.tokens[k] += min(accepted + 1, end - at)
                if k == DRAFTED:
                    self.survived[:accepted] += 1
                at += accepted + 1

    def figures(self) -> dict[str, Any]:
        total = self.rounds[DRAFTED]
        return {
            "survival": [round(float(s) / max(1, total), 3) for s in self.survived],
            "tokens_per_verification": {str(k): round(self.tokens[k] / max(1, n), 3) for k, n in self.rounds.items()},
            "rounds": total,
        }
