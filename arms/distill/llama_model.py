"""The small Llama that training fits, in torch, with the tensor layout the engine reads (`export.py`).

Rotary pairs are interleaved (2i, 2i + 1), as GGUF files of architecture `llama` have them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class LlamaShape:
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    context: int
    rope_base: float = 10000.0
    epsilon: float = 1e-5
    output_rows: int | None = None
    """Rows of a separate head over a reduced output vocabulary; None ties the head to the embedding."""

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def rotary_tables(positions: int, head_width: int, base: float) -> tuple[Tensor, Tensor]:
    """cos and sin, float32 [positions, head_width / 2]."""
    inverse = base ** (-torch.arange(0, head_width, 2).double() / head_width)
    angle = torch.arange(positions).double()[:, None] * inverse
    return angle.cos().float(), angle.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: [..., T, D]; cos, sin: [T, D / 2]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    c, s = cos.to(x.dtype), sin.to(x.dtype)
    return torch.stack((even * c - odd * s, even * s + odd * c), -1).flatten(-2)


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), epsilon)  # one type: only then is the kernel a fused one


class Block(nn.Module):
    """One decoder layer."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        d, kv = shape.width, shape.kv_heads * shape.head_width
        self.attn_norm = nn.Parameter(torch.ones(d))
        self.ffn_norm = nn.Parameter(torch.ones(d))
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, kv, bias=False)
        self.v = nn.Linear(d, kv, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.gate = nn.Linear(d, shape.feed_forward, bias=False)
        self.up = nn.Linear(d, shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, d, bias=False)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [B, H, T, D], rotated keys and values [B, KV, T, D]."""
        s = self.shape
        h = norm(x, self.attn_norm, s.epsilon)
        batch, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, length, heads, s.head_width).transpose(1, 2)

        return (
            rotate(split(self.q(h), s.heads), cos, sin),
            rotate(split(self.k(h), s.kv_heads), cos, sin),
            split(self.v(h), s.kv_heads),
        )

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Residual, output projection and feed-forward; attended: [B, H, T, D]."""
        return self.finish_tokens(x, attended.transpose(1, 2).flatten(2))

    def finish_tokens(self, x: Tensor, attended: Tensor) -> Tensor:
        """As `finish`, with the heads side by side already: x and attended [..., d]."""
        x = x + self.o(attended)
        h = norm(x, self.ffn_norm, self.shape.epsilon)
        y: Tensor = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return y

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.project(x, cos, sin)
        repeat = self.shape.heads // self.shape.kv_heads
        attended = F.scaled_dot_product_attention(
            q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1), is_causal=True
        )
        return self.finish(x, attended)


class Llama(nn.Module):
    """Causal language model; hidden() gives states after the output norm, [B, T, width]."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.Parameter(torch.ones(shape.width))
        self.head = None if shape.output_rows is None else nn.Linear(shape.width, shape.output_rows, bias=False)
        cos, sin = rotary_tables(shape.context, shape.head_width, shape.rope_base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        depth = (2 * self.shape.layers) ** -0.5
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("o.weight", "down.weight"))
                nn.init.normal_(weight, std=self.shape.width**-0.5 * (depth if last else 1.0))
        nn.init.normal_(self.embedding.weight, std=0.02)

    def hidden(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        length = ids.shape[1]
        assert isinstance(self.cos, Tensor) and isinstance(self.sin, Tensor)
        cos, sin = self.cos[:length], self.sin[:length]
        for block in self.blocks:
            x = block(x, cos, sin)
        return norm(x, self.output_norm, self.shape.epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        weight = self.embedding.weight if self.head is None else self.head.weight
        return F.linear(hidden, weight)
