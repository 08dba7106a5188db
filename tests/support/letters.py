"""A tokenizer for toys: token i is one character, with a few longer tokens and multi-byte pieces."""

from __future__ import annotations

import codecs
from collections.abc import Iterable


class Letters:
    """Implements what grammars, stops and arms ask of a tokenizer."""

    def __init__(self, pieces: Iterable[bytes], stop_ids: tuple[int, ...] = ()) -> None:
        self.pieces, self.stop_ids = list(pieces), stop_ids
        self.sha256 = "letters"

    def __len__(self) -> int:
        return len(self.pieces)

    def token_bytes(self, token: int, /) -> bytes:
        return self.pieces[token]

    def encode(self, text: str, special: bool = False) -> list[int]:
        rest, ids = text.encode(), []
        while rest:
            fits = [i for i, p in enumerate(self.pieces) if p and i not in self.stop_ids and rest.startswith(p)]
            best = max(fits, key=lambda i: len(self.pieces[i]))
            ids.append(best)
            rest = rest[len(self.pieces[best]) :]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        decoder = LettersDecoder(self)
        return decoder.push(ids) + decoder.finish()


class LettersDecoder:
    def __init__(self, letters: Letters) -> None:
        self.letters = letters
        self.bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        return self.bytes.decode(b"".join(self.letters.pieces[i] for i in ids if i not in self.letters.stop_ids))

    def finish(self) -> str:
        return self.bytes.decode(b"", final=True)
