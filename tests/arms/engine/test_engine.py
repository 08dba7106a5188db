"""Transactions, caches, batches, causality, numbers that are not finite."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from draftgate.arms.engine.contract import Cache, CacheMisuse, ContextFull, Engine, NonFinite, Transaction
from draftgate.arms.engine.engine import NativeEngine
from draftgate.arms.engine.hyperparameters import UnsupportedModel

from .models import available_sets, run, same_bits, some_tokens
from .reference import Shape, write_model

SHAPE = Shape(types=("Q4_1", "Q8_0"), context=300, seed=11)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("engine") / "m.gguf", SHAPE)


@pytest.fixture(scope="module")
def engine(path: Path) -> NativeEngine:
    return NativeEngine.load(path, threads=2)


def test_it_implements_the_contract(engine: NativeEngine) -> None:
    cache = engine.new_cache()
    assert isinstance(engine, Engine) and isinstance(cache, Cache) and isinstance(cache.begin(), Transaction)
    assert (engine.vocabulary, engine.hidden_width, engine.context_limit, cache.capacity) == (97, 64, 300, 300)
    assert engine.identity.model_sha256 == engine.file.sha256


def test_rows_asked_for_are_rows_of_the_whole(engine: NativeEngine) -> None:
    tokens = some_tokens(140, 97)
    logits, hidden, _ = run(engine, tokens, [140])
    cache = engine.new_cache()
    tx = cache.begin()
    assert engine.verify_linear(tx, tokens[:130], rows="none").shape == (0, 97)
    last = engine.verify_linear(tx, tokens[130:], rows="last")
    assert same_bits(last, logits[-1:])
    tx.rollback()
    tx = cache.begin()
    none, states = engine.verify_with_hidden(tx, tokens, rows="none")
    assert none.shape == (0, 97) and same_bits(states, hidden[:, :64])


def test_what_is_rolled_back_or_cut_off_leaves_no_trace(engine: NativeEngine) -> None:
    tokens = some_tokens(60, 97, seed=1)
    logits, _, fingerprint = run(engine, tokens, [60])
    cache = engine.new_cache(64)
    tx = cache.begin()
    engine.verify_linear(tx, some_tokens(64, 97, seed=2))
    tx.rollback()
    tx = cache.begin()
    engine.verify_linear(tx, tokens[:30] + some_tokens(9, 97, seed=3))
    assert tx.appended == 39
    tx.commit_prefix(30)
    assert cache.length == 30
    tx = cache.begin()
    assert same_bits(engine.verify_linear(tx, tokens[30:]), logits[30:])
    tx.commit_prefix(30)
    assert cache.fingerprint() == fingerprint


def test_fingerprints_tell_tokens_and_lengths_apart(engine: NativeEngine) -> None:
    tokens = some_tokens(40, 97)
    prints = {run(engine, tokens[:n], [n])[2] for n in (1, 2, 39, 40)}
    prints.add(run(engine, [*tokens[:20], (tokens[20] + 1) % 97, *tokens[21:]], [40])[2])
    assert len(prints) == 5


@pytest.mark.parametrize("threads", [1, 2])
def test_a_proposal_changes_no_row_up_to_its_own(path: Path, threads: int) -> None:
    engine = NativeEngine.load(path, threads=threads)
    prompt, block = some_tokens(125, 97, seed=4), some_tokens(7, 97, seed=5)
    cache = engine.new_cache()
    tx = cache.begin()
    engine.verify_linear(tx, prompt, rows="none")
    tx.commit_prefix(len(prompt))

    def rows(tokens: list[int]) -> np.ndarray:
        tx = cache.begin()
        found = engine.verify_linear(tx, tokens)
        tx.rollback()
        return found

    before = rows(block)
    for j in range(1, len(block)):
        changed = block.copy()
        changed[j] = (changed[j] + 1) % 97
        after = rows(changed)
        assert same_bits(after[:j], before[:j])
        assert not np.array_equal(after[j], before[j])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_equals_its_sequences_alone(path: Path, threads: int) -> None:
    engine = NativeEngine.load(path, threads=threads)
    prompts = [some_tokens(n, 97, seed=n) for n in (1, 17, 128, 130, 250)]
    blocks = [some_tokens(n, 97, seed=n) for n in (1, 5, 1, 3, 40)]
    alone = [
        run(engine, prompt + block, [len(prompt), len(block)]) for prompt, block in zip(prompts, blocks, strict=True)
    ]
    for rows in ("all", "last", "none"):
        caches = [engine.new_cache() for _ in prompts]
        transactions = [cache.begin() for cache in caches]
        engine.verify_batch(list(zip(transactions, prompts, strict=True)), rows="none")
        items = list(zip(transactions, blocks, strict=True))
        found, states = engine.verify_batch_with_hidden(items, rows=rows, layers=(0, engine.sizes.layers - 1))
        for i, block in enumerate(blocks):
            expected = alone[i][0][len(prompts[i]) :]
            expected = expected if rows == "all" else expected[-1:] if rows == "last" else expected[:0]
            assert same_bits(found[i], expected)
            assert same_bits(states[i], alone[i][1][len(prompts[i]) :])
            transactions[i].commit_prefix(len(prompts[i]) + len(block))
            assert caches[i].fingerprint() == alone[i][2]
    assert engine.verify_batch([]) == []


def test_misuse_of_caches_and_transactions_is_refused(engine: NativeEngine, tmp_path: Path) -> None:
    cache = engine.new_cache(10)
    tx = cache.begin()
    with pytest.raises(CacheMisuse, match="open"):
        cache.begin()
    engine.verify_linear(tx, [1, 2, 3])
    for n in (-1, 4):
        with pytest.raises(CacheMisuse, match="3 were appended"):
            tx.commit_prefix(n)
    with pytest.raises(ContextFull):
        engine.verify_linear(tx, [0] * 8)
    assert tx.appended == 3
    tx.commit_prefix(3)
    for use in (tx.rollback, lambda: tx.commit_prefix(0), lambda: engine.verify_linear(tx, [1])):
        with pytest.raises(CacheMisuse, match="ended"):
            use()
    other = NativeEngine.load(write_model(tmp_path / "other.gguf", Shape(seed=99)))
    with pytest.raises(CacheMisuse, match="another model"):
        other.verify_linear(cache.begin(), [1])
    cache.close()
    for use in (cache.begin, cache.fingerprint):
        with pytest.raises(CacheMisuse, match="closed"):
            use()
    tx = engine.new_cache(8).begin()
    with pytest.raises(CacheMisuse, match="twice"):
        engine.verify_batch([(tx, [1]), (tx, [2])])
    for capacity in (0, -1, 301):
        with pytest.raises(ValueError, match="1 to 300"):
            engine.new_cache(capacity)


def test_a_closed_cache_ends_its_transaction(engine: NativeEngine) -> None:
    cache = engine.new_cache(8)
    tx = cache.begin()
    cache.close()
    with pytest.raises(CacheMisuse):
        engine.verify_linear(tx, [1])


@pytest.mark.parametrize("tokens", [[], [97], [-1], [3, 1 << 40], [1.5], [[1, 2]], ["a"]])
def test_tokens_outside_the_vocabulary_are_refused(engine: NativeEngine, tokens: list[int]) -> None:
    tx = engine.new_cache(8).begin()
    with pytest.raises(ValueError):
        engine.verify_linear(tx, tokens)
    assert tx.appended == 0
    assert engine.verify_linear(tx, np.array([1, 2], np.int64)).shape == (2, 97)  # arrays are fine


MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kernel", available_sets())
def test_a_planted_number_that_is_not_finite_is_seen(tmp_path: Path, kernel: str, value: float) -> None:
    names = [f"blk.{layer}.{name}.weight" for name in MATRICES for layer in (0, 1)] + [
        "output_norm.weight",
        "output.weight",
    ]
    for name in names:
        shape = Shape(types=("F16", "F32"), tied=False, poison={name: value})
        engine = NativeEngine.load(write_model(tmp_path / "m.gguf", shape), kernel=kernel, threads=1)
        cache = engine.new_cache(16)
        tx = cache.begin()
        with pytest.raises(NonFinite):
            engine.verify_linear(tx, [1, 2, 3])
        assert engine.non_finite
        with pytest.raises(CacheMisuse, match="rolled back"):
            tx.commit_prefix(0)
        tx.rollback()
        assert cache.length == 0


@pytest.mark.parametrize("kernel", available_sets())
@pytest.mark.parametrize("name", ["attn_k", "attn_v"])
def test_a_key_or_value_too_large_for_a_half_is_seen(tmp_path: Path, kernel: str, name: str) -> None:
    """A key of minus infinity would get weight 0 and leave every later number finite."""
    shape = Shape(types=("F32",), poison={f"blk.1.{name}.weight": 1e8})
    engine = NativeEngine.load(write_model(tmp_path / "m.gguf", shape), kernel=kernel, threads=1)
    with pytest.raises(NonFinite):
        engine.verify_linear(engine.new_cache(16).begin(), [5])


@pytest.mark.parametrize("kernel", available_sets())
@pytest.mark.parametrize("kind, size, at", [("Q4_1", 20, 0), ("Q4_1", 20, 2), ("Q4_0", 18, 0), ("Q8_0", 34, 0)])
def test_a_scale_that_is_not_finite_is_seen(tmp_path: Path, kernel: str, kind: str, size: int, at: int) -> None:
    path = write_model(tmp_path / "m.gguf", Shape(types=(kind,), tied=False))
    healthy = NativeEngine.load(path)
    raw = bytearray(path.read_bytes())
    for name in ("blk.0.attn_k.weight", "blk.1.ffn_down.weight", "output.weight"):
        info = healthy.file.tensors[name]
        for half in (0x7E00, 0x7C00, 0xFC00):
            bad = raw.copy()
            place = info.offset + info.bytes // size // 2 * size + at
            bad[place : place + 2] = half.to_bytes(2, "little")
            poisoned = tmp_path / "bad.gguf"
            poisoned.write_bytes(bad)
            engine = NativeEngine.load(poisoned, kernel=kernel, threads=1)
            with pytest.raises(NonFinite):
                engine.verify_linear(engine.new_cache(8).begin(), [1, 2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_makes_its_own_threads(engine: NativeEngine) -> None:
    tokens = some_tokens(20, 97)
    expected = run(engine, tokens, [20])[2]
    child = os.fork()
    if child == 0:
        os._exit(0 if run(engine, tokens, [20])[2] == expected else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert run(engine, tokens, [20])[2] == expected


def test_python_threads_may_share_an_engine(engine: NativeEngine) -> None:
    sequences = [some_tokens(50, 97, seed=i) for i in range(4)]
    expected = [run(engine, tokens, [3]) for tokens in sequences]
    found: dict[int, tuple[np.ndarray, np.ndarray, str]] = {}
    workers = [threading.Thread(target=lambda i=i: found.update({i: run(engine, sequences[i], [3])})) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for i, (logits, _, fingerprint) in enumerate(expected):
        assert same_bits(found[i][0], logits) and found[i][2] == fingerprint


def test_engines_with_as_many_threads_share_them(engine: NativeEngine) -> None:
    """Threads of their own would wait for each other's processors; results do not depend on whose turn it is."""
    if not Path("/proc/self/task").exists():
        pytest.skip("no /proc here")

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    def settles_at(wanted: int) -> bool:  # a joined thread may be listed for a moment longer
        end = time.monotonic() + 5
        while threads() != wanted and time.monotonic() < end:
            time.sleep(0.005)
        return threads() == wanted

    tokens = some_tokens(20, 97)
    expected = run(engine, tokens, [20])[2]
    before = threads()
    others = [NativeEngine.load(engine.file.path, threads=2) for _ in range(3)]
    assert [run(other, tokens, [20])[2] for other in others] == [expected] * 3
    assert settles_at(before)
    several = NativeEngine.load(engine.file.path, threads=5)
    assert run(several, tokens, [20])[2] == expected and settles_at(before + 4)
    del several
    assert settles_at(before)


def test_threads_that_have_nothing_to_do_fall_asleep(engine: NativeEngine) -> None:
    """They wait awake for a moment after a call, not for good."""
    run(engine, some_tokens(20, 97), [20])
    before, started = time.process_time(), time.perf_counter()
    time.sleep(0.3)
    assert time.process_time() - before < 0.2 * (time.perf_counter() - started)


def test_an_id_beyond_32_bits_is_not_taken_for_another(engine: NativeEngine) -> None:
    tx = engine.new_cache(8).begin()
    for token in (97, -1, 1 << 32, (1 << 32) + 5, -(1 << 32) + 5):
        with pytest.raises(ValueError, match=f"token {token} is not in 0 to 96"):
            engine.verify_linear(tx, [3, token])
    with pytest.raises(ValueError):
        engine.verify_linear(tx, np.array([3, (1 << 63) + 5], np.uint64))  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        engine.verify_linear(tx, [3, 1 << 80])
    assert tx.appended == 0


def test_sizes_are_told_by_formula(engine: NativeEngine) -> None:
    assert engine.kv_bytes(1) == engine.kv_bytes(128) == 128 * 2 * 2 * 16 * 4
    assert engine.new_cache(129).bytes == engine.kv_bytes(129) == 2 * engine.kv_bytes(128)
    matrices = sum(t.bytes for name, t in engine.file.tensors.items() if "norm" not in name)
    assert matrices <= engine.weight_bytes <= 1.3 * matrices  # rows are padded to 16: a vocabulary of 97 shows it
    assert engine.resident_bytes == engine.weight_bytes + engine.scratch_bytes


def test_loading_leaves_little_of_the_file_in_memory(smollm2: Path) -> None:
    """In a process of its own: resident memory grows by the packed weights, not by the mapped file as well."""
    import subprocess
    import sys

    code = (
        "import sys, resource\n"
        "from draftgate.arms.engine.engine import NativeEngine\n"
        "from draftgate.arms.engine.gguf import read_gguf\n"
        "page = resource.getpagesize()\n"
        "resident = lambda: int(open('/proc/self/statm').read().split()[1]) * page\n"
        "file = read_gguf(sys.argv[1])\n"
        "before = resident()\n"
        "engine = NativeEngine.load(file, threads=1)\n"
        "print(resident() - before, file.bytes, engine.weight_bytes)\n"
    )
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here")
    out = subprocess.run([sys.executable, "-c", code, str(smollm2)], capture_output=True, text=True, check=True).stdout
    added, size, packed = (int(n) for n in out.split())
    assert packed <= size
    assert added <= 1.1 * size


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("llama.block_count", 3, "missing"),
        ("llama.block_count", 1, "not part of a plain llama"),
        ("llama.attention.head_count_kv", 3, "not a multiple"),
        ("llama.attention.head_count", 8, "shape"),
        ("llama.rope.dimension_count", 17, "even number"),
        ("llama.expert_count", 4, "mixtures of experts"),
        ("llama.rope.freq_base", float("nan"), "rope.freq_base"),
        ("llama.rope.freq_base", 0.0, "rope.freq_base"),
        ("llama.rope.scaling.type", "yarn", "yarn"),
        ("llama.rope.scaling.factor", 0.0, "rope.scaling.factor"),
        ("llama.attention.layer_norm_rms_epsilon", -1.0, "layer_norm_rms_epsilon"),
        ("llama.context_length", 1 << 23, "context_length"),
        ("llama.feed_forward_length", 128, "shape"),
        ("llama.attention.key_length", 32, "value_length"),
        ("llama.embedding_length", None, "embedding_length"),
        ("general.architecture", "qwen2", "qwen2"),
    ],
)  # fmt: skip
def test_unsupported_models_are_refused_by_name(engine: NativeEngine, key: str, value: object, message: str) -> None:
    from dataclasses import replace

    from draftgate.arms.errors import ArmError

    metadata = {k: v for k, v in engine.file.metadata.items() if k != key}
    if value is not None:
        metadata[key] = value
    if key == "llama.rope.scaling.factor":
        metadata["llama.rope.scaling.type"] = "linear"
    if key == "llama.attention.key_length":
        metadata["llama.attention.value_length"] = 16
    with pytest.raises(ArmError, match=message) as caught:
        NativeEngine.load(replace(engine.file, metadata=metadata))
    assert caught.value.exit_code == 2


def test_the_native_side_checks_offsets_again(engine: NativeEngine) -> None:
    from dataclasses import replace

    name = "blk.0.ffn_up.weight"
    for offset in (engine.file.bytes - 10, 1 << 60, (1 << 64) - 32):
        tensors = {**engine.file.tensors, name: replace(engine.file.tensors[name], offset=offset)}
        with pytest.raises(UnsupportedModel, match="outside the file"):
            NativeEngine.load(replace(engine.file, tensors=tensors))
