"""A tiny engine with history-dependent logits and honest caches, for tests of everything above the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from draftgate.arms.engine.contract import CacheMisuse, ContextFull, EngineIdentity, NonFinite, Rows

LogitFunction = Callable[[tuple[int, ...]], npt.NDArray[np.float32]]


def hashed_logits(vocabulary: int, seed: int = 0, scale: float = 1.5, order: int = 3) -> LogitFunction:
    """Logits that depend on the last ``order`` tokens and the length parity, reproducibly."""

    def logits(prefix: tuple[int, ...]) -> npt.NDArray[np.float32]:
        key = f"{seed}|{len(prefix) % 2}|{prefix[-order:]}".encode()
        state = int.from_bytes(hashlib.sha256(key).digest()[:8], "little")
        values = np.random.default_rng(state).normal(size=vocabulary) * scale
        return values.astype(np.float32)

    return logits


class ToyTransaction:
    def __init__(self, cache: ToyCache) -> None:
        self.cache, self.tail, self.open = cache, [], True

    tail: list[int]

    @property
    def appended(self) -> int:
        return len(self.tail)

    def _end(self) -> None:
        if not self.open:
            raise CacheMisuse("the transaction has ended")
        self.open = False
        self.cache.tx = None

    def commit_prefix(self, n: int) -> None:
        if not 0 <= n <= len(self.tail):
            raise CacheMisuse(f"commit of {n} tokens, {len(self.tail)} were appended")
        self._end()
        self.cache.tokens.extend(self.tail[:n])

    def rollback(self) -> None:
        self._end()


class ToyCache:
    def __init__(self, identity: EngineIdentity, capacity: int) -> None:
        self.identity, self.capacity = identity, capacity
        self.tokens: list[int] = []
        self.tx: ToyTransaction | None = None
        self.closed = False

    @property
    def length(self) -> int:
        return len(self.tokens)

    def begin(self) -> ToyTransaction:
        if self.closed or self.tx is not None:
            raise CacheMisuse("closed" if self.closed else "a transaction is open")
        self.tx = ToyTransaction(self)
        return self.tx

    def adopt(self, other: ToyCache, n: int) -> None:
        if self.closed or other.closed or self.tokens or self.tx is not None:
            raise CacheMisuse("closed, or not empty")
        if other.identity != self.identity or not 0 <= n <= min(other.length, self.capacity):
            raise CacheMisuse("another engine's cache, or more tokens than there are")
        self.tokens = other.tokens[:n]

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self.tokens).encode()).hexdigest()

    def close(self) -> None:
        self.closed = True


class ToyEngine:
    """Implements `Engine` over a function from prefix to logits; hidden states are the logits' first columns."""

    def __init__(self, logits: LogitFunction, vocabulary: int, context_limit: int = 256, name: str = "toy") -> None:
        self.logits, self.vocabulary, self.context_limit, self.threads = logits, vocabulary, context_limit, 1
        self.hidden_width = min(4, vocabulary)
        self.identity = EngineIdentity(name, "toy-tokenizer", "none", "toy")
        self.calls = 0

    def new_cache(self, capacity: int | None = None) -> ToyCache:
        return ToyCache(self.identity, capacity or self.context_limit)

    def verify_linear(self, tx: ToyTransaction, tokens: Sequence[int], rows: Rows = "all") -> npt.NDArray[np.float32]:
        return self.verify_with_hidden(tx, tokens, rows)[0]

    def verify_with_hidden(
        self, tx: ToyTransaction, tokens: Sequence[int], rows: Rows = "all"
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        cache = tx.cache
        if cache.identity != self.identity or not tx.open:
            raise CacheMisuse("another engine's cache, or an ended transaction")
        if not tokens or any(not 0 <= t < self.vocabulary for t in tokens):
            raise ValueError("tokens must be inside the vocabulary")
        if cache.length + tx.appended + len(tokens) > cache.capacity:
            raise ContextFull(f"{len(tokens)} tokens do not fit")
        self.calls += 1
        out = []
        for token in tokens:
            tx.tail.append(int(token))
            out.append(self.logits(tuple(cache.tokens + tx.tail)))
        full = np.stack(out).astype(np.float32)
        if np.isnan(full).any() or np.isposinf(full).any():
            raise NonFinite("non-finite logits")
        picked = full if rows == "all" else full[-1:] if rows == "last" else full[:0]
        return picked, full[:, : self.hidden_width]

    def verify_batch(
        self, items: Sequence[tuple[ToyTransaction, Sequence[int]]], rows: Rows = "all"
    ) -> list[npt.NDArray[np.float32]]:
        return [self.verify_linear(tx, tokens, rows) for tx, tokens in items]
