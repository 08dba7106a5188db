"""An independent llama in float64 numpy, and a writer of small random GGUF files. Shares no code with the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
QUANTS = {
    "F32": gguf.GGMLQuantizationType.F32,
    "F16": gguf.GGMLQuantizationType.F16,
    "Q8_0": gguf.GGMLQuantizationType.Q8_0,
    "Q4_0": gguf.GGMLQuantizationType.Q4_0,
    "Q4_1": gguf.GGMLQuantizationType.Q4_1,
}


@dataclass(frozen=True)
class Shape:
    """A small llama. Widths that feed quantised matrices must be multiples of 32; everything else may be odd."""

    vocabulary: int = 97
    width: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dims: int = 16
    feed_forward: int = 96
    context: int = 512
    tied: bool = True
    types: tuple[str, ...] = ("Q4_1",)
    """Cycled over the matrices in order of writing."""
    embedding_type: str = "Q8_0"
    rope_dims: int | None = None
    rope_base: float = 10000.0
    linear_factor: float | None = None
    rope_factors: bool = False
    seed: int = 0
    poison: dict[str, float] = field(default_factory=dict)
    """Tensor name -> value planted in the middle of an F32 or F16 tensor."""
    speaks: bool = False
    """A tokenizer of bytes, one merge and an end token (vocabulary 258), a licence and a chat template."""


def _speak(writer: gguf.GGUFWriter) -> None:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in printable]
    characters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*(characters[b] for b in range(256)), "th", "<|im_end|>"])
    writer.add_token_types([1] * 257 + [3])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(257)
    writer.add_license("apache-2.0")
    writer.add_chat_template("{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>\n{% endfor %}"
                             "{% if add_generation_prompt %}assistant: {% endif %}")  # fmt: skip


def write_model(path: Path, shape: Shape) -> Path:
    """Write the model that `shape` describes; the tokenizer is a list of dummy tokens."""
    rng = np.random.default_rng(shape.seed)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_vocab_size(shape.vocabulary)
    if shape.head_dims * shape.heads != shape.width:
        writer.add_key_length(shape.head_dims)
        writer.add_value_length(shape.head_dims)
    if shape.rope_dims is not None:
        writer.add_rope_dimension_count(shape.rope_dims)
    if shape.linear_factor is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(shape.linear_factor)
    writer.add_tokenizer_model("gpt2")
    if shape.speaks:
        _speak(writer)
    else:
        writer.add_token_list([f"t{i}" for i in range(shape.vocabulary)])

    def add(name: str, rows: int, columns: int, kind: str, scale: float = 1.0, mean: float = 0.0) -> None:
        size = (columns,) if rows == 0 else (rows, columns)
        values = (rng.normal(size=size) * scale + mean).astype(np.float32)
        quant = QUANTS[kind]
        if kind == "F32":
            data = values
        elif kind == "F16":
            data = values.astype(np.float16)
        else:
            data = gguf.quants.quantize(values, quant)
        if name in shape.poison:
            data.reshape(-1)[data.size // 2] = shape.poison[name]
        writer.add_tensor(name, data, raw_dtype=quant)

    kinds = [k for k in shape.types]
    turn = iter(kinds * (8 * shape.layers + 8))
    add("token_embd.weight", shape.vocabulary, shape.width, shape.embedding_type)
    for i in range(shape.layers):
        query, key = shape.heads * shape.head_dims, shape.kv_heads * shape.head_dims
        add(f"blk.{i}.attn_norm.weight", 0, shape.width, "F32", 0.2, 1.0)
        add(f"blk.{i}.attn_q.weight", query, shape.width, next(turn), 1.5 / shape.width**0.5)
        add(f"blk.{i}.attn_k.weight", key, shape.width, next(turn), 1.5 / shape.width**0.5)
        add(f"blk.{i}.attn_v.weight", key, shape.width, next(turn), 1.0 / shape.width**0.5)
        add(f"blk.{i}.attn_output.weight", shape.width, query, next(turn), 1.0 / query**0.5)
        add(f"blk.{i}.ffn_norm.weight", 0, shape.width, "F32", 0.2, 1.0)
        add(f"blk.{i}.ffn_gate.weight", shape.feed_forward, shape.width, next(turn), 1.0 / shape.width**0.5)
        add(f"blk.{i}.ffn_up.weight", shape.feed_forward, shape.width, next(turn), 1.0 / shape.width**0.5)
        add(f"blk.{i}.ffn_down.weight", shape.width, shape.feed_forward, next(turn), 1.0 / shape.feed_forward**0.5)
    add("output_norm.weight", 0, shape.width, "F32", 0.2, 1.0)
    if not shape.tied:
        add("output.weight", shape.vocabulary, shape.width, next(turn), 2.0 / shape.width**0.5)
    if shape.rope_factors:
        pairs = (shape.rope_dims or shape.head_dims) // 2
        writer.add_tensor("rope_freqs.weight", (1.0 + rng.random(pairs) * 4).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class Reference:
    """Full-precision forward pass over dequantised weights; keys and values are rounded to half, as in the cache.

    ``int8_inputs`` also rounds what goes into quantised matrices, in the declared way, which leaves only float error.
    """

    def __init__(self, path: Path, int8_inputs: bool = False) -> None:
        reader = gguf.GGUFReader(str(path))
        self.int8_inputs = int8_inputs
        self.kinds = {t.name: t.tensor_type.name for t in reader.tensors}
        self.weights: dict[str, Array] = {}
        for t in reader.tensors:
            values = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64)
            self.weights[t.name] = values.reshape([int(n) for n in reversed(t.shape)])
        keys = {name: part.contents() for name, part in reader.fields.items() if name.startswith("llama.")}
        self.layers = keys["llama.block_count"]
        self.heads, self.kv_heads = keys["llama.attention.head_count"], keys["llama.attention.head_count_kv"]
        self.dims = keys.get("llama.attention.key_length", keys["llama.embedding_length"] // self.heads)
        self.rope_dims = keys.get("llama.rope.dimension_count", self.dims)
        self.base = float(keys["llama.rope.freq_base"])
        self.position_scale = 1.0 / keys.get("llama.rope.scaling.factor", 1.0)
        self.epsilon = float(keys["llama.attention.layer_norm_rms_epsilon"])

    def product(self, name: str, x: Array) -> Array:
        if self.int8_inputs and self.kinds[name].startswith("Q"):
            blocks = x.reshape(len(x), -1, 32)
            scale = np.abs(blocks).max(axis=2, keepdims=True) / 127.0
            x = (np.rint(blocks / np.where(scale == 0, 1, scale)) * scale).reshape(x.shape)
        return x @ self.weights[name].T

    def norm(self, name: str, x: Array) -> Array:
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + self.epsilon) * self.weights[name].reshape(-1)

    def turn(self, x: Array) -> Array:
        """[tokens, heads, dims]: neighbouring pairs turned by position times frequency."""
        pairs = self.rope_dims // 2
        frequency = self.base ** (-np.arange(pairs) * 2.0 / self.rope_dims)
        if "rope_freqs.weight" in self.weights:
            frequency = frequency / self.weights["rope_freqs.weight"].reshape(-1)
        angle = np.outer(np.arange(len(x)) * self.position_scale, frequency)[:, None, :]
        out = x.copy()
        even, odd = x[:, :, 0 : 2 * pairs : 2], x[:, :, 1 : 2 * pairs : 2]
        out[:, :, 0 : 2 * pairs : 2] = even * np.cos(angle) - odd * np.sin(angle)
        out[:, :, 1 : 2 * pairs : 2] = even * np.sin(angle) + odd * np.cos(angle)
        return out

    def attention(self, i: int, x: Array) -> Array:
        n, group = len(x), self.heads // self.kv_heads
        q = self.turn(self.product(f"blk.{i}.attn_q.weight", x).reshape(n, self.heads, self.dims))
        k = self.turn(self.product(f"blk.{i}.attn_k.weight", x).reshape(n, self.kv_heads, self.dims))
        v = self.product(f"blk.{i}.attn_v.weight", x).reshape(n, self.kv_heads, self.dims)
        k, v = (part.astype(np.float16).astype(np.float64).repeat(group, axis=1) for part in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(self.dims)
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        return np.einsum("hij,jhd->ihd", weights, v).reshape(n, -1)

    def forward(self, tokens: list[int]) -> tuple[Array, Array]:
        """Logits [tokens, vocabulary] and hidden states [tokens, 3 width]: after the output norm, and what leaves the
        first and the last layer."""
        x = self.weights["token_embd.weight"][tokens]
        left = []
        for i in range(self.layers):
            attended = self.attention(i, self.norm(f"blk.{i}.attn_norm.weight", x))
            x = x + self.product(f"blk.{i}.attn_output.weight", attended)
            h = self.norm(f"blk.{i}.ffn_norm.weight", x)
            gate = self.product(f"blk.{i}.ffn_gate.weight", h)
            up = self.product(f"blk.{i}.ffn_up.weight", h)
            x = x + self.product(f"blk.{i}.ffn_down.weight", gate / (1.0 + np.exp(-gate)) * up)
            left.append(x)
        hidden = self.norm("output_norm.weight", x)
        head = "output.weight" if "output.weight" in self.weights else "token_embd.weight"
        return self.product(head, hidden), np.concatenate((hidden, left[0], left[-1]), axis=1)
