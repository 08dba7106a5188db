"""The golden self-test of the declared arithmetic: a small synthetic model, its logits and cache hashed.

Sizes are odd on purpose, every tensor type takes part, and the sequence crosses a tile of positions. Every kernel set,
thread count and machine must give the same hash; a plan stores it (``arithmetic.golden``).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from . import _native

GOLDEN = "699835ce21a0be9a1ee16fb6e527c9194c054aa728c3acc388b78dcd95be241b"
"""Of arithmetic version 1."""

_SIZES = {
    "vocabulary": 83.0,
    "width": 96.0,
    "layers": 2.0,
    "heads": 6.0,
    "kv_heads": 2.0,
    "head_dims": 48.0,
    "feed_forward": 160.0,
    "rope_dims": 40.0,
    "rope_base": 10000.0,
    "rope_scale": 0.5,
    "epsilon": 1e-5,
    "outputs": 83.0,
    "feature": 0.0,
    "inner_states": 0.0,
}
_BLOCKS = {"Q4_0": (18, (0,)), "Q4_1": (20, (0, 2)), "Q8_0": (34, (0,))}
"""Type -> bytes a block of 32, and where its half-precision numbers lie."""
_TYPES = ("Q4_1", "Q4_0", "Q8_0", "F16", "F32")
_TOKENS = 150


def _bytes(name: str, count: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(hashlib.shake_256(f"draftgate {name}".encode()).digest(count), np.uint8).copy()


def _small_halves(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Any two bytes to a half of either sign between 2^-7 and 2^-5."""
    bits = raw.reshape(-1, 2).astype(np.int64)
    halves = ((bits[:, 0] & 0x80) << 8) | (0x2000 + (((bits[:, 0] & 7) << 8) | bits[:, 1]))
    return np.frombuffer(halves.astype("<u2").tobytes(), np.uint8)


def _tensor(name: str, kind: str, rows: int, columns: int) -> npt.NDArray[np.uint8]:
    if kind in _BLOCKS:
        size, numbers = _BLOCKS[kind]
        blocks = _bytes(name, rows * columns // 32 * size).reshape(-1, size)
        for at in numbers:
            blocks[:, at : at + 2] = _small_halves(np.ascontiguousarray(blocks[:, at : at + 2])).reshape(-1, 2)
        return blocks.reshape(-1)
    if kind == "F16":
        return _small_halves(_bytes(name, rows * columns * 2))
    whole = np.frombuffer(_bytes(name, rows * columns * 2).tobytes(), "<i2").astype(np.float32)
    values = whole / np.float32(2**18) + np.float32(1.0 if name.endswith("norm.weight") else 0.0)
    return np.frombuffer(values.astype("<f4").tobytes(), np.uint8)


def _model() -> tuple[npt.NDArray[np.uint8], dict[str, tuple[str, int, int, int]]]:
    n = {name: int(value) for name, value in _SIZES.items() if value >= 1}
    query, key = n["heads"] * n["head_dims"], n["kv_heads"] * n["head_dims"]
    shapes: list[tuple[str, int, int]] = []
    for i in range(n["layers"]):
        shapes += [
            (f"blk.{i}.attn_norm.weight", 1, n["width"]),
            (f"blk.{i}.attn_q.weight", query, n["width"]),
            (f"blk.{i}.attn_k.weight", key, n["width"]),
            (f"blk.{i}.attn_v.weight", key, n["width"]),
            (f"blk.{i}.attn_output.weight", n["width"], query),
            (f"blk.{i}.ffn_norm.weight", 1, n["width"]),
            (f"blk.{i}.ffn_gate.weight", n["feed_forward"], n["width"]),
            (f"blk.{i}.ffn_up.weight", n["feed_forward"], n["width"]),
            (f"blk.{i}.ffn_down.weight", n["width"], n["feed_forward"]),
        ]
    shapes += [("output_norm.weight", 1, n["width"])]
    shapes += [(name, n["vocabulary"], n["width"]) for name in ("output.weight", "token_embd.weight")]
    parts, tensors, offset = [], {}, 0
    for index, (name, rows, columns) in enumerate(shapes):
        kind = "F32" if rows == 1 else _TYPES[index % len(_TYPES)]
        data = _tensor(name, kind, rows, columns)
        tensors[name] = (kind, rows, columns, offset)
        parts.append(data)
        offset += len(data)
    return np.concatenate(parts), tensors


def arithmetic_self_test(kernel: str = "", threads: int = 1) -> str:
    """sha256 over logits and cache of the synthetic model; equals `GOLDEN` on every machine that keeps the arithmetic.

    ``kernel`` as for `NativeEngine.load` ("" is the fastest). Raises ValueError for a kernel set this machine lacks.
    """
    data, tensors = _model()
    engine = _native.Engine(data, _SIZES, tensors, threads, kernel, False)
    cache = _native.KeyValues(int(_SIZES["layers"]), int(_SIZES["kv_heads"]), int(_SIZES["head_dims"]), _TOKENS)
    tokens = np.arange(_TOKENS, dtype=np.int64) * 37 % int(_SIZES["vocabulary"])
    digest = hashlib.sha256()
    start = 0
    for count in (1, 5, _TOKENS - 6):
        logits = np.empty((count, int(_SIZES["vocabulary"])), np.float32)
        piece = np.ascontiguousarray(tokens[start : start + count])
        if not engine.forward([(cache, start, piece)], 0, logits, np.empty((0, int(_SIZES["width"])), np.float32)):
            raise ArithmeticError("the self-test's model met NaN or infinity")
        digest.update(logits.astype("<f4", copy=False).tobytes())
        start += count
    halves = np.empty(_TOKENS * int(_SIZES["layers"] * _SIZES["kv_heads"] * _SIZES["head_dims"] * 2), np.uint16)
    cache.read(_TOKENS, halves)
    digest.update(halves.astype("<u2", copy=False).tobytes())
    return digest.hexdigest()
