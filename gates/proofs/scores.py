"""What one emitted token says about the law it was drawn from: randomised PIT, twice, and the in-excess shift.

q (champion) and p (draft) are integer rows of the same total, both recomputed from the prefix alone, so everything here
is predictable before the token is looked at. Under exactness each PIT value is uniform and independent of the past
(Rosenblatt 1952; Smith 1985 for sequences), bonus and corrected positions included, and the shift has mean zero.

Ordering the vocabulary by p/q points the test at what goes wrong in speculation: an output pulled towards the draft
piles up at the end. T = 1{y in {p > q}} - q({p > q}) is the sharpest such statistic for a mixture (1 - e)q + e·p: its
mean is then e·TV(p, q).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Masses = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Score:
    pit_ratio: float
    pit_id: float
    in_excess: bool
    excess_mass: float
    tv: float

    @property
    def shift(self) -> float:
        return float(self.in_excess) - self.excess_mass


def _ratio(q: Masses, p: Masses) -> npt.NDArray[np.float64]:
    """p/q, infinite where q = 0 (those tokens weigh nothing)."""
    out = np.full(len(q), np.inf)
    np.divide(p.astype(np.float64), q.astype(np.float64), out=out, where=q > 0)
    return out


def score_token(q: Masses, p: Masses, token: int, v_ratio: float, v_id: float) -> Score:
    """Score one token against integer rows q and p of one total; the ``v`` are uniform in (0, 1), from domain `pit`.

    The vocabulary is ordered by p/q, ties by id. Raises ValueError where the token has no champion mass: no exact arm
    can have emitted it.
    """
    total = int(q.sum(dtype=np.uint64))
    if total != int(p.sum(dtype=np.uint64)):
        raise ValueError("rows of different totals")
    mass = int(q[token])
    if mass == 0:
        raise ValueError(f"token {token} has no champion mass")
    ratio = _ratio(q, p)
    before_id = int(q[:token].sum(dtype=np.uint64))
    before_ratio = int(q[ratio < ratio[token]].sum(dtype=np.uint64))
    before_ratio += int(q[:token][ratio[:token] == ratio[token]].sum(dtype=np.uint64))
    excess = p > q
    q_excess = int(q[excess].sum(dtype=np.uint64))
    p_excess = int(p[excess].sum(dtype=np.uint64))
    return Score(
        pit_ratio=(before_ratio + v_ratio * mass) / total,
        pit_id=(before_id + v_id * mass) / total,
        in_excess=bool(excess[token]),
        excess_mass=q_excess / total,
        tv=(p_excess - q_excess) / total,
    )
