"""Logit conformance and causality: a row is a function of the token ids before it, to the last bit.

However the tokens were cut into calls, whatever was appended and rolled back before, whichever sequences shared the
pass and however many threads worked, the same prefix has the same row. And a row knows nothing of what follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arms.engine.contract import Engine
from .finding import Finding

Rows = npt.NDArray[np.float32]
LENGTHS = (1, 2, 3, 5, 8)


@dataclass(frozen=True)
class Difference:
    """The first place where two readings of one row differ."""

    what: str
    row: int
    token: int
    left: float
    right: float


def _cut(tokens: Sequence[int], size: int) -> list[Sequence[int]]:
    return [tokens[i : i + size] for i in range(0, len(tokens), size)]


def read_rows(engine: Engine, prefix: Sequence[int], window: Sequence[int], size: int, prefill: int = 64) -> Rows:
    """Rows of ``window`` after ``prefix``, in calls of ``size`` tokens committed whole: float32 [len(window), V]."""
    cache = engine.new_cache(len(prefix) + len(window) + 1)
    try:
        for piece in _cut(prefix, prefill):
            tx = cache.begin()
            engine.verify_linear(tx, piece, "none")
            tx.commit_prefix(len(piece))
        out = []
        for piece in _cut(window, size):
            tx = cache.begin()
            out.append(engine.verify_linear(tx, piece, "all"))
            tx.commit_prefix(len(piece))
        return np.concatenate(out)
    finally:
        cache.close()


def first_difference(what: str, left: Rows, right: Rows) -> Difference | None:
    """None when the bits are equal (NaN included: bits are compared, not values)."""
    a, b = (np.ascontiguousarray(x, np.float32).view(np.uint32) for x in (left, right))
    if a.shape != b.shape:
        return Difference(what, -1, -1, float(a.shape[0]), float(b.shape[0]))
    where = np.argwhere(a != b)
    if not len(where):
        return None
    row, token = int(where[0][0]), int(where[0][1])
    return Difference(what, row, token, float(left[row, token]), float(right[row, token]))


def _after_rollback(engine: Engine, prefix: Sequence[int], window: Sequence[int], noise: Sequence[int]) -> Rows:
    """Rows read one call at a time while wrong proposals are appended and rejected in between."""
    cache = engine.new_cache(len(prefix) + len(window) + len(noise) + 1)
    try:
        for piece in _cut(prefix, 64):
            tx = cache.begin()
            engine.verify_linear(tx, piece, "none")
            tx.commit_prefix(len(piece))
        out = []
        for token in window:
            tx = cache.begin()
            out.append(engine.verify_linear(tx, [token, *noise], "all")[:1])
            tx.commit_prefix(1)
            tx = cache.begin()
            engine.verify_linear(tx, list(noise), "none")
            tx.rollback()
        return np.concatenate(out)
    finally:
        cache.close()


def _batched(engine: Engine, prefix: Sequence[int], window: Sequence[int]) -> list[Rows]:
    """The same window twice in one pass, after prefixes of different length."""
    shorter = list(prefix[: max(1, len(prefix) // 2)])
    caches = [engine.new_cache(len(prefix) + len(window) + 1) for _ in range(2)]
    try:
        items = []
        for cache, start in zip(caches, (list(prefix), shorter), strict=True):
            tx = cache.begin()
            engine.verify_linear(tx, start, "none")
            items.append((tx, list(window)))
        rows = engine.verify_batch(items, "all")
        for tx, _ in items:
            tx.rollback()
        return list(rows)
    finally:
        for cache in caches:
            cache.close()


def check_conformance(
    engine: Engine,
    sequences: Iterable[Sequence[int]],
    window: int = 12,
    lengths: Sequence[int] = LENGTHS,
    others: Sequence[tuple[str, Callable[[], Engine]]] = (),
) -> Finding:
    """Bitwise agreement of rows over call lengths, prefill splits, rejected tails, shared passes and other engines.

    Each sequence needs at least ``window`` + 1 tokens (shorter ones are used as far as they go). ``others`` are engines
    that must agree with this one, under the name of what differs (``threads 1``, ``portable``).
    """
    count, found = 0, None
    compared: dict[str, int] = {}
    built = [(name, make()) for name, make in others]
    for ids in sequences:
        size = min(window, len(ids) - 1)
        if size < 1 or found is not None:
            continue
        prefix, tail = list(ids[:-size]), list(ids[-size:])
        reference = read_rows(engine, prefix, tail, 1)
        noise = tail[::-1][:4]
        readings = [(f"q_len {n}", read_rows(engine, prefix, tail, n)) for n in lengths if n > 1]
        readings += [(f"prefill in {n}", read_rows(engine, prefix, tail, size, n)) for n in (1, 7)]
        readings.append(("after rejected tails", _after_rollback(engine, prefix, tail, noise)))
        long, short = _batched(engine, prefix, tail)
        readings.append(("shared pass", long))
        readings += [(name, read_rows(other, prefix, tail, 1)) for name, other in built]
        pairs = [(what, reference, rows) for what, rows in readings]
        pairs.append(("shared pass, shorter", read_rows(engine, prefix[: max(1, len(prefix) // 2)], tail, 1), short))
        for what, left, right in pairs:
            compared[what] = compared.get(what, 0) + len(left)
            count += len(left)
            found = found or first_difference(what, left, right)
    detail = {"window": window, "rows": compared, "first_difference": None if found is None else found.__dict__}
    return Finding("conformance", found is None and count > 0, count, "rows compared", detail)


def check_causality(engine: Engine, sequences: Iterable[Sequence[int]], window: int = 8) -> Finding:
    """Changing proposals[j] leaves rows 0…j bitwise unchanged, for every j of a window; and changes something later."""
    count, later, found = 0, 0, None
    for ids in sequences:
        size = min(window, len(ids) - 1)
        if size < 2:
            continue
        prefix, tail = list(ids[:-size]), list(ids[-size:])
        base = read_rows(engine, prefix, tail, size)
        for j in range(1, size):
            changed = list(tail)
            changed[j] = (changed[j] + 1 + j) % engine.vocabulary
            if changed[j] == tail[j]:
                continue
            rows = read_rows(engine, prefix, changed, size)
            count += j
            later += int(not np.array_equal(rows[j:], base[j:]))
            found = found or first_difference(f"proposals[{j - 1}] changed", base[:j], rows[:j])
    detail = {
        "window": window,
        "changes_seen_later": later,
        "first_difference": None if found is None else found.__dict__,
    }
    return Finding("causality", found is None and count > 0 and later > 0, count, "rows compared", detail)
