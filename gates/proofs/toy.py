"""A small engine with real caches, for proofs and saboteurs: exact, fast, and easy to break from outside.

Each layer of a cache stores one entry per token, a hash of (token, position, layer). Logits are a row of a fixed table
picked by the sums of the entries, layer by layer: a wrong token, a wrong position or a stale entry anywhere in the
visible range changes every later row, as it would in a transformer, while a correct cache makes logits a function of
the token ids alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...arms.engine.contract import CacheMisuse, ContextFull, EngineIdentity, NonFinite, Rows

_MASK = (1 << 64) - 1
LAYERS = 2


def _mix(value: int) -> int:
    """The finaliser of splitmix64."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def entry(token: int, position: int, layer: int) -> int:
    """What one layer stores for one token."""
    return _mix(token * 1_000_003 + position * 7919 + layer * 104_729 + 1)


def tables(
    vocabulary: int, seed: int, closeness: float = 0.7, scale: float = 1.2, rows: int = 1021
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Champion's and draft's logit tables [rows, V]; ``closeness`` in 0…1 says how alike they are (1: equal)."""
    rng = np.random.default_rng(seed)
    champion = rng.normal(size=(rows, vocabulary)) * scale
    noise = rng.normal(size=(rows, vocabulary)) * scale
    draft = closeness * champion + np.sqrt(1 - closeness**2) * noise
    return champion.astype(np.float32), draft.astype(np.float32)


class ToyTransaction:
    def __init__(self, cache: ToyCache) -> None:
        self.cache, self.start, self.open = cache, cache.length, True

    @property
    def appended(self) -> int:
        return self.cache.end - self.start

    def _finish(self) -> None:
        if not self.open:
            raise CacheMisuse("the transaction has ended")
        self.open = False
        self.cache.transaction = None

    def commit_prefix(self, n: int) -> None:
        if not 0 <= n <= self.appended:
            raise CacheMisuse(f"commit of {n} tokens, {self.appended} were appended")
        self._finish()
        self.cache.truncate(self.start + n)
        self.cache.length = self.start + n

    def rollback(self) -> None:
        self._finish()
        self.cache.truncate(self.start)


@dataclass
class ToyCache:
    identity: EngineIdentity
    capacity: int
    layers: list[list[int]] = field(default_factory=lambda: [[] for _ in range(LAYERS)])
    length: int = 0
    transaction: ToyTransaction | None = None
    closed: bool = False

    @property
    def end(self) -> int:
        """Tokens in the cache, provisional ones included."""
        return len(self.layers[-1])

    def begin(self) -> ToyTransaction:
        if self.closed or self.transaction is not None:
            raise CacheMisuse("closed" if self.closed else "a transaction is open")
        self.transaction = ToyTransaction(self)
        return self.transaction

    def visible(self, layer: int) -> int:
        """What attention over one layer comes to: the sum of everything in reach, modulo 2**64."""
        return sum(self.layers[layer]) & _MASK

    def append(self, token: int) -> None:
        for number, layer in enumerate(self.layers):
            layer.append(entry(token, len(layer), number))

    def truncate(self, length: int) -> None:
        for layer in self.layers:
            del layer[length:]

    def adopt(self, other: ToyCache, n: int) -> None:
        if self.closed or other.closed or self.end or self.transaction is not None:
            raise CacheMisuse("closed, or not empty")
        if other.identity != self.identity or not 0 <= n <= min(other.length, self.capacity):
            raise CacheMisuse("another engine's cache, or more tokens than there are")
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.extend(theirs[:n])
        self.length = n

    def fingerprint(self) -> str:
        committed = [layer[: self.length] for layer in self.layers]
        return hashlib.sha256(repr(committed).encode()).hexdigest()

    def close(self) -> None:
        self.closed = True


class ToyEngine:
    """Implements `Engine` over a table of logits [rows, V]; hidden states are the first columns."""

    def __init__(
        self,
        table: npt.NDArray[np.float32],
        context_limit: int = 4096,
        name: str = "toy",
        tokenizer_sha256: str = "toy-tokenizer",
    ) -> None:
        self.table, self.context_limit, self.threads = table, context_limit, 1
        self.vocabulary = int(table.shape[1])
        self.hidden_width = min(4, self.vocabulary)
        self.identity = EngineIdentity(name, tokenizer_sha256, "absolute", "toy/1")
        self.resident_bytes = self.kv_bytes = 0
        self.output_ids: npt.NDArray[np.int64] | None = None
        """Token of each logit, where the output vocabulary is a part of the whole."""
        self.role = "champion"
        """Or ``draft``: what a simulated clock charges for its calls."""
        self.cache_class: type[ToyCache] = ToyCache
        self.finite = bool(np.all(np.isfinite(table) | np.isneginf(table)))

    def new_cache(self, capacity: int | None = None) -> ToyCache:
        return self.cache_class(self.identity, capacity or self.context_limit)

    def row(self, cache: ToyCache) -> npt.NDArray[np.float32]:
        """Logits after everything in the cache."""
        state = 0
        for layer in range(LAYERS):
            state = _mix(state ^ cache.visible(layer))
        picked: npt.NDArray[np.float32] = self.table[state % len(self.table)]
        return picked

    def verify_linear(self, tx: ToyTransaction, tokens: Sequence[int], rows: Rows = "all") -> npt.NDArray[np.float32]:
        return self.verify_with_hidden(tx, tokens, rows)[0]

    def verify_with_hidden(
        self, tx: ToyTransaction, tokens: Sequence[int], rows: Rows = "all"
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        cache = tx.cache
        if cache.identity != self.identity or not tx.open:
            raise CacheMisuse("another engine's cache, or an ended transaction")
        if not len(tokens) or any(not 0 <= t < self.vocabulary for t in tokens):
            raise ValueError("tokens must be inside the vocabulary")
        if cache.end + len(tokens) > cache.capacity:
            raise ContextFull(f"{len(tokens)} tokens do not fit")
        out = []
        for token in tokens:
            cache.append(int(token))
            out.append(self.row(cache))
        full = np.stack(out)
        picked = full if rows == "all" else full[-1:] if rows == "last" else full[:0]
        if not self.finite and not np.all(np.isfinite(picked) | np.isneginf(picked)):
            raise NonFinite("NaN or Inf in the logits")
        return picked.copy(), full[:, : self.hidden_width].copy()

    def verify_batch(
        self, items: Sequence[tuple[ToyTransaction, Sequence[int]]], rows: Rows = "all"
    ) -> list[npt.NDArray[np.float32]]:
        return [self.verify_linear(tx, tokens, rows) for tx, tokens in items]
