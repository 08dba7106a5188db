"""Text to token ids and back, from a GGUF's own metadata.

Text is never normalised, so decoding what was encoded gives the same text for any Unicode the vocabulary can spell; a
character it cannot spell is an error, not a silent omission. Special tokens are recognised only where asked for.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from functools import cached_property

from . import byte_level, sentencepiece
from .gguf import GgufFile
from .vocabulary import TokenizerError, Vocabulary, read_vocabulary
from .vocabulary import first_difference as _first_difference

__all__ = ["StreamDecoder", "Tokenizer", "TokenizerError", "first_difference"]


class Tokenizer:
    """Checked when it is made. The tables of byte-level BPE are built for the first text: a process that is given token
    ids alone never needs them, and they take a tenth of a small model's memory."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises TokenizerError for a vocabulary that cannot be exact."""
        self.vocabulary = vocabulary
        self._missing: frozenset[int] = frozenset()
        if vocabulary.model == "gpt2":
            byte_level.check(vocabulary)
            self._missing = byte_level.missing_bytes(vocabulary)
        else:
            self._plain = sentencepiece.ScoredPieces(vocabulary).encode

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Tokenizer:
        """Raises TokenizerError, with the file's path, when the metadata holds no tokenizer we can be exact about."""
        try:
            return cls(read_vocabulary(file.metadata))
        except TokenizerError as error:
            raise TokenizerError(f"{file.path}: {error}") from error

    def __len__(self) -> int:
        return len(self.vocabulary.tokens)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end an answer, end of sequence first."""
        return self.vocabulary.ends

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that plain text never yields."""
        return frozenset(self.vocabulary.specials)

    @property
    def identity(self) -> dict[str, str]:
        """Field -> sha256: vocabulary, ids, merges, scores, added tokens, normaliser, pre-tokeniser, …"""
        return self.vocabulary.identity

    @property
    def sha256(self) -> str:
        return self.vocabulary.sha256

    def encode(self, text: str, special: bool = False, drop: str = "") -> list[int]:
        """Token ids of ``text``. Special tokens in it are recognised only with ``special``; none is ever added.

        The character ``drop`` is taken out after special tokens have been looked for and before anything else: a mark
        inside what must not be read as special (`template.py`). Raises TokenizerError for text that is not Unicode (a
        lone surrogate) or that the vocabulary cannot spell.
        """
        self._check(text)
        ids: list[int] = []
        fresh = True  # the start of the text or just after a special token: where SentencePiece puts its space
        for run in _partition(text, self._specials if special else []):
            for piece in (
                [run] if isinstance(run, int) else _partition(run.replace(drop, "") if drop else run, self._always)
            ):
                if isinstance(piece, int):
                    ids.append(piece)
                    fresh = True
                    continue
                ids.extend(self._fragment(" " + piece if fresh and self._prefixed else piece))
                fresh = False
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; of a special token, its literal text."""
        if not 0 <= token < len(self._bytes):
            raise TokenizerError(f"token id {token} is outside the vocabulary of {len(self._bytes)}")
        return self._bytes[token]

    def decode_bytes(self, ids: Iterable[int], special: bool = False) -> bytes:
        """The bytes of a sequence; special tokens vanish unless ``special``."""
        hidden = {} if special else self.vocabulary.specials
        return b"".join(self.token_bytes(i) for i in ids if i not in hidden)

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Text of a sequence. Bytes that are not UTF-8 become U+FFFD; special tokens vanish unless ``special``."""
        decoder = StreamDecoder(self, special)
        return decoder.push(ids) + decoder.finish()

    @cached_property
    def _plain(self) -> Callable[[str], list[int]]:
        built = byte_level.build(self.vocabulary)
        return lambda text: list(built.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _bytes(self) -> list[bytes]:
        if self.vocabulary.model == "gpt2":
            return byte_level.token_bytes(self.vocabulary)
        return sentencepiece.token_bytes(self.vocabulary)

    @cached_property
    def _specials(self) -> list[tuple[str, int]]:
        return _longest_first(self.vocabulary.specials)

    @cached_property
    def _always(self) -> list[tuple[str, int]]:
        return _longest_first(self.vocabulary.user_defined)

    @property
    def _prefixed(self) -> bool:
        return self.vocabulary.model == "llama" and self.vocabulary.add_space_prefix

    def _fragment(self, text: str) -> list[int]:
        if self._missing:
            needed = self._missing.intersection(text.encode("utf-8"))
            if needed:
                self._refuse(text, needed)
        return self._plain(text)

    def _refuse(self, text: str, needed: frozenset[int]) -> None:
        at = next(i for i, character in enumerate(text) if needed.intersection(character.encode("utf-8")))
        raise TokenizerError(
            f"the model's vocabulary has no token for U+{ord(text[at]):04X}, character {at} of the text; remove it"
        )

    @staticmethod
    def _check(text: str) -> None:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise TokenizerError(
                f"character {error.start} of the text is a lone surrogate, U+{ord(text[error.start]):04X}; "
                "it is not Unicode text"
            ) from None


def _longest_first(tokens: dict[int, str]) -> list[tuple[str, int]]:
    return sorted(((text, i) for i, text in tokens.items() if text), key=lambda entry: -len(entry[0]))


def _partition(text: str, tokens: list[tuple[str, int]]) -> list[str | int]:
    """Cut ``text`` at the tokens that are matched whole: runs and ids in order, longest looked for first."""
    pieces: list[str | int] = [text]
    for token_text, token in tokens:
        if token_text not in text:
            continue
        cut: list[str | int] = []
        for piece in pieces:
            if isinstance(piece, int):
                cut.append(piece)
                continue
            first, *rest = piece.split(token_text)
            cut.append(first)
            for run in rest:
                cut += [token, run]
        pieces = cut
    return [piece for piece in pieces if piece != ""]


class StreamDecoder:
    """Text of ids as they come, never cutting a code point: what is incomplete waits for the next token or `finish`.

    The concatenation of all returned pieces equals `Tokenizer.decode` of all ids.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._strip = tokenizer._prefixed

    def push(self, ids: Iterable[int]) -> str:
        whole = self._tokenizer.vocabulary.user_defined if self._tokenizer._prefixed else {}
        if not whole:
            return self._push(ids)
        # A user-defined token gets no space before it, and what follows it does: take out what `encode` put in.
        parts = []
        for token in ids:
            if token in whole:
                self._strip = False
            parts.append(self._push([token]))
            self._strip |= token in whole
        return "".join(parts)

    def _push(self, ids: Iterable[int]) -> str:
        text = self._decoder.decode(self._tokenizer.decode_bytes(ids, self._special))
        if text and self._strip:  # the space that SentencePiece put before the text
            self._strip = False
            text = text.removeprefix(" ")
        return text

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


def first_difference(a: Tokenizer, b: Tokenizer) -> str | None:
    """The first field in which two tokenizers differ, with the first token id at fault; None when equal."""
    return _first_difference(a.vocabulary, b.vocabulary)
