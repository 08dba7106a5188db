"""The small random models the engine's tests run on, and a way to run tokens through them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from draftgate.arms.engine import _native
from draftgate.arms.engine.engine import NativeEngine

from .reference import Shape

ODD = {
    "q4_1 tied": Shape(types=("Q4_1",), seed=1),
    "q4_0 multi-query": Shape(
        types=("Q4_0",), embedding_type="Q4_0", width=320, heads=5, kv_heads=1, head_dims=64, seed=2,
    ),
    "q8_0 separate head": Shape(types=("Q8_0",), embedding_type="Q4_1", tied=False, vocabulary=131, seed=3),
    "float, no size a multiple of anything": Shape(
        types=("F16", "F32"), embedding_type="F16", width=52, heads=2, kv_heads=1, head_dims=26, feed_forward=75,
        vocabulary=101, rope_dims=14, linear_factor=4.0, seed=4,
    ),
    "every type, three queries a key": Shape(
        types=("Q4_0", "Q4_1", "Q8_0", "F16", "F32"), width=96, layers=3, heads=6, kv_heads=2, head_dims=48,
        feed_forward=160, rope_factors=True, tied=False, seed=5,
    ),
    "no grouping": Shape(types=("Q4_1", "Q8_0"), embedding_type="F32", heads=2, kv_heads=2, head_dims=32, seed=6),
}  # fmt: skip
SETS = ("portable", "avx2", "avx512")


def available_sets() -> list[str]:
    """The kernel sets this machine runs; the portable one always."""
    found = []
    for name in SETS:
        try:
            _native.check_kernel(name)
        except ValueError:
            continue
        found.append(name)
    return found


def some_tokens(count: int, vocabulary: int, seed: int = 0) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(0, vocabulary, count)]


def run(engine: NativeEngine, tokens: Sequence[int], calls: Sequence[int]) -> tuple[np.ndarray, np.ndarray, str]:
    """Logits, hidden states (the last, then what leaves the first and the last layer) and the cache's fingerprint.

    calls: sizes of the calls that the tokens are split into, cycled.
    """
    cache = engine.new_cache(len(tokens))
    tx = cache.begin()
    rows, states, done = [], [], 0
    for size in itertools.cycle(calls):
        piece = tokens[done : done + size]
        logits, hidden = engine.verify_with_hidden(tx, piece, layers=(0, engine.sizes.layers - 1))
        rows.append(logits)
        states.append(hidden)
        done += len(piece)
        if done == len(tokens):
            break
    tx.commit_prefix(done)
    return np.concatenate(rows), np.concatenate(states), cache.fingerprint()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def model_path(folder: Path, name: str) -> Path:
    return folder / f"{list(ODD).index(name)}.gguf"
