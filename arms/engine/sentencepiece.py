"""SentencePiece BPE: merge the adjacent pair whose union scores best, leftmost first, until none is a token.

Symbols start as single characters; what no token spells falls back to the byte tokens ``<0x00>`` … ``<0xFF>``.
Source: Kudo and Richardson 2018 (SentencePiece), the BPE model; the same rule as llama.cpp's.
"""

from __future__ import annotations

import heapq

from .vocabulary import BYTE, CONTROL, UNKNOWN, TokenizerError, Vocabulary

SPACE = "\u2581"
"""Stands for a space inside tokens."""


class ScoredPieces:
    """Encodes text by scores. Raises TokenizerError when the vocabulary lacks a byte token or the space."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        if len(vocabulary.ids()) != len(vocabulary.tokens):
            raise TokenizerError("tokenizer.ggml.tokens holds a token twice")
        self.scores = vocabulary.scores or []
        self.ids = {
            text: i
            for i, text in enumerate(vocabulary.tokens)
            if vocabulary.types[i] not in (CONTROL, UNKNOWN, BYTE) and i not in vocabulary.specials
        }
        if SPACE not in self.ids:
            raise TokenizerError(f"the SentencePiece vocabulary has no token {SPACE!r} for a space")
        found = {value: i for i, value in byte_values(vocabulary).items()}
        missing = next((value for value in range(256) if value not in found), None)
        if missing is not None:
            raise TokenizerError(f"the SentencePiece vocabulary has no byte token <0x{missing:02X}>, and needs all 256")
        self.fallback = [found[value] for value in range(256)]

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``. A character that is itself SPACE goes by its bytes: its token would come back a space."""
        first, *rest = text.split(SPACE)
        ids = self._merged(first)
        for run in rest:
            ids += [self.fallback[byte] for byte in SPACE.encode("utf-8")]
            ids += self._merged(run)
        return ids

    def _merged(self, text: str) -> list[int]:
        pieces: list[str | None] = list(text.replace(" ", SPACE))
        after = list(range(1, len(pieces) + 1))
        before = list(range(-1, len(pieces) - 1))
        heap: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left < 0 or right >= len(pieces):
                return
            union = f"{pieces[left]}{pieces[right]}"
            token = self.ids.get(union)
            if token is not None:
                heapq.heappush(heap, (-self.scores[token], left, right, union))

        for left in range(len(pieces) - 1):
            offer(left, left + 1)
        while heap:
            _, left, right, union = heapq.heappop(heap)
            if pieces[left] is None or pieces[right] is None or f"{pieces[left]}{pieces[right]}" != union:
                continue  # one of the two was merged since
            pieces[left], pieces[right] = union, None
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            offer(before[left], left)
            offer(left, after[left])
        ids: list[int] = []
        for piece in pieces:
            if piece is None:
                continue
            token = self.ids.get(piece)
            ids.extend([token] if token is not None else [self.fallback[byte] for byte in piece.encode("utf-8")])
        return ids


def byte_values(vocabulary: Vocabulary) -> dict[int, int]:
    """Token id -> the byte it stands for, for tokens of type BYTE. Raises TokenizerError for a malformed one."""
    values: dict[int, int] = {}
    for i, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        if kind != BYTE:
            continue
        try:
            if len(text) != 6 or not text.startswith("<0x") or text[5] != ">":
                raise ValueError
            values[i] = bytes.fromhex(text[3:5])[0]
        except (ValueError, IndexError):
            raise TokenizerError(f"token {i} has type BYTE and the text {text[:20]!r}, not <0xNN>") from None
    return values


def token_bytes(vocabulary: Vocabulary) -> list[bytes]:
    """id -> the bytes it stands for; the space character becomes a space, except in control tokens."""
    values = byte_values(vocabulary)
    return [
        bytes([values[i]])
        if i in values
        else (text if i in vocabulary.specials else text.replace(SPACE, " ")).encode("utf-8")
        for i, text in enumerate(vocabulary.tokens)
    ]
