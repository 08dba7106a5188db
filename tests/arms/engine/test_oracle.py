"""The engine against an independent llama in float64 numpy (reference.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draftgate.arms.engine.engine import NativeEngine

from .models import ODD, run, some_tokens
from .reference import Reference, Shape, write_model

FLOAT_ERROR = 1e-4
"""Share of the logits' root mean square: single precision and keys rounded to half, no int8."""
INT8_ERROR = 0.04
"""The same with inputs of products rounded to 1/127 of the largest of 32: some 1 % a product, over a few layers."""


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()))


@pytest.mark.parametrize("name", ODD)
def test_logits_and_hidden_states_agree_within_the_quantisation_error(tmp_path: Path, name: str) -> None:
    path = write_model(tmp_path / "m.gguf", ODD[name])
    tokens = some_tokens(170, ODD[name].vocabulary, seed=7)
    logits, hidden, _ = run(NativeEngine.load(path), tokens, [170])
    expected_logits, expected_hidden = Reference(path).forward(tokens)
    limit = FLOAT_ERROR if set(ODD[name].types) <= {"F16", "F32"} and ODD[name].embedding_type[0] == "F" else INT8_ERROR
    assert error(logits, expected_logits) < limit
    for found, expected in zip(np.split(hidden, 3, 1), np.split(expected_hidden, 3, 1), strict=True):
        assert error(found, expected) < limit


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_rounding_inputs_to_int8_explains_the_difference(tmp_path: Path, kind: str) -> None:
    """With the declared rounding of inputs in the reference as well, only rare rounding ties are left."""
    path = write_model(tmp_path / "m.gguf", Shape(types=(kind,), layers=1, tied=False, embedding_type="Q8_0"))
    tokens = some_tokens(60, 97)
    logits, _, _ = run(NativeEngine.load(path), tokens, [60])
    plain, rounded = Reference(path).forward(tokens)[0], Reference(path, int8_inputs=True).forward(tokens)[0]
    assert error(logits, rounded) < 2e-3 < 5e-3 < error(logits, plain)
    per_row = np.sqrt(((logits - rounded) ** 2).mean(axis=1) / (rounded**2).mean())
    assert np.median(per_row) < 2e-4


@pytest.mark.parametrize(
    "shape",
    [
        Shape(types=("F32",), embedding_type="F32", linear_factor=8.0, seed=1),
        Shape(types=("F32",), embedding_type="F32", rope_base=1e6, rope_factors=True, seed=2),
        Shape(types=("F32",), embedding_type="F32", rope_dims=8, seed=3),
    ],
    ids=["linear scaling", "frequency factors", "partial rotation"],
)
def test_positions_far_out_turn_as_they_should(tmp_path: Path, shape: Shape) -> None:
    path = write_model(tmp_path / "m.gguf", shape)
    tokens = some_tokens(500, shape.vocabulary, seed=9)
    logits, _, _ = run(NativeEngine.load(path), tokens, [500])
    assert error(logits[-50:], Reference(path).forward(tokens)[0][-50:]) < FLOAT_ERROR
