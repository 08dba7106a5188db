"""Tests of a distribution: counts against exact probabilities, uniform scores, the shift, outputs of two black
boxes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from .holm import holm
from .proofs.family import CountTest, g_test, lag_p_value, uniform_p_value
from .sequential import EProcess, confidence_sequence, e_process
from .sequential import Sequence as ConfidenceSequence

__all__ = [
    "CountTest", "DistributionFamily", "Shift", "exact_multinomial", "g_test", "pit_family", "shift",
    "two_sample_counts", "two_sample_sequences",
]  # fmt: skip

Array = npt.NDArray[np.float64]
MOST_TABLES = 2_000_000


def exact_multinomial(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Exact p-value of a multinomial: the probability of every table no likelier than the one seen.

    For small samples, where the G-test's chi-square law is not to be trusted. Raises ValueError when shapes differ, the
    sample is empty or the tables to count are more than two million.
    """
    observed, p = np.asarray(counts, int), np.asarray(probabilities, float)
    n, k = int(observed.sum()), len(observed)
    if observed.shape != p.shape or n == 0:
        raise ValueError("counts and probabilities must match and not be empty")
    if math.comb(n + k - 1, k - 1) > MOST_TABLES:
        raise ValueError(f"{math.comb(n + k - 1, k - 1)} tables are too many to count; use g_test")
    if (observed[p <= 0] > 0).any():
        return 0.0
    with np.errstate(divide="ignore"):
        log_p = np.log(p)

    def log_probability(table: npt.NDArray[np.int64]) -> Array:
        terms = np.where(table > 0, table * np.where(np.isfinite(log_p), log_p, -1e300), 0.0)
        out: Array = special.gammaln(n + 1) - special.gammaln(table + 1).sum(axis=-1) + terms.sum(axis=-1)
        return out

    bars = np.fromiter(
        (x for cut in combinations_with_replacement(range(n + 1), k - 1) for x in cut), int, count=-1
    ).reshape(-1, max(1, k - 1))  # fmt: skip
    if k == 1:
        return 1.0
    edges = np.concatenate([np.zeros((len(bars), 1), int), bars, np.full((len(bars), 1), n)], axis=1)
    each = log_probability(np.diff(edges, axis=1))
    seen = float(log_probability(observed[None])[0])
    return min(1.0, float(np.exp(each[each <= seen + 1e-9]).sum()))


@dataclass(frozen=True)
class DistributionFamily:
    """One family of tests at one level, Holm-adjusted. It can only reject."""

    p_values: dict[str, float]
    adjusted: dict[str, float]
    n: int

    def rejected(self, level: float) -> list[str]:
        return [name for name, p in self.adjusted.items() if p <= level]


def pit_family(scores: pd.DataFrame, also: Mapping[str, float] | None = None) -> DistributionFamily:
    """Randomised PIT scores against the uniform law, in both orderings of the vocabulary, and neighbours' independence.

    ``scores`` in frozen order with ``pit_ratio`` and ``pit_id`` in (0, 1); ``also``: p-values of other tests of the
    family. A score outside, or NaN, counts as p = 0.
    """
    found: dict[str, float] = dict(also or {})
    for name in ("pit_ratio", "pit_id"):
        values = pd.to_numeric(scores[name], errors="coerce").to_numpy(float) if name in scores else np.empty(0)
        if not len(values):
            continue
        if not ((values >= 0) & (values <= 1)).all():
            found[name] = 0.0
            continue
        found[name] = uniform_p_value(values)
        if len(values) >= 160:  # ten a cell of the joint table
            found[f"{name}_neighbours"] = lag_p_value(values)
    return DistributionFamily(found, holm(found) if found else {}, len(scores))


@dataclass(frozen=True)
class Shift:
    """T = mean of 1{p > q}(x) − q(p > q): the probability moved towards the draft; 0 under exactness."""

    sequence: ConfidenceSequence
    evidence: EProcess
    delta: float

    @property
    def inside(self) -> bool:
        """The claim of equality: the whole interval lies inside ±δ."""
        return self.sequence.lower >= -self.delta and self.sequence.upper <= self.delta

    @property
    def p_value(self) -> float:
        """Of exactness, by the largest evidence seen at any time (Ville's inequality)."""
        return float(np.exp(-max(0.0, float(self.evidence.log_e.max(initial=0.0)))))

    @property
    def outside(self) -> bool:
        return self.sequence.lower > self.delta or self.sequence.upper < -self.delta


def shift(scores: pd.DataFrame, alpha: float, delta: float = 0.01) -> Shift:
    """The shift over scored tokens in frozen order, with a confidence sequence (one-sided ``alpha`` a side).

    ``scores`` has ``in_excess`` (the token lies in {p > q}) and ``excess_mass`` (q of that set). Given the past each
    term
    lies in [−m, 1 − m], an interval of length 1, whatever depends on what within a prompt. Raises ValueError for NaN.
    """
    x = scores["in_excess"].to_numpy(float) - scores["excess_mass"].to_numpy(float)
    return Shift(confidence_sequence(x, alpha), e_process(x, 2 * alpha), delta)


def two_sample_counts(
    left: Sequence[Hashable], right: Sequence[Hashable], permutations: int, rng: np.random.Generator
) -> CountTest:
    """Are two samples of outcomes (first tokens, whole short answers) of one law? G of homogeneity, permutation
    p-value.

    For black boxes whose probabilities are not to be had. Raises ValueError for an empty sample.
    """
    if not len(left) or not len(right):
        raise ValueError("two samples are needed, and one is empty")
    code, names = pd.factorize(np.array([*map(str, left), *map(str, right)], object))
    n_left, k = len(left), len(names)
    total = np.bincount(code, minlength=k).astype(float)

    def g(order: npt.NDArray[np.intp]) -> float:
        a = np.bincount(code[order[:n_left]], minlength=k).astype(float)
        table = np.stack([a, total - a])
        expected = np.outer(table.sum(axis=1), total) / total.sum()
        return 2 * float(
            special.xlogy(table, np.divide(table, expected, where=expected > 0, out=np.ones_like(table))).sum()
        )

    seen = g(np.arange(len(code)))
    drawn = [g(rng.permutation(len(code))) for _ in range(permutations)]
    p = (1 + sum(x >= seen - 1e-12 for x in drawn)) / (1 + permutations)
    return CountTest(seen, k - 1, p, len(code))


def two_sample_sequences(
    left: Sequence[Sequence[int]], right: Sequence[Sequence[int]], permutations: int, rng: np.random.Generator,
    ngram: int = 2,
) -> CountTest:  # fmt: skip
    """Are two samples of token sequences of one law? Maximum mean discrepancy with an n-gram kernel, permutation
    p-value.

    One sequence a prompt and side; sequences are exchangeable under the hypothesis, tokens within one are not. Kernel:
    cosine of counts of n-grams up to ``ngram``, each with its place (first, second, …, later) for single tokens.
    """
    if len(left) < 2 or len(right) < 2:
        raise ValueError("two sequences a side are needed")
    rows = [_ngrams(s, ngram) for s in (*left, *right)]
    index = {g: i for i, g in enumerate(sorted({g for row in rows for g in row}, key=repr))}
    features = np.zeros((len(rows), len(index)))
    for i, row in enumerate(rows):
        for gram, count in row.items():
            features[i, index[gram]] = math.sqrt(count)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-300)
    kernel, m = features @ features.T, len(left)

    def discrepancy(order: npt.NDArray[np.intp]) -> float:
        a, b = order[:m], order[m:]
        aa, bb, ab = kernel[np.ix_(a, a)], kernel[np.ix_(b, b)], kernel[np.ix_(a, b)]
        within = (aa.sum() - np.trace(aa)) / (m * (m - 1)) + (bb.sum() - np.trace(bb)) / (len(b) * (len(b) - 1))
        return float(within - 2 * ab.mean())

    seen = discrepancy(np.arange(len(rows)))
    drawn = [discrepancy(rng.permutation(len(rows))) for _ in range(permutations)]
    p = (1 + sum(x >= seen - 1e-12 for x in drawn)) / (1 + permutations)
    return CountTest(seen, 0, p, len(rows))


def _ngrams(sequence: Sequence[int], most: int) -> Counter[tuple[int, ...]]:
    out: Counter[tuple[int, ...]] = Counter()
    for size in range(1, most + 1):
        for i in range(len(sequence) - size + 1):
            out[tuple(sequence[i : i + size])] += 1
    for i, token in enumerate(sequence[:3]):
        out[(-1 - i, token)] += 1
    return out


def zero_mismatches_bound(prompts: int) -> float:
    """95 % upper bound on the share of prompts with a mismatch when none was seen: the rule of three; NaN without
    prompts."""
    return 3.0 / prompts if prompts else math.nan


def uniform_power(n: int, tv: float, level: float) -> float:
    """Power of the two-sided z-test on the shift against ``tv`` at the least favourable spread (½)."""
    z = -special.ndtri(level / 2)
    gap = tv * math.sqrt(n) / 0.5
    return float(special.ndtr(gap - z) + special.ndtr(-z - gap))
