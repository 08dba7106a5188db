"""The feature draft: one decoder layer on the champion's hidden states (after EAGLE, arXiv:2401.15077), in torch.

Input at position x: the champion's hidden state f_x (after its output norm) and the embedding of token x + 1; output:
an estimate of f_{x + 1}, whose product with rows of the champion's own head gives the distribution of token x + 2.
States of inner layers may come in beside f_x (after EAGLE-3, arXiv:2503.01840): the last one is made to tell the next
token, and layers before it know more of what follows. Where the draft goes on from its own estimate there are none.
Unrolled training (as HASS, arXiv:2408.15766): in step j the query at x sees true features up to x − j and the draft's
own estimates after that, exactly what it will see when it drafts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .llama_model import Block, LlamaShape, norm, rotary_tables, rotate


@dataclass(frozen=True)
class FeatureShape:
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    context: int
    rope_base: float
    epsilon: float
    inner: int = 0
    """Inner layers whose states come in."""

    def block(self) -> LlamaShape:
        return LlamaShape(
            0, self.width, 1, self.heads, self.kv_heads, self.feed_forward, self.context, self.rope_base, self.epsilon
        )


class FeatureDraft(nn.Module):
    """Parameters: input norms, a fusion of [estimate, embedding] and, with inner states, one of [state, inner states,
    embedding], one block, the output norm."""

    def __init__(self, shape: FeatureShape, output_norm: Tensor) -> None:
        super().__init__()
        self.shape = shape
        d = shape.width
        self.feature_norm = nn.Parameter(torch.ones(d))
        self.embedding_norm = nn.Parameter(torch.ones(d))
        self.fusion = nn.Linear(2 * d, d, bias=False)
        self.inner_norms = nn.ParameterList(torch.ones(d) for _ in range(shape.inner))
        self.fusion_inner = nn.Linear((2 + shape.inner) * d, d, bias=False) if shape.inner else None
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

    def parts(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """The normed inputs of a fusion side by side: [..., 2 d] of estimates [..., d], or [..., (2 + inner) d] of the
        champion's states [..., (1 + inner) d]."""
        e, each = self.shape.epsilon, torch.split(states, self.shape.width, -1)
        inner = [norm(state, weight, e) for state, weight in zip(each[1:], self.inner_norms, strict=False)]
        return torch.cat((norm(each[0], self.feature_norm, e), *inner, norm(embeddings, self.embedding_norm, e)), -1)

    def fuse(self, states: Tensor, embeddings: Tensor) -> Tensor:
        whole = self.fusion_inner is not None and states.shape[-1] > self.shape.width
        layer = self.fusion_inner if whole and self.fusion_inner is not None else self.fusion
        fused: Tensor = layer(self.parts(states, embeddings))
        return fused

    def unroll(self, features: Tensor, embeddings: Tensor, steps: int, wanted: Tensor) -> list[Tensor]:
        """Estimates of every step at the positions wanted, each [M, d] in row-major order of ``wanted``.

        features: [B, T, (1 + inner) d], the champion's; embeddings: [B, T, d] of the tokens one to the right; wanted:
        bool [B, T].
        Step j at x estimates f_{x + 1} from true features up to x − j. Where a row's wanted positions begin, its first
        j estimates of step j lack the draft's own features before them: leave them out of loss and figures.
        Positions not wanted (prompts, padding) cost no query and no feed-forward, only their keys and values.
        """
        places = wanted.flatten().nonzero().squeeze(1)
        column = places % wanted.shape[1]
        follows = torch.zeros_like(places, dtype=torch.bool)
        follows[1:] = (places[1:] == places[:-1] + 1) & (column[1:] > 0)
        tokens = embeddings.flatten(0, 1)[places]
        whole = self.fuse(features, embeddings)
        causal = torch.ones(wanted.shape[1], wanted.shape[1], dtype=torch.bool).tril()
        keys: list[Tensor] = []
        values: list[Tensor] = []
        outputs: list[Tensor] = []
        for step in range(steps):
            if step == 0:
                x = first = whole.flatten(0, 1)[places]
                k, v = self._keys_values(whole.flatten(0, 1), torch.arange(wanted.shape[1]).repeat(wanted.shape[0]))
            else:
                last = outputs[-1]
                shifted = torch.cat((last[:1], last[:-1]))
                x = torch.where(follows[:, None], self.fuse(shifted, tokens), first)
                k, v = (self._spread(part, places, wanted) for part in self._keys_values(x, column))
            keys.append(self._heads(k, wanted))
            values.append(self._heads(v, wanted))
            query = self._heads(self._spread(self._query(x, column), places, wanted), wanted)
            attended = self._attend(query, keys, values, causal.tril(-step))
            flat = attended.transpose(1, 2).flatten(0, 1).flatten(1)[places]
            outputs.append(norm(self.block.finish_tokens(x, flat), self.output_norm, self.shape.epsilon))
        return outputs

    def _attend(self, query: Tensor, keys: list[Tensor], values: list[Tensor], far: Tensor) -> Tensor:
        """[B, H, T, D]; ``far`` [T, T] tells which keys of true features a query may see.

        Distance 0 … step − 1: the key at x − d was made by step − d; farther back features were true (step 0).
        """
        step, length = len(keys) - 1, query.shape[2]
        if step == 0:
            return F.scaled_dot_product_attention(query, keys[0], values[0], is_causal=True)
        scale = query.shape[-1] ** -0.5
        scores = (query @ keys[0].transpose(-1, -2)).float() * scale
        scores = scores.masked_fill(~far, float("-inf"))
        near = []
        for distance in range(step):
            score = (query * _shift(keys[step - distance], distance)).sum(-1, keepdim=True).float() * scale
            if distance:
                score = score.clone()
                score[:, :, :distance] = float("-inf")
            near.append(score)
        weights = torch.softmax(torch.cat((scores, *near), -1), -1).to(query.dtype)
        attended = weights[..., :length] @ values[0]
        for distance in range(step):
            attended = attended + weights[..., length + distance, None] * _shift(values[step - distance], distance)
        return attended

    def _query(self, x: Tensor, column: Tensor) -> Tensor:
        """Rotated queries [M, H, D] of tokens x [M, d] that stand at ``column``."""
        h = norm(x, self.block.attn_norm, self.shape.epsilon)
        return self._rotate(self.block.q(h).unflatten(1, (self.shape.heads, -1)), column)

    def _keys_values(self, x: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated keys and values [M, KV, D] of tokens x [M, d] that stand at ``column``."""
        h = norm(x, self.block.attn_norm, self.shape.epsilon)
        k, v = (layer(h).unflatten(1, (self.shape.kv_heads, -1)) for layer in (self.block.k, self.block.v))
        return self._rotate(k, column), v

    def _rotate(self, x: Tensor, column: Tensor) -> Tensor:
        assert isinstance(self.cos, Tensor) and isinstance(self.sin, Tensor)
        return rotate(x, self.cos[column, None], self.sin[column, None])

    def _spread(self, tokens: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
        """Tokens [M, …] put at their places of [B · T, …], zeros elsewhere."""
        empty = tokens.new_zeros(wanted.numel(), *tokens.shape[1:])
        return empty.index_copy(0, places, tokens)

    def _heads(self, tokens: Tensor, wanted: Tensor) -> Tensor:
        """[B · T, KV or H, D] as [B, H, T, D]."""
        parted = tokens.view(*wanted.shape, *tokens.shape[1:]).transpose(1, 2)
        return parted.repeat_interleave(self.shape.heads // parted.shape[1], 1)


def _shift(x: Tensor, distance: int) -> Tensor:
    """[B, H, T, D] moved right along T, zeros coming in."""
    if distance == 0:
        return x
    return torch.cat((torch.zeros_like(x[:, :, :distance]), x[:, :, :-distance]), 2)
