"""Training a draft for the four bits its weights are stored in (Q4_1), by rounding them in the forward pass alone.

Half the bytes make a drafting step cheaper; rounding after the fit costs 2.6 % of the tokens per verification, rounding
during its second half lets the other weights make up for it (straight-through estimation, arXiv:1308.3432).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

BLOCK = 32


def rounded(weight: Tensor) -> Tensor:
    """What a float32 matrix [rows, columns], columns a multiple of 32, becomes in Q4_1."""
    blocks = weight.detach().float().reshape(-1, BLOCK)
    least, most = blocks.aminmax(dim=1, keepdim=True)
    scale = (most - least) / 15
    codes = torch.floor((blocks - least) / torch.where(scale > 0, scale, 1.0) + 0.5).clamp(0, 15)
    return (codes * scale.half().float() + least.half().float()).reshape(weight.shape)


class FourBits(nn.Module):
    """Parametrisation of a weight; does nothing until ``active``."""

    active = False

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (rounded(weight) - weight).detach() if self.active else weight

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


def prepare(module: nn.Module) -> None:
    """Parametrise every matrix of ``module`` whose rows are whole blocks."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and layer.in_features % BLOCK == 0:
            parametrize.register_parametrization(layer, "weight", FourBits())


def activate(module: nn.Module, active: bool) -> None:
    for part in module.modules():
        if isinstance(part, FourBits):
            part.active = active
