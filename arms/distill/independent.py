"""Fitting an independent small Llama: to a champion's top-k (a draft), or to text alone (a small champion)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .batches import Batch, Labels, Sequences
from .llama_model import Llama
from .rounds import DRAFTED, Rounds


class DistilTask:
    """`fit.Task` of a `Llama` draft over a reduced output vocabulary."""

    def __init__(self, module: Llama, data: Sequences, labels: Labels) -> None:
        self._module, self.data, self.labels = module, data, labels

    @property
    def module(self) -> Llama:
        return self._module

    def batches(self, rng: np.random.Generator, skip: int = 0) -> Iterator[Batch]:
        return self.data.batches(rng, skip)

    def loss(self, batch: Batch, progress: float = 0.0) -> Tensor:
        mask = batch.answer[:, 1:]
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.module.logits(self.module.hidden(batch.ids[:, :-1])[mask])
        return self.labels.cross_entropy(logits, batch.top_ids[:, 1:][mask], batch.top_p[:, 1:][mask])

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Rounds along held-out greedy answers (the draft sees true tokens), and overlap Σ min(p, q) over them."""
        self.module.eval()
        rounds, overlap, tested = Rounds(), 0.0, 0
        for batch in self.data.held_out_batches():
            with torch.autocast("cpu", torch.bfloat16):
                logits = self.module.logits(self.module.hidden(batch.ids[:, :-1]))
            p = torch.softmax(logits.float(), -1)
            answer, top_ids, top_p = batch.answer[:, 1:], batch.top_ids[:, 1:], batch.top_p[:, 1:]
            place = self.labels.place[top_ids]
            drafted = torch.where(place >= 0, p.gather(2, place.clamp(min=0)), torch.zeros(()))
            overlap += float((torch.minimum(drafted, top_p).sum(-1) * answer).sum())
            tested += int(answer.sum())
            hit = (self.labels.rows[logits.argmax(-1)] == top_ids[..., 0]).numpy()
            for row in range(len(answer)):
                rounds.add([hit[row]] * DRAFTED, answer[row].numpy())
        self.module.train()
        return rounds.figures() | {"overlap": round(overlap / max(1, tested), 3)}


class TextTask:
    """`fit.Task` of a `Llama` on plain token windows: next-token cross-entropy."""

    def __init__(self, module: Llama, ids: npt.NDArray[np.int64], window: int, batch: int) -> None:
        self._module, self.window, self.batch = module, window, batch
        held = max(window + 1, min(len(ids) // 20, 40_000))
        self.training = torch.from_numpy(ids[:-held])
        self.held_out = torch.from_numpy(ids[-held:])

    @property
    def module(self) -> Llama:
        return self._module

    def batches(self, rng: np.random.Generator, skip: int = 0) -> Iterator[Tensor]:
        count = (len(self.training) - 1) // self.window
        offset = int(rng.integers(0, max(1, len(self.training) - count * self.window)))
        order = rng.permutation(count)
        for start in range(skip * self.batch, count - self.batch + 1, self.batch):
            yield torch.stack(
                [
                    self.training[offset + i * self.window :][: self.window + 1]
                    for i in order[start : start + self.batch]
                ]
            )

    def loss(self, batch: Tensor, progress: float = 0.0) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.module.logits(self.module.hidden(batch[:, :-1]))
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        self.module.eval()
        losses = []
        count = (len(self.held_out) - 1) // self.window
        for start in range(0, count, self.batch):
            rows = [
                self.held_out[i * self.window :][: self.window + 1]
                for i in range(start, min(count, start + self.batch))
            ]
            losses.append((float(self.loss(torch.stack(rows))), len(rows)))
        self.module.train()
        mean = sum(loss * n for loss, n in losses) / max(1, sum(n for _, n in losses))
        return {"held_out_loss": round(mean, 3), "perplexity": round(float(np.exp(mean)), 2)}
