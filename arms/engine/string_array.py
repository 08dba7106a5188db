"""An array of strings of a GGUF file, kept as the bytes it came in.

As Python objects the tokens and merges of a vocabulary take ten times their bytes for as long as a model is loaded, and
they are read once or twice. So they are decoded when asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload


class StringArray(Sequence[str]):
    """Equal to a list or tuple of the same strings. Every access decodes anew: iterate once and keep what is needed."""

    __slots__ = ("_ends", "_raw")

    def __init__(self, raw: bytes, ends: array[int]) -> None:
        """``raw``: the strings, each after its length in 8 bytes; ``ends``: where each of them ends in it."""
        self._raw, self._ends = raw, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        raw, start = self._raw, 8
        for end in self._ends:
            yield raw[start:end].decode()
            start = end + 8

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        i = range(len(self))[at]
        start = self._ends[i - 1] + 8 if i else 8
        return self._raw[start : self._ends[i]].decode()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StringArray):
            return self._raw == other._raw
        if not isinstance(other, list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} strings>"
