"""Acceptance estimands against the truth, where a naive estimator is wrong: policies that stop when they doubt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..acceptance import survival
from ..fixed_k import product_limit
from .cells import Cell

Array = npt.NDArray[np.float64]
TABLE = "acceptance"
K = 4
PROMPTS, ROUNDS = 40, 60
DOUBT = 0.45


@dataclass(frozen=True)
class Trace:
    rounds: pd.DataFrame
    shadow: pd.DataFrame
    truth: Array
    """Fixed-k survival S_1 … S_K, round-weighted, of this sample's prompts in expectation [K]."""


def trace(rng: np.random.Generator, skill: Array) -> Trace:
    """Rounds of a policy that stops before a token it doubts, and shadow replays of one round start in four.

    Token j of a round is accepted with its own probability, which the draft's confidence shows: so "not proposed" says
    what would have happened.
    """
    prompts = len(skill)
    easy = rng.beta(skill[:, None, None] * 3, 1.5, size=(prompts, ROUNDS, K))
    accepted_each = rng.random((prompts, ROUNDS, K)) < easy
    full = np.cumprod(accepted_each, axis=2).sum(axis=2)
    confident = np.cumprod(easy > DOUBT, axis=2).sum(axis=2)
    proposed = np.maximum(confident, 1)
    accepted = np.minimum(full, proposed)
    prompt = np.repeat(np.arange(prompts), ROUNDS)
    rounds = pd.DataFrame({
        "arm": "neural_draft", "stratum": "a", "prompt_id": prompt, "requested": K, "proposed": proposed.ravel(),
        "accepted": accepted.ravel(), "censored": "none",
        "outcome": np.where(accepted < proposed, "rejected", "accepted_all").ravel(),
    })  # fmt: skip
    start = np.arange(0, ROUNDS, 4)
    replayed = np.cumprod(accepted_each, axis=2)[:, start, :]
    shadow = pd.DataFrame({
        "arm": "neural_draft", "stratum": "a", "prompt_id": np.repeat(np.arange(prompts), len(start) * K),
        "position": np.tile(np.arange(1, K + 1), prompts * len(start)), "survival": replayed.ravel().astype(float),
    })  # fmt: skip
    return Trace(rounds, shadow, _truth(skill))


def _truth(skill: Array) -> Array:
    """E Π over i tokens, independent given the prompt: (3s / (3s + 1.5))^i, averaged over prompts."""
    mean = skill * 3 / (skill * 3 + 1.5)
    out: Array = np.mean(mean[:, None] ** np.arange(1, K + 1), axis=0)
    return out


def naive_product_limit(rounds: pd.DataFrame) -> Array:
    """Kaplan–Meier that takes every token not proposed for censored: what section 1 warns of."""
    accepted, proposed = rounds["accepted"].to_numpy(), rounds["proposed"].to_numpy()
    at = np.arange(1, K + 1)[:, None]
    risk = (np.minimum(proposed, accepted + 1) >= at).sum(axis=1).astype(float)
    event = ((accepted + 1 == at) & (accepted < proposed)).sum(axis=1).astype(float)
    return product_limit(event, risk)


def population(size: int, rng: np.random.Generator) -> Array:
    return 0.4 + rng.gamma(3.0, 0.4, size=size)


def cells(replicates: int, seed: int) -> Iterator[Cell]:
    """Bias of S₄, and how often intervals and band miss the population's curve."""
    n = max(50, replicates // 4)
    rng = np.random.default_rng([seed, 0])
    target = _truth(population(400_000, rng))
    bias_shadow = bias_naive = bias_policy = 0.0
    low = high = outside = 0
    for _ in range(n):
        t = trace(rng, population(PROMPTS, rng))
        found = survival(t.rounds, 200, rng, shadow=t.shadow)
        curve = found.curve("neural_draft", "a", "fixed-k")
        bias_shadow += curve.estimate[K - 1] - target[K - 1]
        bias_naive += naive_product_limit(t.rounds)[K - 1] - target[K - 1]
        bias_policy += found.curve("neural_draft", "a", "policy").estimate[K - 1] - target[K - 1]
        low += curve.lower[K - 1] > target[K - 1]
        high += curve.upper[K - 1] < target[K - 1]
        outside += bool(((curve.band_lower > target) | (curve.band_upper < target)).any())
    words = f"confidence stop, {PROMPTS} prompts, true S₄ {target[K - 1]:.3f}"
    bias = "mean error of S₄ (not a frequency)"
    yield Cell(TABLE, words, "ours", bias, bias_shadow / n, n)
    yield Cell(TABLE, words, "product-limit over short rounds", bias, bias_naive / n, n)
    yield Cell(TABLE, words, "policy survival read as fixed-k", bias, bias_policy / n, n)
    yield Cell(TABLE, words, "ours", "pointwise interval of S₄ above the truth", low / n, n, 0.035)
    yield Cell(TABLE, words, "ours", "pointwise interval of S₄ below the truth", high / n, n, 0.035)
    yield Cell(TABLE, words, "ours", "simultaneous band misses somewhere", outside / n, n, 0.07)
