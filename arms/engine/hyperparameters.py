"""The sizes of a llama model, read from a GGUF's metadata and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..errors import ArmError
from .draft_keys import OUTPUT_ROWS
from .gguf import GgufFile

MAX_CONTEXT = 1 << 20
PER_LAYER = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
WHOLE_MODEL = ("token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight")


class UnsupportedModel(ArmError):
    """A well-formed file that this engine cannot run; the message names the part it cannot."""


@dataclass(frozen=True)
class Hyperparameters:
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dims: int
    feed_forward: int
    rope_dims: int
    rope_base: float
    rope_scale: float
    """Multiplies positions: 1 / factor of linear scaling."""
    epsilon: float
    context: int
    outputs: int
    """Rows of the head: the vocabulary, or the tokens a draft speaks."""
    feature: int = 0
    """1 for a draft that is fed its champion's hidden states."""
    inner_states: int = 0
    """Layers of the champion whose states such a draft is fed beside the last one."""

    def sizes(self) -> dict[str, float]:
        """What the native side wants."""
        return {name: float(value) for name, value in vars(self).items() if name != "context"}

    @property
    def position_policy(self) -> str:
        turn = f"base={self.rope_base!r} scale={self.rope_scale!r} dims={self.rope_dims}"
        return f"rope-interleaved {turn} context={self.context}"


class Keys:
    """A file's keys under its architecture's name; what is missing or absurd is refused by name."""

    def __init__(self, file: GgufFile) -> None:
        self.file, self.prefix = file, f"{file.architecture}."

    def fail(self, key: str, problem: str) -> UnsupportedModel:
        return UnsupportedModel(f"{self.file.path}: {self.prefix}{key} {problem}")

    def get(self, key: str, default: Any = None) -> Any:
        return self.file.metadata.get(self.prefix + key, default)

    def count(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if value is None:
            raise self.fail(key, "is missing")
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if type(value) is not int or not 1 <= value <= 1 << 24:
            raise self.fail(key, f"is {str(value)[:40]}, not a number from 1 to 2^24 that holds for every layer")
        return value

    def real(self, key: str, default: float, low: float, high: float) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
            raise self.fail(key, f"is {str(value)[:40]}, outside {low:g} to {high:g}")
        return float(value)


def _rope_scale(keys: Keys) -> float:
    kind = keys.get("rope.scaling.type", None)
    if kind not in (None, "none", "linear"):
        raise keys.fail("rope.scaling.type", f"is {str(kind)[:40]!r}; supported: none, linear")
    factor = keys.real("rope.scaling.factor", keys.real("rope.scale_linear", 1.0, 1e-3, 1e6), 1e-3, 1e6)
    return 1.0 if kind == "none" else 1.0 / factor


def _check_tensors(file: GgufFile, layers: int) -> None:
    known = set(WHOLE_MODEL) | {f"blk.{i}.{name}.weight" for i in range(layers) for name in PER_LAYER}
    for name in file.tensors:
        if name not in known and not name.endswith(".rope_freqs.weight"):
            raise UnsupportedModel(f"{file.path}: tensor {name[:80]!r} is not part of a plain llama model")
    missing = [name for name in sorted(known) if name not in file.tensors and name not in WHOLE_MODEL[2:]]
    if missing:
        raise UnsupportedModel(f"{file.path}: tensor {missing[0]} is missing ({len(missing)} in all)")


def output_ids(file: GgufFile, key: str, vocabulary: int) -> list[int] | None:
    """The token of each row of a reduced head; None where it has the whole vocabulary. Raises UnsupportedModel."""
    ids = file.metadata.get(key)
    if ids is None:
        return None
    if not isinstance(ids, list) or not 1 <= len(ids) <= vocabulary or any(type(i) is not int for i in ids):
        raise UnsupportedModel(f"{file.path}: {key} is not a list of up to {vocabulary} token ids")
    if len(set(ids)) != len(ids) or min(ids) < 0 or max(ids) >= vocabulary:
        raise UnsupportedModel(f"{file.path}: {key} repeats a token or leaves the vocabulary of {vocabulary}")
    return ids


def read_hyperparameters(file: GgufFile) -> Hyperparameters:
    """Raises UnsupportedModel (exit code 2) naming the key or tensor that is missing, absurd or unsupported."""
    file.require_loadable()
    keys = Keys(file)
    if keys.get("expert_count", 0):
        raise keys.fail("expert_count", "is set: mixtures of experts are not supported")
    layers, width, heads = keys.count("block_count"), keys.count("embedding_length"), keys.count("attention.head_count")
    if layers > 1024:
        raise keys.fail("block_count", f"is {layers}; at most 1024 layers are supported")
    kv_heads = keys.count("attention.head_count_kv", heads)
    if heads % kv_heads:
        raise keys.fail("attention.head_count", f"{heads} is not a multiple of head_count_kv {kv_heads}")
    if keys.get("attention.key_length") is None and width % heads:
        raise keys.fail("embedding_length", f"{width} is not a multiple of head_count {heads}")
    head_dims = keys.count("attention.key_length", width // heads or 1)
    if keys.count("attention.value_length", head_dims) != head_dims:
        raise keys.fail("attention.value_length", f"differs from the key length {head_dims}")
    rope_dims = keys.count("rope.dimension_count", head_dims)
    if rope_dims % 2 or rope_dims > head_dims:
        raise keys.fail("rope.dimension_count", f"is {rope_dims}; an even number up to {head_dims} is needed")
    _check_tensors(file, layers)
    context = keys.count("context_length")
    if context > MAX_CONTEXT:
        raise keys.fail("context_length", f"is {context}; at most {MAX_CONTEXT} is supported")
    embedding = file.tensors["token_embd.weight"].shape
    vocabulary = embedding[0] if len(embedding) == 2 else 1
    spoken = output_ids(file, OUTPUT_ROWS, vocabulary)
    return Hyperparameters(
        vocabulary=vocabulary,
        outputs=vocabulary if spoken is None else len(spoken),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dims=head_dims,
        feed_forward=keys.count("feed_forward_length"),
        rope_dims=rope_dims,
        rope_base=keys.real("rope.freq_base", 10000.0, 1.0, 1e12),
        rope_scale=_rope_scale(keys),
        epsilon=keys.real("attention.layer_norm_rms_epsilon", 1e-5, 0.0, 1.0),
        context=context,
    )
