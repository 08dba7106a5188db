"""One training loop for every kind of draft: fixed seeds, cosine schedule, resumable checkpoints, held-out figures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ...strata.files import replacing
from ..errors import ArmError

Report = Callable[[str], None]
CHECKPOINT_EVERY_S = 60.0


class Task(Protocol):
    """What is fitted: a module, its batches and its losses."""

    @property
    def module(self) -> torch.nn.Module: ...

    def batches(self, rng: np.random.Generator, skip: int = 0) -> Iterator[Any]:
        """One pass over the training data in random order, its first ``skip`` batches left out.

        Passes may differ in length: how sequences fall into batches depends on the order.
        """

    def loss(self, batch: Any, progress: float) -> torch.Tensor:
        """Loss of a batch; progress: the share of all steps already made, for a task that grows harder."""

    def evaluate(self) -> dict[str, Any]:
        """Held-out figures, JSON values."""


@dataclass(frozen=True)
class Settings:
    passes: float
    """Times every training sequence is seen."""
    learning_rate: float = 1.5e-3
    """Of AdamW, for vectors, embeddings and heads."""
    matrix_rate: float = 2e-3
    """Of Muon, for all other matrices, its update scaled to the size of AdamW's."""
    warmup_steps: int = 50
    seed: int = 0
    evaluate_every: int = 200
    average: float = 0.998
    """Decay of the running average of weights that is evaluated and exported."""


@dataclass
class Fitted:
    steps: int
    seconds: float
    loss: float
    figures: dict[str, Any]


def fit(task: Task, settings: Settings, checkpoint: Path, report: Report) -> Fitted:
    """Train until the passes are done; the module ends with the averaged weights. A checkpoint is taken up again.

    Raises ArmError when a checkpoint belongs to other settings, or the loss stops being a number.
    """
    module = task.module
    optimisers = _optimisers(module, settings)
    averaged = torch.optim.swa_utils.AveragedModel(module, avg_fn=_averaging(settings.average))
    per_pass = sum(1 for _ in task.batches(np.random.default_rng(settings.seed)))
    if per_pass == 0:
        raise ArmError("there is no text to train on; ask for more --tokens")
    total = max(1, int(per_pass * settings.passes))
    step, epoch, done, spent, recent = 0, 0, 0, 0.0, float("nan")
    identity = f"{settings}|{total}|{sum(p.numel() for p in module.parameters())}"
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        if state["identity"] != identity:
            raise ArmError(f"{checkpoint} belongs to a run with other settings; delete it or name another output")
        module.load_state_dict(state["module"])
        averaged.load_state_dict(state["averaged"])
        for optimiser, kept in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        step, epoch, done = state["step"], state["epoch"], state["done"]
        spent, recent = state["seconds"], state["loss"]
        report(f"resuming at step {step} of {total}")
    began = saved = time.monotonic()
    while step < total:
        for batch in task.batches(np.random.default_rng((settings.seed, epoch)), done):
            torch.manual_seed(settings.seed * 1_000_003 + step)  # a step is the same whether resumed or not
            for optimiser in optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = group["initial_lr"] * _schedule(step, total, settings.warmup_steps)
            loss = task.loss(batch, step / total)
            if not torch.isfinite(loss):
                raise ArmError(f"the loss is {loss.item()} at step {step}; lower the learning rate")
            module.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            for optimiser in optimisers:
                optimiser.step()
            averaged.update_parameters(module)
            step, done = step + 1, done + 1
            recent = loss.item() if math.isnan(recent) else 0.98 * recent + 0.02 * loss.item()
            elapsed = spent + time.monotonic() - began
            if step % settings.evaluate_every == 0 and step < total:
                report(f"step {step}/{total}  loss {recent:.3f}  {elapsed / 60:.1f} min  {_held_out(task, averaged)}")
            elif step % 20 == 0:
                report(f"step {step}/{total}  loss {recent:.3f}  {elapsed / 60:.1f} min")
            if time.monotonic() - saved >= CHECKPOINT_EVERY_S:
                progress = {"step": step, "epoch": epoch, "done": done, "seconds": elapsed, "loss": recent}
                _save(checkpoint, identity, module, averaged, optimisers, progress)
                saved = time.monotonic()
            if step >= total:
                break
        epoch, done = epoch + 1, 0
    seconds = spent + time.monotonic() - began
    _adopt(module, averaged)
    figures = task.evaluate()
    report(f"step {step}/{total}  loss {recent:.3f}  {seconds / 60:.1f} min  {figures}")
    return Fitted(step, seconds, recent, figures)


def _optimisers(module: torch.nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the rest; `initial_lr` is what the schedule scales."""
    layers: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in module.named_parameters():
        inner = parameter.dim() == 2 and "embedding" not in name and "head" not in name
        (layers if inner else rest).append(parameter)
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=settings.learning_rate, weight_decay=0.0, betas=(0.9, 0.95))
    ]
    if layers:
        optimisers.append(
            torch.optim.Muon(layers, lr=settings.matrix_rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
        )
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["initial_lr"] = group["lr"]
    return optimisers


def _averaging(decay: float) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor | int], torch.Tensor]:
    """A running average whose memory grows with the steps, so that a short fit does not average its beginning in."""

    def average(old: torch.Tensor, new: torch.Tensor, seen: torch.Tensor | int) -> torch.Tensor:
        n = float(seen)
        return torch.lerp(new, old, min(decay, (1 + n) / (10 + n)))

    return average


def _schedule(step: int, total: int, warmup: int) -> float:
    rise = min(1.0, (step + 1) / max(1, warmup))
    return rise * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / total)))


def _adopt(module: torch.nn.Module, averaged: torch.optim.swa_utils.AveragedModel) -> None:
    module.load_state_dict(averaged.module.state_dict())


def _held_out(task: Task, averaged: torch.optim.swa_utils.AveragedModel) -> dict[str, Any]:
    """Figures of the averaged weights; the training weights come back afterwards."""
    own = {name: value.detach().clone() for name, value in task.module.state_dict().items()}
    _adopt(task.module, averaged)
    figures = task.evaluate()
    task.module.load_state_dict(own)
    return figures


def _save(
    path: Path,
    identity: str,
    module: torch.nn.Module,
    averaged: torch.nn.Module,
    optimisers: list[torch.optim.Optimizer],
    progress: dict[str, float],
) -> None:
    state = {"identity": identity, "module": module.state_dict(), "averaged": averaged.state_dict(),
             "optimisers": [o.state_dict() for o in optimisers], **progress}  # fmt: skip
    with replacing(path) as handle:
        torch.save(state, handle)
