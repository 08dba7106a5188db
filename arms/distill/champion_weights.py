"""What training reads of a champion's file: its embedding, head and output norm, dequantised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class ChampionWeights:
    embedding: Tensor
    """float32 [V, d]."""
    head: Tensor
    """float32 [V, d]; the embedding again where the head is tied."""
    output_norm: Tensor
    """float32 [d]."""


def _tensor(file: Any, name: str) -> Tensor:
    info = file.tensors[name]
    raw = np.frombuffer(file.data(name), np.uint8)
    kind = gguf.GGMLQuantizationType[info.type]
    rows = info.shape[0] if len(info.shape) > 1 else 1
    values = gguf.quants.dequantize(raw.reshape(rows, -1), kind)
    return torch.from_numpy(np.array(values, np.float32)).reshape(info.shape)


def read(file: Any) -> ChampionWeights:
    """From a `GgufFile`."""
    embedding = _tensor(file, "token_embd.weight")
    head = _tensor(file, "output.weight") if "output.weight" in file.tensors else embedding
    return ChampionWeights(embedding, head, _tensor(file, "output_norm.weight"))


def project(matrix: Tensor, width: int) -> Tensor:
    """The best rank-``width`` coordinates of the rows: float32 [V, width], scaled to unit mean square.

    A small model's embedding and head start from the champion's, so that like tokens start alike.
    """
    centred = matrix - matrix.mean(0)
    values, vectors = torch.linalg.eigh((centred.T @ centred).double())
    top = vectors[:, values.argsort(descending=True)[:width]].float()
    low = centred @ top
    scaled: Tensor = low / low.pow(2).mean().sqrt()
    return scaled
