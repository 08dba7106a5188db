"""The feature draft: one decoder layer on the champion's hidden states (after EAGLE, arXiv:2401.15077), in torch.

Input at position x: the champion's hidden state f_x (after its output norm) and the embedding of token x + 1; output:
an estimate of f_{x + 1}, whose product with rows of the champion's own head gives the distribution of token x + 2.
Unrolled training (as HASS, arXiv:2408.15766): in step j the query at x sees true features up to x − j and the draft's
own estimates after that, exactly what it will see when it drafts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .llama_model import Block, LlamaShape, norm, rotary_tables


@dataclass(frozen=True)
class FeatureShape:
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    context: int
    rope_base: float
    epsilon: float

    def block(self) -> LlamaShape:
        return LlamaShape(
            0, self.width, 1, self.heads, self.kv_heads, self.feed_forward, self.context, self.rope_base, self.epsilon
        )


class FeatureDraft(nn.Module):
    """Parameters: two input norms, a fusion of [feature, embedding], one block, the output norm."""

    def __init__(self, shape: FeatureShape, output_norm: Tensor) -> None:
        super().__init__()
        self.shape = shape
        d = shape.width
        self.feature_norm = nn.Parameter(torch.ones(d))
        self.embedding_norm = nn.Parameter(torch.ones(d))
        self.fusion = nn.Linear(2 * d, d, bias=False)
        self.block = Block(shape.block())
        self.output_norm = nn.Parameter(output_norm.clone())
        cos, sin = rotary_tables(shape.context, d // shape.heads, shape.rope_base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        with torch.no_grad():
            eye = torch.eye(d)
            self.fusion.weight.copy_(torch.cat((eye, 0.5 * eye), 1) + 0.01 * torch.randn(d, 2 * d))
            for layer, std in ((self.block.q, 0.03), (self.block.k, 0.03), (self.block.v, 0.03), (self.block.o, 0.01),
                               (self.block.gate, 0.03), (self.block.up, 0.03), (self.block.down, 0.01)):  # fmt: skip
                nn.init.normal_(layer.weight, std=std)

    def fuse(self, features: Tensor, embeddings: Tensor) -> Tensor:
        e = self.shape.epsilon
        pair = (norm(features, self.feature_norm, e), norm(embeddings, self.embedding_norm, e))
        fused: Tensor = self.fusion(torch.cat(pair, -1))
        return fused

    def unroll(self, features: Tensor, embeddings: Tensor, steps: int) -> list[Tensor]:
        """Estimates of every step, each [B, T, d]; step j at x estimates f_{x + 1} from true features up to x − j.

        features: [B, T, d], the champion's; embeddings: [B, T, d] of the tokens one to the right.
        """
        length = features.shape[1]
        assert isinstance(self.cos, Tensor) and isinstance(self.sin, Tensor)
        cos, sin = self.cos[:length], self.sin[:length]
        repeat = self.shape.heads // self.shape.kv_heads
        scale = (self.shape.width // self.shape.heads) ** -0.5
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        keys: list[Tensor] = []
        values: list[Tensor] = []
        outputs: list[Tensor] = []
        current = features
        for step in range(steps):
            x = self.fuse(current, embeddings)
            q, k, v = self.block.project(x, cos, sin)
            keys.append(k.repeat_interleave(repeat, 1))
            values.append(v.repeat_interleave(repeat, 1))
            # Distance 0 … step − 1: the key at x − d was made by step − d; farther back features were true (step 0).
            scores = (q @ keys[0].transpose(-1, -2)).float() * scale
            scores = scores.masked_fill(~causal.tril(-step), float("-inf"))
            near = []
            for distance in range(step):
                shifted = _shift(keys[step - distance], distance)
                score = (q * shifted).sum(-1, keepdim=True).float() * scale
                if distance:
                    score = score.clone()
                    score[:, :, :distance] = float("-inf")
                near.append(score)
            weights = torch.softmax(torch.cat((scores, *near), -1), -1).to(v.dtype)
            attended = weights[..., :length] @ values[0]
            for distance in range(step):
                attended = attended + weights[..., length + distance, None] * _shift(values[step - distance], distance)
            out = norm(self.block.finish(x, attended), self.output_norm, self.shape.epsilon)
            outputs.append(out)
            current = torch.cat((features[:, :1], out[:, :-1]), 1)
        return outputs


def _shift(x: Tensor, distance: int) -> Tensor:
    """[B, H, T, D] moved right along T, zeros coming in."""
    if distance == 0:
        return x
    return torch.cat((torch.zeros_like(x[:, :, :distance]), x[:, :, :-distance]), 2)
