"""The bundled engine: the contract over the native kernels. Caches and transactions live here, arithmetic does not."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from .contract import CacheMisuse, ContextFull, EngineIdentity, Logits, NonFinite, Rows
from .draft_keys import OUTPUT_ROWS
from .gguf import GgufFile, read_gguf
from .hyperparameters import Hyperparameters, UnsupportedModel, output_ids, read_hyperparameters

ARITHMETIC = "draftgate-arithmetic/1"
KERNEL_VARIABLE = "DRAFTGATE_KERNEL"
ROW_CODES = {"all": 0, "last": 1, "none": 2}
"""`contract.Rows` as the native side wants them."""

Hidden = npt.NDArray[np.float32]
"""float32, shape [tokens, hidden width]: the states after the output norm, before the head."""


class NativeTransaction:
    """Provisional appends to one cache. See `contract.Transaction`."""

    def __init__(self, cache: NativeCache) -> None:
        self.cache = cache
        self.appended = 0
        self.open = True
        self.failed = False

    def _end(self) -> None:
        if not self.open:
            raise CacheMisuse("the transaction has ended")
        self.open = False
        self.cache.transaction = None

    def commit_prefix(self, n: int) -> None:
        if self.open and self.failed:
            raise CacheMisuse("the transaction met NaN or infinity: it can only be rolled back")
        if self.open and not 0 <= n <= self.appended:
            raise CacheMisuse(f"commit of {n} tokens, {self.appended} were appended")
        self._end()
        self.cache.length += n

    def rollback(self) -> None:
        self._end()


class NativeCache:
    """Keys and values of one sequence, in half precision. See `contract.Cache`."""

    def __init__(self, engine: NativeEngine, capacity: int) -> None:
        sizes = engine.sizes
        self.engine = engine
        self.capacity = capacity
        self.length = 0
        self.transaction: NativeTransaction | None = None
        self.native: Any = _native.KeyValues(sizes.layers, sizes.kv_heads, sizes.head_dims, capacity)

    @property
    def identity(self) -> EngineIdentity:
        return self.engine.identity

    @property
    def bytes(self) -> int:
        """Address space of keys and values; pages are real once their positions have been written."""
        return 0 if self.native is None else int(self.native.bytes)

    def begin(self) -> NativeTransaction:
        if self.native is None:
            raise CacheMisuse("the cache is closed")
        if self.transaction is not None:
            raise CacheMisuse("a transaction is open")
        self.transaction = NativeTransaction(self)
        return self.transaction

    def adopt(self, other: NativeCache, n: int) -> None:
        if self.native is None or other.native is None:
            raise CacheMisuse("the cache is closed")
        if self.length or self.transaction is not None:
            raise CacheMisuse("only an empty cache can adopt another's tokens")
        if other.engine is not self.engine and other.identity != self.identity:
            raise CacheMisuse("a cache of another model")
        if not 0 <= n <= min(other.length, self.capacity):
            raise CacheMisuse(f"{n} tokens to adopt; the other has {other.length}, this one holds {self.capacity}")
        self.native.copy(other.native, n)
        self.length = n

    def fingerprint(self) -> str:
        """sha256 of the committed keys and values, [layer][head][position][key, value] halves, little-endian."""
        if self.native is None:
            raise CacheMisuse("the cache is closed")
        sizes = self.engine.sizes
        halves = np.empty(self.length * sizes.layers * sizes.kv_heads * sizes.head_dims * 2, np.uint16)
        self.native.read(self.length, halves)
        return hashlib.sha256(halves.astype("<u2", copy=False).tobytes()).hexdigest()

    def close(self) -> None:
        self.native = None
        if self.transaction is not None:
            self.transaction.open = False
            self.transaction = None


class NativeEngine:
    """A llama model on this machine's processor. See `contract.Engine`; load with `NativeEngine.load`."""

    def __init__(self, file: GgufFile, sizes: Hyperparameters, native: Any, tokenizer_sha256: str | None) -> None:
        self.file = file
        self.sizes = sizes
        self.native = native
        self.non_finite = False
        """Sticky: some call met NaN or infinity."""
        self._tokenizer_sha256 = tokenizer_sha256

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | GgufFile,
        *,
        threads: int | None = None,
        kernel: str | None = None,
        tokenizer_sha256: str | None = None,
    ) -> NativeEngine:
        """Map the file, check it, pack its weights.

        ``threads`` defaults to the processors this process may use, ``kernel`` (portable, avx2, avx512) to
        DRAFTGATE_KERNEL or the fastest that runs here. Raises GgufError or UnsupportedModel (exit code 2).
        """
        file = source if isinstance(source, GgufFile) else read_gguf(Path(source))
        sizes = read_hyperparameters(file)
        tensors = {name: (t.type, _rows(t.shape), t.shape[-1], t.offset) for name, t in file.tensors.items()}
        wanted = kernel or os.environ.get(KERNEL_VARIABLE, "")
        data = np.frombuffer(file.map, dtype=np.uint8)
        try:
            native = _native.Engine(data, sizes.sizes(), tensors, threads or processors(), wanted, True)
        except ValueError as error:
            raise UnsupportedModel(f"{file.path}: {error}") from error
        return cls(file, sizes, native, tokenizer_sha256)

    @cached_property
    def identity(self) -> EngineIdentity:
        return EngineIdentity(
            self.file.sha256,
            self._tokenizer_sha256 or _hash_of_tokenizer_keys(self.file),
            self.sizes.position_policy,
            ARITHMETIC,
        )

    @property
    def vocabulary(self) -> int:
        return self.sizes.vocabulary

    @cached_property
    def output_ids(self) -> list[int] | None:
        """The token of each logit, of a draft that speaks part of its vocabulary; None for the whole vocabulary."""
        return output_ids(self.file, OUTPUT_ROWS, self.vocabulary)

    @property
    def hidden_width(self) -> int:
        return self.sizes.width

    @property
    def context_limit(self) -> int:
        return self.sizes.context

    @property
    def threads(self) -> int:
        return int(self.native.threads)

    @property
    def kernel(self) -> str:
        """The kernel set in use: portable, avx2 or avx512. They compute the same bits."""
        return str(self.native.kernel)

    @property
    def weight_bytes(self) -> int:
        """Packed weights and norm vectors."""
        return int(self.native.weight_bytes)

    @property
    def scratch_bytes(self) -> int:
        """Buffers of a call, for the widest chunk; made once."""
        return int(self.native.scratch_bytes)

    @property
    def resident_bytes(self) -> int:
        """What the loaded model holds, caches not counted."""
        return self.weight_bytes + self.scratch_bytes

    def kv_bytes(self, tokens: int | None = None) -> int:
        """Keys and values of one sequence of that many tokens (default: the context limit), in whole tiles."""
        n = -(-(self.context_limit if tokens is None else tokens) // 128) * 128
        width = -(-self.sizes.head_dims // 16) * 16
        return n * self.sizes.layers * self.sizes.kv_heads * width * 4

    def new_cache(self, capacity: int | None = None) -> NativeCache:
        wanted = self.context_limit if capacity is None else capacity
        if not 1 <= wanted <= self.context_limit:
            raise ValueError(f"a cache of {wanted} tokens; 1 to {self.context_limit} are possible")
        return NativeCache(self, wanted)

    def verify_linear(self, tx: NativeTransaction, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        return self._forward([(tx, tokens)], rows, False)[0]

    def verify_with_hidden(
        self, tx: NativeTransaction, tokens: Sequence[int], rows: Rows = "all", layers: Sequence[int] = ()
    ) -> tuple[Logits, Hidden]:
        return self._forward([(tx, tokens)], rows, True, layers)

    def verify_batch(
        self, items: Sequence[tuple[NativeTransaction, Sequence[int]]], rows: Rows = "all"
    ) -> list[Logits]:
        return self.verify_batch_with_hidden(items, rows, hidden=False)[0]

    def verify_batch_with_hidden(
        self,
        items: Sequence[tuple[NativeTransaction, Sequence[int]]],
        rows: Rows = "all",
        hidden: bool = True,
        layers: Sequence[int] = (),
    ) -> tuple[list[Logits], list[Hidden]]:
        """`verify_batch`, and the hidden states of every token of each item (an empty list when not asked for).

        ``layers`` as in `verify_with_hidden`.
        """
        logits, states = self._forward(items, rows, hidden, layers)
        counts = [len(tokens) for _, tokens in items]
        taken = counts if rows == "all" else [1 if rows == "last" else 0] * len(counts)
        return _split(logits, taken), _split(states, counts) if hidden else []

    def _forward(
        self,
        items: Sequence[tuple[NativeTransaction, Sequence[int]]],
        rows: Rows,
        hidden: bool,
        layers: Sequence[int] = (),
    ) -> tuple[Logits, Hidden]:
        segments, total = [], 0
        for tx, tokens in items:
            ids = self._checked(tx, tokens)
            segments.append((tx.cache.native, tx.cache.length + tx.appended, ids))
            total += len(ids)
        if len({id(tx) for tx, _ in items}) != len(items):
            raise CacheMisuse("one transaction twice in a call")
        wanted = {"all": total, "last": len(items), "none": 0}[rows]
        logits = _native.rows(wanted, self.sizes.outputs)
        states = np.empty((total if hidden else 0, (1 + len(layers)) * self.hidden_width), np.float32)
        if items and not self.native.forward(segments, ROW_CODES[rows], logits, states, layers):
            self.non_finite = True
            for tx, _ in items:
                tx.failed = True
            raise NonFinite("the forward pass met NaN or infinity; roll the transaction back")
        for (tx, _), (_, _, ids) in zip(items, segments, strict=True):
            tx.appended += len(ids)
        return logits, states

    def _checked(self, tx: NativeTransaction, tokens: Sequence[int]) -> npt.NDArray[np.int64]:
        """The ids of a call; the native side refuses those outside the vocabulary."""
        cache = tx.cache
        if cache.engine is not self and cache.identity != self.identity:
            raise CacheMisuse("a cache of another model")
        if not tx.open or tx.failed:
            raise CacheMisuse("the transaction has ended" if not tx.open else "the transaction met NaN or infinity")
        if len(tokens) == 0:
            raise ValueError("a call needs at least one token")
        ids = np.asarray(tokens)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise ValueError("tokens must be a sequence of integers")
        if cache.length + tx.appended + len(ids) > cache.capacity:
            raise ContextFull(
                f"{len(ids)} tokens do not fit: {cache.length + tx.appended} of {cache.capacity} places are taken"
            )
        return np.ascontiguousarray(ids, np.int64)


def _split(rows: npt.NDArray[np.float32], counts: list[int]) -> list[npt.NDArray[np.float32]]:
    return np.split(rows, np.cumsum(counts)[:-1]) if counts else []


def _rows(shape: tuple[int, ...]) -> int:
    rows = 1
    for n in shape[:-1]:
        rows *= n
    return rows


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _hash_of_tokenizer_keys(file: GgufFile) -> str:
    keys = {key: value for key, value in file.metadata.items() if key.startswith("tokenizer.")}
    return hashlib.sha256(json.dumps(keys, sort_keys=True, default=list).encode()).hexdigest()
