"""Rows of a champion's head in four bits (Q4_1), for a draft: its guesses need not be as fine as champion rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK = 32
FOUR_BITS = "Q4_1"


def to_four_bits(raw: npt.NDArray[np.uint8], kind: str, width: int) -> npt.NDArray[np.uint8]:
    """Rows uint8 [n, bytes of a row] of type F32, F16 or Q8_0 as Q4_1: uint8 [n, width / 32 * 20].

    A block is its scale and least value in half precision, then 16 bytes with values i and i + 16 in each. Raises
    ValueError for another type, or a width that is not whole blocks.
    """
    if width % BLOCK:
        raise ValueError(f"a width of {width} is not whole blocks of {BLOCK}")
    blocks = _values(raw, kind).reshape(len(raw), width // BLOCK, BLOCK)
    least = blocks.min(-1, keepdims=True).astype(np.float16)
    scale = ((blocks.max(-1, keepdims=True) - least) / 15).astype(np.float16)
    whole = np.where(scale > 0, scale, 1).astype(np.float32)
    codes = np.clip(np.rint((blocks - least) / whole), 0, 15).astype(np.uint8)
    packed = codes[..., :16] | codes[..., 16:] << 4
    ends = np.concatenate((scale, least), -1).view(np.uint8)
    return np.concatenate((ends, packed), -1).reshape(len(raw), -1)


def _values(raw: npt.NDArray[np.uint8], kind: str) -> npt.NDArray[np.float32]:
    raw = np.ascontiguousarray(raw)
    if kind == "F32":
        return raw.view(np.float32)
    if kind == "F16":
        return raw.view(np.float16).astype(np.float32)
    if kind != "Q8_0":
        raise ValueError(f"rows of type {kind} are not requantised")
    blocks = raw.reshape(-1, 34)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    values: npt.NDArray[np.float32] = scales * blocks[:, 2:].view(np.int8)
    return values.reshape(len(raw), -1)
