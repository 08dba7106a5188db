"""A draft for any champion without training one: the champion itself with coarsened logits and a bias of its own.

It shares the champion's weights but has its own caches, so everything a draft must do is done; its distribution is
another one, so acceptance is neither 0 nor 1. For proofs only: it is as slow as the champion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

STEP = np.float32(1.0)
BIAS = 0.7


class CoarseEngine:
    """Logits rounded to whole numbers, plus a fixed bias per token; not finite stays not finite."""

    def __init__(self, engine: Any, seed: int = 1, step: float = float(STEP), bias: float = BIAS) -> None:
        self._engine, self.step = engine, np.float32(step)
        self.bias = (np.random.default_rng(seed).normal(size=engine.vocabulary) * bias).astype(np.float32)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def _coarse(self, logits: Any) -> Any:
        return np.rint(logits / self.step) * self.step + self.bias

    def verify_linear(self, tx: Any, tokens: Sequence[int], rows: Any = "all") -> Any:
        return self._coarse(self._engine.verify_linear(tx, tokens, rows))


def coarse_draft(model: Any, seed: int = 1) -> Any:
    """A model over the champion's engine with coarsened logits."""
    return dataclasses.replace(model, engine=CoarseEngine(model.engine, seed))
