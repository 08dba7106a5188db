"""The declared arithmetic: the same bits whatever computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draftgate.arms.engine import _native
from draftgate.arms.engine.engine import NativeEngine
from draftgate.arms.engine.hyperparameters import UnsupportedModel
from draftgate.arms.engine.self_test import GOLDEN, arithmetic_self_test

from .models import ODD, available_sets, run, same_bits, some_tokens
from .reference import write_model

TOKENS = 150
"""Past one tile of 128 positions."""
SPLITS = ([1], [2], [3], [5], [8], [16], [128, 22], [61, 1, 5, 80], [127, 1, 1, 21])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: write_model(folder / f"{i}.gguf", shape) for i, (name, shape) in enumerate(ODD.items())}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kernel", available_sets())
def test_the_self_test_gives_its_pinned_hash(kernel: str, threads: int) -> None:
    assert arithmetic_self_test(kernel, threads) == GOLDEN


@pytest.mark.parametrize("name", ODD)
def test_same_bits_for_kernel_sets_threads_and_splits(models: dict[str, Path], name: str) -> None:
    tokens = some_tokens(TOKENS, ODD[name].vocabulary)
    definition = run(NativeEngine.load(models[name], threads=1, kernel="portable"), tokens, [TOKENS])
    assert np.isfinite(definition[0]).all() and definition[0].std() > 0.1
    for kernel in available_sets():
        for threads in (1, 2):
            engine = NativeEngine.load(models[name], threads=threads, kernel=kernel)
            assert (engine.kernel, engine.threads) == (kernel, threads)
            for split in SPLITS if kernel != "portable" else SPLITS[threads::4]:
                logits, hidden, fingerprint = run(engine, tokens, split)
                assert same_bits(logits, definition[0]), (kernel, threads, split)
                assert same_bits(hidden, definition[1]), (kernel, threads, split)
                assert fingerprint == definition[2], (kernel, threads, split)


@pytest.mark.parametrize("name", ODD)
def test_long_prefill_in_chunks_equals_steps(models: dict[str, Path], name: str) -> None:
    """Prefills wider than a chunk of 128 columns, and tiles shared between threads."""
    tokens = some_tokens(400, ODD[name].vocabulary, seed=3)
    one = NativeEngine.load(models[name], threads=1)
    two = NativeEngine.load(models[name], threads=2)
    whole = run(one, tokens, [400])
    for engine, split in ((two, [400]), (two, [300, 1, 2, 8]), (one, [7, 200])):
        logits, _, fingerprint = run(engine, tokens, split)
        assert same_bits(logits, whole[0])
        assert fingerprint == whole[2]


def test_the_environment_chooses_the_kernel_set(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = models["q4_1 tied"]
    for kernel in available_sets():
        monkeypatch.setenv("DRAFTGATE_KERNEL", kernel)
        assert NativeEngine.load(path).kernel == kernel
    monkeypatch.setenv("DRAFTGATE_KERNEL", "abacus")
    with pytest.raises(UnsupportedModel, match="abacus"):
        NativeEngine.load(path)
    monkeypatch.delenv("DRAFTGATE_KERNEL")
    assert NativeEngine.load(path).kernel == available_sets()[-1]


def test_bandwidth_is_measured() -> None:
    assert _native.bandwidth(1 << 24, 1) > 1e8


def test_a_cache_line_takes_time_to_change_hands() -> None:
    assert 1 < _native.exchange_ns() < 1e9  # light itself goes 30 cm in a nanosecond
