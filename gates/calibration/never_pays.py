"""Break-even where no session length pays: the ratio bootstrap of N_min "passes", D(M) does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..breakeven import fieller, naive_ratio_bootstrap
from ..intervals import estimate
from .cells import Cell

TABLE = "break-even"
FIXED, SESSION, ALPHA = 50.0, 2000.0, 0.025
PROMPTS, SPREAD = 40, 0.15
"""Fixed cost in tokens' worth of champion time; saving per token varies by this much over prompts."""


def cells(replicates: int, seed: int) -> Iterator[Cell]:
    n = max(50, replicates)
    for index, saving in enumerate((-0.05, -0.02, 0.0, 0.0125, FIXED / SESSION)):
        rng = np.random.default_rng([seed, index])
        ours = naive = missed = 0
        for _ in range(n):
            y = saving + SPREAD * rng.normal(size=(PROMPTS, 1)) + 0.02 * rng.normal(size=(PROMPTS, 3))
            found = estimate({"a": y}).overall
            gain = estimate({"a": SESSION * y - FIXED}).overall
            ours += gain.limits(ALPHA)[0] >= 0
            naive += naive_ratio_bootstrap(y.mean(axis=1), FIXED, 400, rng)[1] <= SESSION
            region = fieller(found.mean, FIXED, found.variance, 0.0, 0.0, found.df, ALPHA)
            true = FIXED / saving if saving > 0 else None
            missed += not region.never if true is None else not region.lower <= true <= region.upper
        words = f"true saving {saving:g} of a token, fixed cost {FIXED:g} tokens, session {SESSION:g}"
        limit = ALPHA if saving <= FIXED / SESSION else None
        yield Cell(TABLE, words, "ours", "D(M) passes although the session does not gain", ours / n, n, limit)
        yield Cell(
            TABLE, words, "ratio bootstrap of N_min", "N_min's upper limit ≤ M although it does not gain", naive / n, n
        )
        yield Cell(
            TABLE, words, "ours", "Fieller set misses N_min (or never)", missed / n, n, 0.05 if saving > 0 else ALPHA
        )
