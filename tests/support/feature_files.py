"""A random feature draft for a small model, and one of its steps in float64 numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from draftgate.arms.engine.draft_keys import (
    CHAMPION_SHA256,
    FEATURE_ARCHITECTURE,
    HEAD_ROWS,
    HEAD_TYPE,
    INNER_LAYERS,
    TOKENIZER_SHA256,
)

Array = npt.NDArray[Any]


def write_feature_draft(
    path: Path,
    champion_sha256: str,
    width: int,
    rows: list[int],
    heads: int = 4,
    seed: int = 0,
    tokenizer_sha256: str | None = None,
    inner: list[int] | None = None,
    head_type: str | None = None,
) -> Path:
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), FEATURE_ARCHITECTURE)
    writer.add_block_count(1)
    writer.add_context_length(256)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_string(CHAMPION_SHA256, champion_sha256)
    if tokenizer_sha256 is not None:
        writer.add_string(TOKENIZER_SHA256, tokenizer_sha256)
    writer.add_array(HEAD_ROWS, rows)
    if inner:
        writer.add_array(INNER_LAYERS, inner)
    if head_type:
        writer.add_string(HEAD_TYPE, head_type)
    key = width // 2
    shapes = {
        "fusion": (width, 2 * width), "blk.0.attn_q": (width, width), "blk.0.attn_k": (key, width),
        "blk.0.attn_v": (key, width), "blk.0.attn_output": (width, width), "blk.0.ffn_gate": (2 * width, width),
        "blk.0.ffn_up": (2 * width, width), "blk.0.ffn_down": (width, 2 * width),
    }  # fmt: skip
    if inner:
        shapes["fusion_inner"] = (width, (2 + len(inner)) * width)
    for name, shape in shapes.items():
        values = (rng.normal(size=shape) * 1.5 / shape[1] ** 0.5).astype(np.float32)
        writer.add_tensor(f"{name}.weight", values)
    inner_norms = [f"inner_norm.{i}" for i in range(len(inner or []))]
    for name in ("feature_norm", "embedding_norm", "output_norm", "blk.0.attn_norm", "blk.0.ffn_norm", *inner_norms):
        writer.add_tensor(f"{name}.weight", (1 + 0.2 * rng.normal(size=width)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def reference_states(path: Path, features: Array, embeddings: Array) -> Array:
    """States [n, d] of the draft over the pairs (features[i], embeddings[i]), all from place 0.

    features: [n, d], estimates, or [n, (1 + inner) d], the champion's.
    """
    reader = gguf.GGUFReader(str(path))
    w = {t.name: np.array(t.data, np.float64).reshape([int(n) for n in reversed(t.shape)]) for t in reader.tensors}
    heads = int(reader.fields[f"{FEATURE_ARCHITECTURE}.attention.head_count"].contents())
    n, d = embeddings.shape
    dims, kv = d // heads, heads // 2

    def norm(name: str, x: Array) -> Array:
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w[f"{name}.weight"]

    def turned(x: Array) -> Array:
        angle = np.outer(np.arange(n), 10000.0 ** (-np.arange(dims // 2) * 2 / dims))[:, None, :]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * np.cos(angle) - x[..., 1::2] * np.sin(angle)
        out[..., 1::2] = x[..., 0::2] * np.sin(angle) + x[..., 1::2] * np.cos(angle)
        return out

    first, *inner = np.split(features, features.shape[1] // d, 1)
    middle = [norm(f"inner_norm.{i}", state) for i, state in enumerate(inner)]
    parts = (norm("feature_norm", first), *middle, norm("embedding_norm", embeddings))
    x = np.concatenate(parts, 1) @ w["fusion_inner.weight" if inner else "fusion.weight"].T
    h = norm("blk.0.attn_norm", x)
    q = turned((h @ w["blk.0.attn_q.weight"].T).reshape(n, heads, dims))
    k = turned((h @ w["blk.0.attn_k.weight"].T).reshape(n, kv, dims)).repeat(2, 1)
    v = (h @ w["blk.0.attn_v.weight"].T).reshape(n, kv, dims).repeat(2, 1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(dims)
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    weights /= weights.sum(2, keepdims=True)
    x = x + np.einsum("hij,jhd->ihd", weights, v).reshape(n, d) @ w["blk.0.attn_output.weight"].T
    h = norm("blk.0.ffn_norm", x)
    gate = h @ w["blk.0.ffn_gate.weight"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["blk.0.ffn_up.weight"].T)) @ w["blk.0.ffn_down.weight"].T
    return norm("output_norm", x)
