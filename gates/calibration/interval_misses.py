"""How often the interval of section 3 misses, a tail at a time, with naive intervals beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ..alternatives import alternative
from ..intervals import Estimate, estimate
from .cells import Cell
from .simulate import Truth, log_ratios

Array = npt.NDArray[np.float64]
TABLE = "interval-misses"
PER_TAIL = 0.035
"""Claimed at 40 prompts and 3 blocks. Elsewhere the table says what it found."""
ALPHA = 0.025
METHODS: Mapping[str, Callable[[Mapping[str, Array]], Estimate]] = {
    "ours": lambda values: estimate(values).overall,
    "plain t over prompts": lambda values: alternative(values, None, "plain-t").overall,
    "percentile bootstrap over prompts": lambda values: alternative(values, None, "percentile").overall,
    "BCa bootstrap over prompts": lambda values: alternative(values, None, "bca").overall,
}
SHAPES = {"normal": {}, "skew 1": {"skew": 1.0}, "skew 2": {"skew": 2.0}, "skew −2": {"skew": -2.0}}
RARE = {"rare_share": 0.02, "rare_size": 0.7}


def worlds() -> Iterator[tuple[str, int, int, Truth, bool]]:
    """(words, strata, prompts, truth, claimed)."""
    for prompts in (8, 12, 20, 40):
        for shape, extra in SHAPES.items():
            for block_sd in (0.0, 0.01, 0.05):
                truth = Truth(prompt_sd=0.15, noise_sd=0.02, block_sd=block_sd, **extra)
                yield f"{prompts} prompts, {shape}, block sd {block_sd:g}", 1, prompts, truth, prompts >= 40
        yield f"{prompts} prompts, 2 % of prompts 2 × slower", 1, prompts, Truth(prompt_sd=0.1, **RARE), False
    for shape, extra in SHAPES.items():
        truth = Truth(prompt_sd=0.15, noise_sd=0.02, block_sd=0.02, **extra)
        yield f"14 strata of 20 prompts, {shape}, block sd 0.02, overall", 14, 20, truth, True


def cells(replicates: int, seed: int) -> Iterator[Cell]:
    """Misses below and above, per world and method; 3 blocks throughout."""
    for index, (words, strata, prompts, truth, claimed) in enumerate(worlds()):
        rng = np.random.default_rng([seed, index])
        low, high = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0)
        naive = max(50, replicates // 4)  # the naive ones resample, and need no fine figure
        for i in range(replicates):
            values = {f"s{j}": log_ratios(truth, prompts, 3, rng) for j in range(strata)}
            for name, method in METHODS.items():
                if name == "ours" or i < naive:
                    lower, upper = method(values).limits(ALPHA)
                    low[name] += lower > truth.mean
                    high[name] += upper < truth.mean
        for name in METHODS:
            n = replicates if name == "ours" else naive
            limit = PER_TAIL if name == "ours" and claimed else None
            yield Cell(TABLE, words, name, "interval lies above the truth", low[name] / n, n, limit)
            yield Cell(TABLE, words, name, "interval lies below the truth", high[name] / n, n, limit)
