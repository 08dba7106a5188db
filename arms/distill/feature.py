"""Fitting the feature draft: unrolled steps against the champion's top-k, over rows of the champion's own head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import parametrize

from . import four_bits
from .batches import Batch, Labels, Sequences
from .feature_model import FeatureDraft
from .llama_model import norm
from .rounds import DRAFTED, Rounds

LATER_SHARE = 0.5
"""Share of positions whose loss is computed in every step after the first."""


WARM_POSITIONS = 60_000
"""Positions the linear start is fitted to."""


@torch.no_grad()
def warm_start(module: FeatureDraft, data: Sequences, embedding: Tensor, head: Tensor, labels: Labels) -> float:
    """Start the fusion from the best linear guess of the next feature, and the output at the scale that fits it best.

    Ridge regression of f_{x + 1} on what the fusions see of x. A guess at the champion's own scale would be as
    sure as the champion and mostly wrong: a loss of 60 and hundreds of steps to unlearn. Returns the loss per token.
    """
    states, tokens, targets, ids, p, seen = [], [], [], [], [], 0
    for batch in data.batches(np.random.default_rng(0)):
        assert batch.hidden is not None
        answer = batch.answer[:, 2:].clone()
        answer[:, -1] = False  # the last token's state was never computed
        embeddings = F.embedding(batch.ids[:, 1:-1], embedding)
        states.append(batch.hidden[:, :-2][answer])
        tokens.append(embeddings[answer])
        targets.append(batch.hidden[:, 1:-1, : module.shape.width][answer])
        ids.append(batch.top_ids[:, 2:][answer])
        p.append(batch.top_p[:, 2:][answer])
        seen += len(targets[-1])
        if seen >= WARM_POSITIONS:
            break
    known, following, y = torch.cat(states), torch.cat(tokens), torch.cat(targets) / module.output_norm
    for layer, width in ((module.fusion, module.shape.width), (module.fusion_inner, known.shape[1])):
        if layer is not None:
            x = module.parts(known[:, :width], following)
            gram = x.T @ x
            gram += 1e-2 * gram.diagonal().mean() * torch.eye(len(gram))
            layer.weight.copy_(torch.linalg.solve(gram, x.T @ y).T)
    guess = norm(module.fuse(known[:4000], following[:4000]), module.output_norm, module.shape.epsilon)
    top_ids, top_p = torch.cat(ids)[:4000], torch.cat(p)[:4000]
    losses = [
        (float(labels.cross_entropy(scale / 10 * guess @ head.T, top_ids, top_p)), scale / 10) for scale in range(1, 11)
    ]
    best, scale = min(losses)
    module.output_norm.mul_(scale)
    return best


class FeatureTask:
    """`fit.Task` of a `FeatureDraft`.

    embedding: float32 [V, d], the champion's; head: float32 [rows, d], the kept rows of the champion's head.
    """

    def __init__(
        self, module: FeatureDraft, data: Sequences, embedding: Tensor, head: Tensor, labels: Labels, steps: int = 3
    ) -> None:
        self._module, self.data, self.labels, self.steps = module, data, labels, steps
        self.embedding = embedding
        self.head = four_bits.rounded(head).bfloat16()  # as the engine keeps its rows
        four_bits.prepare(module)
        self.noise = 0.05

    @property
    def module(self) -> FeatureDraft:
        return self._module

    def batches(self, rng: np.random.Generator, skip: int = 0) -> Iterator[Batch]:
        return self.data.batches(rng, skip)

    def _unroll(self, batch: Batch, features: Tensor, steps: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """Estimates of every step [M, d], their places bool [S, T − 2], and how many places precede each in its run.

        Estimates begin ``steps`` positions before the answer, so that all of the answer is estimated by every step.
        """
        answer = batch.answer[:, 2:]
        wanted = answer.clone()
        for distance in range(1, steps):
            wanted[:, :-distance] |= answer[:, distance:]
        embeddings = F.embedding(batch.ids[:, 1:-1], self.embedding)
        with torch.autocast("cpu", torch.bfloat16):
            outputs = self.module.unroll(features[:, :-2], embeddings, steps, wanted)
        # Position within the run of wanted ones: step j needs j of the draft's own features before it.
        return outputs, wanted, wanted.cumsum(1)[wanted] - 1

    def loss(self, batch: Batch, progress: float = 1.0) -> Tensor:
        """The first half of the steps unrolls two deep, the rest as deep as asked: depth costs, and pays late.
        From the middle on weights are those of the file, in four bits."""
        late = progress >= 0.5
        steps = self.steps if late else min(2, self.steps)
        four_bits.activate(self.module, late)
        assert batch.hidden is not None
        # The engine's states are quantised and, from step 1 on, the draft's own: a little noise stands for both.
        features = batch.hidden.clone()
        last = features[..., : self.module.shape.width]
        last += torch.empty_like(last).uniform_(-self.noise, self.noise) * last.std()
        with parametrize.cached():
            outputs, wanted, age = self._unroll(batch, features, steps)
        answer, top_ids, top_p = batch.answer[:, 2:][wanted], batch.top_ids[:, 2:][wanted], batch.top_p[:, 2:][wanted]
        total = torch.zeros(())
        for step, out in enumerate(outputs):
            mask = answer & (age >= step)
            if step:  # the head is half of a step's cost; a random half of the positions estimates the same mean
                mask &= torch.rand(mask.shape) < LATER_SHARE
            with torch.autocast("cpu", torch.bfloat16):
                logits = F.linear(out[mask], self.head)
            total = total + 0.8**step * self.labels.cross_entropy(logits, top_ids[mask], top_p[mask])
        return total

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Rounds along held-out greedy answers."""
        self.module.eval()
        four_bits.activate(self.module, True)
        rounds = Rounds()
        for batch in self.data.held_out_batches():
            assert batch.hidden is not None
            with parametrize.cached():
                outputs, wanted, age = self._unroll(batch, batch.hidden, DRAFTED)
            answer, best = batch.answer[:, 2:], batch.top_ids[:, 2:, 0]
            hits = []
            for step, out in enumerate(outputs):
                hit = torch.zeros_like(wanted)
                chosen = self.labels.rows[F.linear(out.bfloat16(), self.head).argmax(-1)]
                hit[wanted] = (chosen == best[wanted]) & (age >= step)
                hits.append(hit.numpy())
            for row in range(len(answer)):
                rounds.add([hit[row] for hit in hits], answer[row].numpy())
        self.module.train()
        return rounds.figures()
