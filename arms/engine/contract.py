"""What an engine is: the interface every arm is written against.

The bundled CPU engine (`engine.py`) implements it; tests implement it with toys; another engine may as well. Positions
and rows: ``tokens = [pending] + proposals``; row i predicts ``tokens[i + 1]``; the last row predicts the bonus token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Rows = Literal["all", "last", "none"]
Logits = npt.NDArray[np.float32]
"""float32, shape [n_rows, vocabulary]."""


class EngineError(Exception):
    """Base of everything an engine raises about its own state or input."""


class CacheMisuse(EngineError):
    """A second open transaction, a commit past what was appended, use after close, a cache of another identity."""


class ContextFull(EngineError):
    """The tokens of a call do not fit in the cache's capacity."""


class NonFinite(EngineError):
    """The forward pass met NaN or Inf; the sticky flag is set and the transaction should be rolled back."""


@dataclass(frozen=True)
class EngineIdentity:
    """What a cache is bound to; two engines with equal identities may exchange nothing but numbers."""

    model_sha256: str
    tokenizer_sha256: str
    position_policy: str
    """RoPE base, scaling and context limit, in one canonical string."""
    arithmetic: str
    """Declared arithmetic, for example ``draftgate-arithmetic/1``."""


@runtime_checkable
class Transaction(Protocol):
    """Provisional appends to one cache, from its committed length."""

    @property
    def appended(self) -> int:
        """Tokens appended in this transaction so far, pending included."""

    def commit_prefix(self, n: int) -> None:
        """Make the first ``n`` appended tokens permanent, drop the rest, and end the transaction.

        Raises CacheMisuse when ``n`` is negative or beyond ``appended``, or the transaction has ended.
        """

    def rollback(self) -> None:
        """Drop everything appended and end the transaction."""


@runtime_checkable
class Cache(Protocol):
    """The keys and values of one sequence."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    @property
    def capacity(self) -> int:
        """Most tokens this cache can hold, provisional ones included."""

    @property
    def identity(self) -> EngineIdentity: ...

    def begin(self) -> Transaction:
        """Open the one transaction a cache can have. Raises CacheMisuse when one is open or the cache is closed."""

    def adopt(self, other: Cache, n: int) -> None:
        """Copy the first ``n`` committed tokens of another cache of the same identity into this one, which is empty.

        Raises CacheMisuse when this one is not, a transaction of it is open, either is closed, the identities differ,
        or ``n`` is negative, beyond the other's length or this one's capacity.
        """

    def fingerprint(self) -> str:
        """sha256 over the committed range (bytes of keys and values): the fresh-state invariant compares these."""

    def close(self) -> None: ...


@runtime_checkable
class Engine(Protocol):
    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def hidden_width(self) -> int: ...

    @property
    def context_limit(self) -> int:
        """Longest sequence in tokens."""

    @property
    def threads(self) -> int: ...

    def new_cache(self, capacity: int | None = None) -> Cache:
        """A cache for ``capacity`` tokens (default: the context limit)."""

    def verify_linear(self, tx: Transaction, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        """Append ``tokens`` provisionally and return float32 logits [n_rows, V] (n_rows = len(tokens), 1 or 0).

        Raises ContextFull, CacheMisuse, NonFinite, ValueError (a token outside the vocabulary, an empty call).
        """

    def verify_with_hidden(
        self, tx: Transaction, tokens: Sequence[int], rows: Rows = "all", layers: Sequence[int] = ()
    ) -> tuple[Logits, npt.NDArray[np.float32]]:
        """As verify_linear, and the hidden states: float32 [len(tokens), (1 + len(layers)) * d].

        First d: the state before the head, after the output norm; then the sums that leave each of ``layers`` (from 0),
        not normed. Raises ValueError for a layer the model does not have.
        """

    def verify_batch(self, items: Sequence[tuple[Transaction, Sequence[int]]], rows: Rows = "all") -> list[Logits]:
        """verify_linear over several sequences, each with its own cache, in one pass over the weights."""
