"""Trained modules to GGUF files the engine loads. Writing uses the `gguf` package (extra `train`)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import torch

from ..engine.draft_keys import (
    CHAMPION_SHA256,
    FEATURE_ARCHITECTURE,
    HEAD_ROWS,
    HEAD_TYPE,
    INNER_LAYERS,
    OUTPUT_ROWS,
    TOKENIZER_SHA256,
)
from .feature_model import FeatureDraft
from .llama_model import Block, Llama

Quantisation = gguf.GGMLQuantizationType


def _add(writer: gguf.GGUFWriter, name: str, weight: torch.Tensor, kind: Quantisation) -> None:
    array = weight.detach().float().numpy()
    if array.ndim == 1 or array.shape[-1] % 32 != 0:
        writer.add_tensor(name, np.ascontiguousarray(array, dtype=np.float32))
        return
    writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)


def _add_block(writer: gguf.GGUFWriter, index: int, block: Block, kind: Quantisation) -> None:
    prefix = f"blk.{index}."
    _add(writer, prefix + "attn_norm.weight", block.attn_norm, kind)
    _add(writer, prefix + "ffn_norm.weight", block.ffn_norm, kind)
    for name, layer in (("attn_q", block.q), ("attn_k", block.k), ("attn_v", block.v), ("attn_output", block.o),
                        ("ffn_gate", block.gate), ("ffn_up", block.up), ("ffn_down", block.down)):  # fmt: skip
        _add(writer, f"{prefix}{name}.weight", layer.weight, kind)


def _describe(writer: gguf.GGUFWriter, shape: Any, layers: int, name: str, licence: str) -> None:
    writer.add_name(name)
    writer.add_license(licence)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)


def _close(writer: gguf.GGUFWriter, temporary: Path, path: Path) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open(temporary, "rb") as stream:
        os.fsync(stream.fileno())
    os.replace(temporary, path)


def write_feature(
    path: Path,
    module: FeatureDraft,
    rows: npt.NDArray[np.int64],
    inner_layers: Sequence[int],
    champion_sha256: str,
    tokenizer_sha256: str,
    licence: str,
    kind: Quantisation = Quantisation.Q4_1,
) -> None:
    """A feature draft: its own weights and the list of head rows; the head itself stays in the champion's file."""
    temporary = path.with_name(path.name + ".part")
    writer = gguf.GGUFWriter(temporary, FEATURE_ARCHITECTURE)
    _describe(writer, module.shape, 1, path.stem, licence)
    writer.add_string(CHAMPION_SHA256, champion_sha256)
    writer.add_string(TOKENIZER_SHA256, tokenizer_sha256)
    writer.add_array(HEAD_ROWS, [int(r) for r in rows])
    if kind == Quantisation.Q4_1:
        writer.add_string(HEAD_TYPE, kind.name)
    if inner_layers:
        writer.add_array(INNER_LAYERS, [int(layer) for layer in inner_layers])
    _add(writer, "feature_norm.weight", module.feature_norm, kind)
    _add(writer, "embedding_norm.weight", module.embedding_norm, kind)
    _add(writer, "fusion.weight", module.fusion.weight, kind)
    for index, weight in enumerate(module.inner_norms):
        _add(writer, f"inner_norm.{index}.weight", weight, kind)
    if module.fusion_inner is not None:
        _add(writer, "fusion_inner.weight", module.fusion_inner.weight, kind)
    _add_block(writer, 0, module.block, kind)
    _add(writer, "output_norm.weight", module.output_norm, kind)
    _close(writer, temporary, path)


def write_llama(
    path: Path,
    module: Llama,
    tokenizer_metadata: Mapping[str, Any],
    rows: npt.NDArray[np.int64] | None,
    licence: str,
    kind: Quantisation = Quantisation.Q8_0,
) -> None:
    """A Llama of its own, with the tokenizer fields of the file it was trained for.

    ``rows``: ids of a reduced output vocabulary, in the order of the head's rows; None when the head is whole.
    """
    temporary = path.with_name(path.name + ".part")
    writer = gguf.GGUFWriter(temporary, "llama")
    _describe(writer, module.shape, module.shape.layers, path.stem, licence)
    writer.add_vocab_size(module.shape.vocabulary)
    for key, value in tokenizer_metadata.items():
        _add_field(writer, key, value)
    if rows is not None:
        writer.add_array(OUTPUT_ROWS, [int(r) for r in rows])
    _add(writer, "token_embd.weight", module.embedding.weight, kind)
    for index, block in enumerate(module.blocks):
        assert isinstance(block, Block)
        _add_block(writer, index, block, kind)
    _add(writer, "output_norm.weight", module.output_norm, kind)
    if module.head is not None:
        _add(writer, "output.weight", module.head.weight, kind)
    _close(writer, temporary, path)


def _add_field(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, list(value))
