"""One family of tests: p-values under their names, Holm's rejections, and the sample size a stated power asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from ..holm import holm


@dataclass(frozen=True)
class FamilyResult:
    """Holm's step-down over one family at one level."""

    level: float
    p_values: Mapping[str, float]
    adjusted: Mapping[str, float]

    @property
    def rejected(self) -> tuple[str, ...]:
        return tuple(name for name, value in self.adjusted.items() if value <= self.level)

    @property
    def ok(self) -> bool:
        return not self.rejected


def judge_family(p_values: Mapping[str, float], level: float) -> FamilyResult:
    """Holm over the family. A p-value that is NaN counts as 0: a test that could not be done never reads as
    agreement. Raises ValueError for an empty family."""
    if not p_values:
        raise ValueError("an empty family proves nothing")
    return FamilyResult(level, dict(p_values), holm({n: 0.0 if math.isnan(p) else p for n, p in p_values.items()}))


@dataclass(frozen=True)
class CountTest:
    statistic: float
    degrees: int
    p_value: float
    n: int


def g_test(counts: Sequence[int], probabilities: Sequence[float], least_expected: float = 5.0) -> CountTest:
    """G-test of counts against exact probabilities; cells expecting fewer than ``least_expected`` are pooled.

    A count where the probability is 0 is impossible under the hypothesis: p-value 0, whatever the rest says.
    """
    observed, expected = np.asarray(counts, float), np.asarray(probabilities, float)
    n = float(observed.sum())
    if observed.shape != expected.shape or n == 0:
        raise ValueError("counts and probabilities must match and not be empty")
    if np.any(observed[expected <= 0] > 0):
        return CountTest(math.inf, 0, 0.0, int(n))
    keep = expected > 0
    observed, expected = observed[keep], expected[keep] / expected[keep].sum() * n
    small = expected < least_expected
    if small.any():
        observed = np.append(observed[~small], observed[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    degrees = len(observed) - 1
    if degrees < 1:
        return CountTest(0.0, 0, 1.0, int(n))
    seen = observed > 0
    statistic = 2 * float(np.sum(observed[seen] * np.log(observed[seen] / expected[seen])))
    return CountTest(statistic, degrees, float(special.chdtrc(degrees, statistic)), int(n))


def g_test_power(effect_tv: float, cells: int, n: int, level: float) -> float:
    """Power of the G-test against the least favourable shift of total variation ``effect_tv`` over equal cells.

    Mass e moves from half of the cells to the other half: the noncentrality is n·Σ(Δ²/expected) = 4·n·e². Other
    directions with the same TV over fewer cells have more.
    """
    critical = special.chdtri(cells - 1, level)
    return 1.0 - float(special.chndtr(critical, cells - 1, 4 * n * effect_tv**2))


def sample_size(effect_tv: float, cells: int, level: float, power: float) -> int:
    """Smallest n with `g_test_power` at least ``power``."""
    low, high = 1, 2
    while g_test_power(effect_tv, cells, high, level) < power:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if g_test_power(effect_tv, cells, middle, level) >= power else (middle + 1, high)
    return low


def shift_sample_size(effect_tv: float, level: float, power: float, excess_mass: float = 0.5) -> int:
    """Tokens for the in-excess shift to see a mean of ``effect_tv`` (two-sided z-test)."""
    spread = excess_mass * (1 - excess_mass)
    z = float(special.ndtri(power) - special.ndtri(level / 2))
    return math.ceil(z**2 * spread / effect_tv**2)


def wilson(successes: int, n: int, level: float = 0.05) -> tuple[float, float]:
    """Wilson's score interval for a proportion; (0, 1) when nothing was tried."""
    if n == 0:
        return 0.0, 1.0
    z = -float(special.ndtri(level / 2))
    centre = (successes + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(successes * (n - successes) / n + z * z / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def clopper_pearson(successes: int, n: int, level: float = 0.05) -> tuple[float, float]:
    """Exact interval for a proportion."""
    if n == 0:
        return 0.0, 1.0
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, level / 2))
    high = 1.0 if successes == n else float(special.betainccinv(successes + 1, n - successes, level / 2))
    return low, high


def uniform_p_value(values: npt.NDArray[np.float64]) -> float:
    """Kolmogorov–Smirnov against the uniform law on (0, 1)."""
    from scipy import stats  # half a second to import, and a greedy run needs none of it

    return float(stats.kstest(values, "uniform").pvalue)


def lag_p_value(values: npt.NDArray[np.float64]) -> float:
    """Independence of neighbours: joint 4 × 4 table of (U_t, U_t+1), non-overlapping pairs, against the product law."""
    pairs = values[: len(values) // 2 * 2].reshape(-1, 2)
    if len(pairs) == 0:
        return float("nan")
    cell = np.clip((pairs * 4).astype(int), 0, 3)
    counts = np.bincount(cell[:, 0] * 4 + cell[:, 1], minlength=16)
    return g_test([int(c) for c in counts], [1 / 16] * 16).p_value
