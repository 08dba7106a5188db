"""Pairs of champion and draft for the proofs: small vocabularies, every shape of disagreement, every processor.

Both engines of a pair pick the same row of their tables at the same prefix, so a family is a pair of tables [rows, V].
Logits of -1e4 have no mass; they are finite, as a row must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .toy import tables

Table = npt.NDArray[np.float32]
NOTHING = -1e4
"""A logit without mass."""


@dataclass(frozen=True)
class Family:
    """One pair and the settings it is tried under."""

    name: str
    champion: Table
    draft: Table
    k: int = 2
    max_new_tokens: int = 3
    stop_ids: tuple[int, ...] = ()
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the plan's decoding section; temperature is 1 unless named."""
    prompt: tuple[int, ...] = (0, 1)
    context_limit: int = 64

    @property
    def vocabulary(self) -> int:
        return int(self.champion.shape[1])


def _masked(table: Table, keep: Callable[[int, int], bool]) -> Table:
    """A copy with no mass where ``keep(row, token)`` is false."""
    out = table.copy()
    for row in range(out.shape[0]):
        for token in range(out.shape[1]):
            if not keep(row, token):
                out[row, token] = NOTHING
    return out


def constant(champion: list[float], draft: list[float], rows: int = 1) -> tuple[Table, Table]:
    """Tables whose every row has these probabilities (zeros allowed)."""

    def table(p: list[float]) -> Table:
        logits = [float(np.log(x)) if x > 0 else NOTHING for x in p]
        return np.array([logits] * rows, np.float32)

    return table(champion), table(draft)


QUICK = ((2, 3, 4), (3, 2, 3), (4, 1, 2), (6, 1, 2))
FULL = ((2, 4, 5), (3, 3, 4), (4, 2, 3), (5, 2, 3), (6, 1, 2), (6, 2, 3))
"""(vocabulary, k, max_new_tokens); one token more than k, so that a bonus is drawn."""


def shapes(full: bool = False, seed: int = 1) -> Iterator[Family]:
    """Disagreements: generic ones by vocabulary and k, and the corners where rounds go wrong."""
    for vocabulary, k, new in FULL if full else QUICK:
        champion, draft = tables(vocabulary, seed + vocabulary, 0.6, rows=61)
        yield Family(f"generic-v{vocabulary}-k{k}", champion, draft, k, new)
    size = 4 if full else 3
    champion, draft = tables(size, seed, 0.5, rows=61)
    yield Family("equal", champion, champion.copy(), 2, 3)
    yield Family(
        "disjoint",
        _masked(champion, lambda r, t: (r + t) % 2 == 0),
        _masked(draft, lambda r, t: (r + t) % 2 == 1),
        3,
        3,
    )
    yield Family(
        "tiny-overlap",
        np.where(np.arange(size) % 2 == 0, champion, np.float32(-31.5)).astype(np.float32),
        np.where(np.arange(size) % 2 == 1, draft, np.float32(-31.5)).astype(np.float32),
        2,
        3,
    )
    yield Family("zero-target", _masked(champion, lambda r, t: t != r % size), draft, 2, 3)
    yield Family("zero-proposal", champion, _masked(draft, lambda r, t: t != r % size), 2, 3)
    yield Family("one-hot-draft", champion, _masked(draft, lambda r, t: t == r % size), 3, 3)
    yield Family("one-hot-champion", _masked(champion, lambda r, t: t == r % size), draft, 3, 3)
    tilt = (np.arange(size) * 2**-14).astype(np.float32)
    yield Family("nearly-equal", champion, champion + tilt, 2, 3)
    broken = draft.copy()
    broken[::5] = np.nan
    yield Family("draft-numeric", champion, broken, 3, 3)
    yield Family("sharp-mismatch", *constant([0.98, 0.01, 0.01], [0.01, 0.01, 0.98]), 2, 3)
    yield Family("lesson-one", *constant([0.7, 0.3], [0.4, 0.6]), 3, 4)
    yield Family("lesson-two", *constant([0.6, 0.4], [0.3, 0.7]), 3, 4)


def settings(full: bool = False, seed: int = 11) -> Iterator[Family]:
    """Stops and lengths, context edges, and each processor alone and together."""
    champion, draft = tables(4 if full else 3, seed, 0.6, rows=61)

    def pair(name: str, decoding: Mapping[str, Any] | None = None, **changes: Any) -> Family:
        values: dict[str, Any] = {"k": 2, "max_new_tokens": 3, "decoding": decoding or {}, **changes}
        return Family(name, champion, draft, **values)

    yield pair("stop-inside", stop_ids=(2,), k=3, max_new_tokens=4 if full else 3)
    yield pair("two-stops", stop_ids=(0, 2), k=3)
    yield pair("remaining-one", max_new_tokens=1, k=3)
    yield pair("context-edge", context_limit=5 if full else 4, max_new_tokens=8)
    yield pair("temperature", {"temperature": 0.5})
    yield pair("top-k", {"top_k": 2})
    yield pair("top-p", {"top_p": 0.7})
    yield pair("min-p", {"min_p": 0.3})
    yield pair("typical-p", {"typical_p": 0.6})
    yield pair("repetition", {"repetition_penalty": 1.6})
    yield pair("frequency", {"frequency_penalty": 0.7})
    yield pair("presence", {"presence_penalty": 0.9})
    yield pair("bias", {"logit_bias": {"1": 1.5, "2": -2.0}})
    yield pair("suppress", {"suppress": [1]})
    yield pair("bad-words", {"bad_words": [[1, 2], [0, 1]]})
    yield pair("minimum-new", {"min_new_tokens": 2}, stop_ids=(2,))
    yield pair("grammar", {"grammar": {"kind": "regex", "text": "(ab|ba|bb)*"}}, stop_ids=(2,), k=3)
    yield pair("forced", {"grammar": {"kind": "regex", "text": "a(bba|bab)b"}}, stop_ids=(2,), prompt=(1, 1))
    yield pair(
        "together",
        {
            "temperature": 0.8,
            "top_k": 3,
            "top_p": 0.9,
            "repetition_penalty": 1.3,
            "frequency_penalty": 0.3,
            "presence_penalty": 0.2,
            "min_new_tokens": 1,
            "bad_words": [[1, 2]],
        },
        stop_ids=(2,),
    )
