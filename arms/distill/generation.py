"""Many answers of the champion at once: one pass over the weights serves a column of every running sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

TOP = 12
"""The champion's most probable tokens that are kept, and among which is drawn."""
COLUMNS = 64
"""Sequences generated side by side. What is generated does not depend on it."""
CHUNK = 256
LARGEST = float(np.finfo(np.float16).max)

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Start:
    """What one sequence begins with."""

    ids: list[int]
    temperature: float
    seed: int
    max_new_tokens: int


@dataclass
class Running:
    """One sequence, running or finished."""

    start: Start
    ids: list[int]
    cache: Any
    rng: np.random.Generator
    top_ids: list[npt.NDArray[np.int32]] = field(default_factory=list)
    top_log_p: list[npt.NDArray[np.float16]] = field(default_factory=list)
    states: list[npt.NDArray[np.float16]] = field(default_factory=list)
    """[n, (1 + inner layers) * d], where asked for; of every token but the last, which was never consumed."""

    @property
    def answer(self) -> list[int]:
        return self.ids[len(self.start.ids) :]

    def choose(self, top_ids: npt.NDArray[np.int32], top_log_p: npt.NDArray[np.float32]) -> int:
        """The next token from the champion's TOP best; keeps their probabilities."""
        self.top_ids.append(top_ids)
        self.top_log_p.append(top_log_p.astype(np.float16))
        if self.start.temperature == 0.0:
            return int(top_ids[0])
        weights = np.exp((top_log_p - top_log_p[0]).astype(np.float64) / self.start.temperature)
        return int(top_ids[self.rng.choice(TOP, p=weights / weights.sum())])


def _begin(model: Any, start: Start, layers: Sequence[int] | None) -> Running:
    """A sequence whose prompt has been read but for its last token."""
    prompt = start.ids
    cache = model.engine.new_cache(len(prompt) + start.max_new_tokens + 1)
    running = Running(start, list(prompt), cache, np.random.default_rng(start.seed))
    for begin in range(0, len(prompt) - 1, CHUNK):
        chunk = prompt[begin : min(begin + CHUNK, len(prompt) - 1)]
        tx = cache.begin()
        if layers is None:
            model.engine.verify_linear(tx, chunk, "none")
        else:
            running.states.append(_half(model.engine.verify_with_hidden(tx, chunk, "none", layers)[1]))
        tx.commit_prefix(len(chunk))
    return running


def _half(states: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    return np.clip(states, -LARGEST, LARGEST).astype(np.float16)


def _best(rows: list[npt.NDArray[np.float32]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """The TOP most probable tokens of every row and their log-probabilities: int32 and float32 [B, TOP], best first."""
    logits = torch.from_numpy(np.concatenate(rows))
    values, ids = logits.topk(TOP)
    return ids.int().numpy(), (values - logits.logsumexp(-1, keepdim=True)).numpy()


def generate(
    model: Any, starts: Iterator[Start], layers: Sequence[int] | None, progress: Progress
) -> Iterator[Running]:
    """Finished sequences, in the order they were started. ``layers``: as `verify_with_hidden`; None for no states."""
    stops = set(model.tokenizer.stop_ids)
    order: list[Running] = []
    running: list[Running] = []
    while True:
        while len(running) < COLUMNS:
            start = next(starts, None)
            if start is None:
                break
            running.append(_begin(model, start, layers))
            order.append(running[-1])
        if not running:
            break
        items = [(sequence.cache.begin(), sequence.ids[-1:]) for sequence in running]
        rows, states = model.engine.verify_batch_with_hidden(items, hidden=layers is not None, layers=layers or ())
        for sequence, state in zip(running, states, strict=False):
            sequence.states.append(_half(state))
        still: list[Running] = []
        for sequence, (tx, _), ids, log_p in zip(running, items, *_best(rows), strict=True):
            tx.commit_prefix(1)
            token = sequence.choose(ids, log_p)
            sequence.ids.append(token)
            if token in stops or len(sequence.answer) >= sequence.start.max_new_tokens:
                sequence.cache.close()
            else:
                still.append(sequence)
        progress(len(running))
        running = still
    yield from order
