"""Fitting the feature draft: unrolled steps against the champion's top-k, over rows of the champion's own head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .batches import Batch, Labels, Sequences
from .feature_model import FeatureDraft

DRAFTED = 5
"""Positions of the held-out survival curve."""
LATER_SHARE = 0.5
"""Share of positions whose loss is computed in every step after the first."""


class FeatureTask:
    """`fit.Task` of a `FeatureDraft`.

    embedding: float32 [V, d], the champion's; head: float32 [rows, d], the kept rows of the champion's head.
    """

    def __init__(
        self, module: FeatureDraft, data: Sequences, embedding: Tensor, head: Tensor, labels: Labels, steps: int = 3
    ) -> None:
        self._module, self.data, self.labels, self.steps = module, data, labels, steps
        self.embedding = embedding
        self.head = head.bfloat16()
        self.noise = 0.05

    @property
    def module(self) -> FeatureDraft:
        return self._module

    def batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        return self.data.batches(rng)

    def _unroll(self, batch: Batch, features: Tensor, steps: int) -> list[Tensor]:
        embeddings = F.embedding(batch.ids[:, 1:-1], self.embedding)
        with torch.autocast("cpu", torch.bfloat16):
            return self.module.unroll(features[:, :-2], embeddings, steps)

    def loss(self, batch: Batch) -> Tensor:
        assert batch.hidden is not None
        features = batch.hidden
        # The engine's states are quantised and, from step 1 on, the draft's own: a little noise stands for both.
        features = features + torch.empty_like(features).uniform_(-self.noise, self.noise) * features.std()
        outputs = self._unroll(batch, features, self.steps)
        answer, top_ids, top_p = batch.answer[:, 2:], batch.top_ids[:, 2:], batch.top_p[:, 2:]
        total = torch.zeros(())
        for step, out in enumerate(outputs):
            mask = answer.clone()
            mask[:, :step] = False  # no true feature stands that far back
            if step:  # the head is half of a step's cost; a random half of the positions estimates the same mean
                mask &= torch.rand(mask.shape) < LATER_SHARE
            with torch.autocast("cpu", torch.bfloat16):
                logits = F.linear(out[mask], self.head)
            total = total + 0.8**step * self.labels.cross_entropy(logits, top_ids[mask], top_p[mask])
        return total

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Greedy survival by position over held-out starts whose continuation is the champion's own argmax."""
        self.module.eval()
        survived, starts = torch.zeros(DRAFTED), 0
        for batch in self.data.held_out_batches():
            assert batch.hidden is not None
            outputs = self._unroll(batch, batch.hidden, DRAFTED)
            answer, best = batch.answer[:, 2:], batch.top_ids[:, 2:, 0]
            greedy = answer & (best == batch.ids[:, 2:])
            length = answer.shape[1] - DRAFTED + 1
            if length <= 0:
                continue
            usable = torch.stack([greedy[:, j : j + length] for j in range(DRAFTED)]).all(0)
            alive = usable.clone()
            starts += int(usable.sum())
            for step, out in enumerate(outputs):
                chosen = self.labels.rows[F.linear(out.bfloat16(), self.head).argmax(-1)]
                alive &= (chosen == best)[:, step : step + length]
                survived[step] += alive.sum()
        self.module.train()
        curve = (survived / max(1, starts)).tolist()
        return {
            "survival": [round(s, 3) for s in curve],
            "tokens_per_verification": {str(k): round(1 + sum(curve[:k]), 3) for k in (3, 4, 5)},
            "starts": starts,
        }
