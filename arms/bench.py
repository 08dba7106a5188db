"""What the engine costs on this machine: decode, verification, prefill, load, memory, and the memory's own speed.

Every figure is a median of calls; the calls of different lengths are interleaved, so that a slow moment of the machine
falls on all of them and cancels in the ratios.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .engine import _native
from .engine.engine import NativeCache, NativeEngine, processors
from .engine.gguf import GgufFile
from .models import Model, load_model

COLUMNS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Tokens of a call: one is decoding, more are verification."""
PREFILL_TOKENS = 512
SEQUENCES = 8
BANDWIDTH_BYTES = 512 << 20
"""Well past any cache this is likely to run on."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    contexts: tuple[int, ...] = (200, 2048, 6144)
    """Tokens already in the cache; the first one gives the headline figures."""
    seconds: float = 4.0
    """Time for the interleaved calls at one context."""
    rounds: int = 9
    """Least number of calls of each length."""
    overhead: bool = True
    """Also what a round of the arms costs outside the engine (`overhead.py`)."""


def measure(path: Path, threads: Sequence[int], effort: Effort, progress: Progress = lambda _: None) -> dict[str, Any]:
    """The report `bench --json` prints: see `arms/commands/bench.py` for its fields."""
    added = _memory_added(path, threads[0])
    model, load_s = _timed_load(path, threads[0])
    contexts = tuple(c for c in effort.contexts if c + max(COLUMNS) <= model.engine.context_limit) or (
        model.engine.context_limit - max(COLUMNS),
    )
    report: dict[str, Any] = {
        "format": "draftgate-bench/1",
        "model": {"name": model.info.name, "sha256": model.info.sha256, "bytes": model.file.bytes},
        "machine": {"processor": _processor(), "processors": os.cpu_count(), "system": platform.platform()},
        "kernel": model.engine.kernel,
        "arithmetic": model.engine.identity.arithmetic,
        "load_s": load_s,
        "resident_bytes": model.engine.resident_bytes,
        "added_bytes": added,
        "kv_bytes_per_token": kv_bytes_per_token(model.file),
        "threads": {},
    }
    for count in threads:
        if model.engine.threads != count:
            model = load_model(path, threads=count)
        progress(f"{count} threads: memory bandwidth")
        bandwidth = statistics.median(_native.bandwidth(BANDWIDTH_BYTES, count) for _ in range(3))
        found = _one_thread_count(model, contexts, bandwidth, effort, progress)
        if count > 1 and processors() > 1:
            # Right after what it is to explain: a virtual machine may be moved at any time.
            found["exchange_ns"] = _native.exchange_ns()
        report["threads"][str(count)] = found
    if effort.overhead:
        from .overhead import measure as measure_overhead

        progress("overhead of a round")
        report["overhead"] = measure_overhead(model)
    return report


def _memory_added(path: Path, threads: int) -> dict[str, int]:
    """Bytes that the first load adds to this process: resident, and of those the ones no other process shares.

    And what the first text adds to these, when the tables are built that cut it into tokens."""
    process = psutil.Process()
    gc.collect()
    before = process.memory_full_info()
    model = load_model(path, threads=threads)
    after = process.memory_full_info()
    model.tokenizer.encode("text")
    later = process.memory_full_info()
    del model
    return {
        "resident": after.rss - before.rss,
        "unique": after.uss - before.uss,
        "first_text": max(later.uss - after.uss, 0),
    }


def _timed_load(path: Path, threads: int) -> tuple[Model, float]:
    """A loaded model, and the median of three loads (the file is in the page cache from the first on)."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        model = load_model(path, threads=threads)
        times.append(time.perf_counter() - started)
    return model, statistics.median(times)


def _one_thread_count(
    model: Model, contexts: Sequence[int], bandwidth: float, effort: Effort, progress: Progress
) -> dict[str, Any]:
    engine, count = model.engine, model.engine.threads
    progress(f"{count} threads: prefill")
    prefill = _prefill_rate(engine, min(PREFILL_TOKENS, engine.context_limit))
    by_context: dict[str, Any] = {}
    for context in contexts:
        progress(f"{count} threads: {context} tokens of context")
        by_context[str(context)] = _at_context(engine, model.file, context, bandwidth, effort)
    head = by_context[str(contexts[0])]
    progress(f"{count} threads: {SEQUENCES} sequences")
    single, together = _batch_rates(engine, contexts[0], effort)
    return {
        "bandwidth_bytes_per_s": bandwidth,
        "decode_tokens_per_s": head["decode_tokens_per_s"],
        "prefill_tokens_per_s": prefill,
        "verify_cost": head["verify_cost"],
        "bandwidth_share": head["bandwidth_share"],
        "contexts": by_context,
        "sequences": {
            str(SEQUENCES): {"tokens_per_s": together, "single_tokens_per_s": single, "ratio": together / single}
        },
    }


def _prefill_rate(engine: NativeEngine, tokens: int) -> float:
    rates = []
    for repeat in range(3):
        cache = engine.new_cache(tokens)
        ids = ids_for(engine.vocabulary, tokens, repeat)
        started = time.perf_counter()
        engine.verify_linear(cache.begin(), ids, "last")
        rates.append(tokens / (time.perf_counter() - started))
        cache.close()
    return statistics.median(rates)


def _at_context(engine: NativeEngine, file: GgufFile, context: int, bandwidth: float, effort: Effort) -> dict[str, Any]:
    cache = engine.new_cache(context + max(COLUMNS))
    started = time.perf_counter()
    _fill(engine, cache, context)
    filled = context / (time.perf_counter() - started)
    times: dict[int, list[float]] = {columns: [] for columns in COLUMNS}
    for number in _rounds(effort):
        for columns in COLUMNS[number % len(COLUMNS) :] + COLUMNS[: number % len(COLUMNS)]:
            ids = ids_for(engine.vocabulary, columns, number)
            started = time.perf_counter()
            transaction = cache.begin()
            engine.verify_linear(transaction, ids, "all")
            transaction.rollback()
            times[columns].append(time.perf_counter() - started)
    cache.close()
    single = statistics.median(times[1])
    read = weight_bytes_read(file) + kv_bytes_per_token(file) * context
    return {
        "decode_tokens_per_s": 1 / single,
        "verify_cost": {str(c): statistics.median(times[c]) / single for c in COLUMNS if c > 1},
        "bandwidth_share": read / single / bandwidth,
        "bytes_read_per_token": read,
        "filling_tokens_per_s": filled,
    }


def _batch_rates(engine: NativeEngine, context: int, effort: Effort) -> tuple[float, float]:
    """Tokens per second of one sequence alone and of several in one call."""
    caches = [engine.new_cache(context + 1) for _ in range(SEQUENCES)]
    for cache in caches:
        _fill(engine, cache, context)
    alone, together = [], []
    for number in _rounds(effort, share=0.5):
        ids = ids_for(engine.vocabulary, SEQUENCES, number)
        started = time.perf_counter()
        transaction = caches[0].begin()
        engine.verify_linear(transaction, ids[:1], "all")
        transaction.rollback()
        alone.append(time.perf_counter() - started)
        started = time.perf_counter()
        open_ = [cache.begin() for cache in caches]
        engine.verify_batch([(tx, [token]) for tx, token in zip(open_, ids, strict=True)], "all")
        for tx in open_:
            tx.rollback()
        together.append(time.perf_counter() - started)
    for cache in caches:
        cache.close()
    return 1 / statistics.median(alone), SEQUENCES / statistics.median(together)


def _fill(engine: NativeEngine, cache: NativeCache, context: int) -> None:
    for start in range(0, context, PREFILL_TOKENS):
        ids = ids_for(engine.vocabulary, min(PREFILL_TOKENS, context - start), start)
        transaction = cache.begin()
        engine.verify_linear(transaction, ids, "none")
        transaction.commit_prefix(len(ids))


def _rounds(effort: Effort, share: float = 1.0) -> Iterator[int]:
    """Round numbers until both the least number and the time are used up; the first, a warm-up, is part of them."""
    end = time.perf_counter() + effort.seconds * share
    number = 0
    while number < effort.rounds or time.perf_counter() < end:
        yield number
        number += 1


def ids_for(vocabulary: int, count: int, seed: int) -> list[int]:
    """Arbitrary token ids, the same every time."""
    return [(17 + seed * 7919 + i * 104_729) % vocabulary for i in range(count)]


def weight_bytes_read(file: GgufFile) -> int:
    """Bytes of weights that one token needs: all but an input embedding of which only a row is read."""
    untied = "output.weight" in file.tensors
    return sum(t.bytes for t in file.tensors.values() if not (untied and t.name == "token_embd.weight"))


def kv_bytes_per_token(file: GgufFile) -> int:
    """Keys and values of one position in half precision, all layers."""

    def number(key: str, default: int | None = None) -> int:
        value = file.metadata.get(f"{file.architecture}.{key}", default)
        return int(value) if value is not None else 0

    heads = number("attention.head_count")
    dims = number("attention.key_length", number("embedding_length") // max(heads, 1))
    return 2 * 2 * number("block_count") * number("attention.head_count_kv", heads) * dims


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
