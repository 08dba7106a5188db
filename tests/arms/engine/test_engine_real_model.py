"""The declared arithmetic on the real model, pinned by a golden file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draftgate.arms.engine.engine import NativeEngine

from . import golden_logits
from .models import available_sets, run, same_bits


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> NativeEngine:
    return NativeEngine.load(smollm2, threads=2)


@pytest.mark.parametrize("kernel", available_sets())
def test_logits_are_the_golden_ones(smollm2: Path, kernel: str) -> None:
    threads = 1 if kernel == "avx2" else 2
    found = golden_logits.compute(NativeEngine.load(smollm2, threads=threads, kernel=kernel))
    assert found == json.loads(golden_logits.FILE.read_text())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16])
def test_rows_do_not_depend_on_how_many_are_asked_at_once(engine: NativeEngine, size: int) -> None:
    tokens = golden_logits.tokens(engine.vocabulary)
    logits, _, fingerprint = run(engine, tokens, [len(tokens)])
    pieces, _, pieced = run(engine, tokens, [size])
    assert same_bits(pieces, logits) and pieced == fingerprint


@pytest.mark.long
def test_the_context_reaches_the_models_limit(engine: NativeEngine) -> None:
    tokens = (golden_logits.tokens(engine.vocabulary) * 60)[: engine.context_limit]
    cache = engine.new_cache()
    tx = cache.begin()
    engine.verify_linear(tx, tokens[:-1], rows="none")
    tx.commit_prefix(len(tokens) - 1)
    tx = cache.begin()
    alone = engine.verify_linear(tx, tokens[-1:])
    tx.rollback()
    single = NativeEngine.load(engine.file, threads=1, kernel="avx2" if "avx2" in available_sets() else "portable")
    cache.engine, engine_of_cache = single, cache.engine  # the same model on other kernels may read the cache
    assert same_bits(single.verify_linear(cache.begin(), tokens[-1:]), alone)
    cache.engine = engine_of_cache
