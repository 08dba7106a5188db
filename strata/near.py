"""Near duplicates among prompts: Jaccard similarity of their word trigrams, from small sorted sketches.

A sketch keeps the SKETCH smallest hashes of a prompt's trigrams (bottom-k): for prompts of up to SKETCH trigrams the
similarity is exact, for longer ones an estimate with a standard error of about 0.04. Pairs are found by sorting all
hashes together and looking at prompts that share one, so a set without duplicates costs one sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .contamination import words

SHINGLE_WORDS = 3
SKETCH = 128
LONGEST_RUN = 40
"""Prompts sharing one trigram beyond this many are paired with their neighbours only: boilerplate is no evidence, and
true copies are still linked in a chain."""


@dataclass(frozen=True)
class Pair:
    first: int
    second: int
    similarity: float


def sketch(text: str) -> NDArray[np.uint64]:
    """Up to SKETCH smallest distinct trigram hashes, ascending. Short texts give their shorter runs; no words, none."""
    sequence = words(text)
    size = min(SHINGLE_WORDS, len(sequence))
    if size == 0:
        return np.empty(0, dtype=np.uint64)
    runs = {" ".join(sequence[i : i + size]) for i in range(len(sequence) - size + 1)}
    hashes = np.fromiter((_hash(run) for run in runs), dtype=np.uint64, count=len(runs))
    return np.sort(hashes)[:SKETCH]


def similarity(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    """Jaccard similarity of two trigram sets, from their sketches."""
    if not len(a) or not len(b):
        return 0.0
    union = np.union1d(a, b)[:SKETCH]
    both = np.intersect1d(a, b, assume_unique=True)
    return float(np.isin(union, both, assume_unique=True).sum() / len(union))


def near_duplicates(sketches: list[NDArray[np.uint64]], threshold: float) -> list[Pair]:
    """Pairs of at least this similarity, most similar first."""
    pairs = (Pair(i, j, similarity(sketches[i], sketches[j])) for i, j in _candidates(sketches, threshold))
    return sorted((p for p in pairs if p.similarity >= threshold), key=lambda p: (-p.similarity, p.first, p.second))


def _candidates(sketches: list[NDArray[np.uint64]], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs that share enough hashes to reach the threshold, from runs of equal hashes in the sorted whole."""
    if not sketches:
        return
    hashes = np.concatenate(sketches)
    owners = np.repeat(np.arange(len(sketches), dtype=np.int32), [len(s) for s in sketches])
    order = np.lexsort((owners, hashes))
    hashes, owners = hashes[order], owners[order]
    bounds = np.flatnonzero(np.diff(hashes, prepend=hashes[:1] + np.uint64(1), append=hashes[-1:] + np.uint64(1)))
    shared: dict[tuple[int, int], int] = {}
    chained: set[tuple[int, int]] = set()
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if end - start < 2:
            continue
        run = owners[start:end].tolist()
        if len(run) > LONGEST_RUN:
            chained.update(pairwise(run))
            continue
        for position, i in enumerate(run):
            for j in run[position + 1 :]:
                shared[i, j] = shared.get((i, j), 0) + 1
    lengths = [len(s) for s in sketches]
    for (i, j), count in shared.items():
        if count + 2 >= 0.5 * threshold * min(lengths[i], lengths[j]) or (i, j) in chained:
            yield i, j
    yield from (pair for pair in chained if pair not in shared)


def _hash(run: str) -> int:
    return int.from_bytes(blake2b(run.encode(), digest_size=8).digest())
