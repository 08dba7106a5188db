"""Does a training text repeat a prompt? Answered from hashes of word n-grams, so that training never reads a prompt.

Every prompt of N or more words leaves the hash of each STRIDE-th run of N words (and of its last); a training text is
looked at at every position, so any run of N + STRIDE - 1 words that it shares with a prompt is found, and most shorter
ones. A prompt of fewer words leaves one hash of all its words, found anywhere in a training text when it has at least
SHORTEST words, and as a whole text when it has fewer: that somebody wrote "good morning" contaminates nothing.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from .errors import StrataError
from .files import output
from .schema import Prompt

N = 13
STRIDE = 4
SHORTEST = 6
HASH_BYTES = 6
"""At 100,000 stored hashes and ten million words looked at, 0.004 false alarms are expected."""
MAGIC = b"draftgate-ngrams/1\n"

# One CJK, kana or Hangul character counts as a word: those texts have few spaces or none.
_WORD = re.compile(r"[぀-ヿ㐀-䶿一-鿿豈-﫿가-힯\U00020000-\U0003ffff]|[^\W_]+")


def words(text: str) -> list[str]:
    """Words as compared here: composed, without case, punctuation or spacing."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True)
class Grams:
    """Hashes by length: ``sizes[n]`` holds runs of n words; size 0 holds whole texts shorter than SHORTEST."""

    sizes: Mapping[int, frozenset[bytes]]

    def __len__(self) -> int:
        return sum(map(len, self.sizes.values()))


def ngram_hashes(texts: Iterable[str], n: int = N, stride: int = STRIDE) -> Grams:
    """Hashes to keep of the texts that training must not repeat."""
    sizes: dict[int, set[bytes]] = {}
    for text in texts:
        sequence = words(text)
        count = len(sequence)
        if not count:
            continue
        if count < n:
            sizes.setdefault(count if count >= SHORTEST else 0, set()).add(_hash(sequence))
            continue
        kept = sizes.setdefault(n, set())
        for start in (*range(0, count - n, stride), count - n):
            kept.add(_hash(sequence[start : start + n]))
    return Grams({size: frozenset(found) for size, found in sorted(sizes.items())})


def contaminated(texts: Iterable[str], hashes: Grams) -> list[int]:
    """Indices of the training texts that repeat a run of words of a hashed prompt."""
    return [index for index, text in enumerate(texts) if is_contaminated(text, hashes)]


def is_contaminated(text: str, hashes: Grams) -> bool:
    sequence = words(text)
    for size, kept in hashes.sizes.items():
        if size == 0:
            if 0 < len(sequence) < SHORTEST and _hash(sequence) in kept:
                return True
            continue
        if any(_hash(sequence[i : i + size]) in kept for i in range(len(sequence) - size + 1)):
            return True
    return False


def prompt_texts(prompts: Iterable[Prompt]) -> Iterator[str]:
    """The texts of prompts that count: what users and systems say, each message on its own."""
    for prompt in prompts:
        if prompt.raw is not None:
            yield prompt.raw
        for turn in prompt.turns:
            for message in turn:
                if message.role != "assistant":
                    yield message.content


def write_hashes(path: Path, hashes: Grams) -> None:
    """Sorted hashes, replacing the file at once: the same prompts always give the same bytes."""
    parts = [MAGIC, struct.pack(">H", len(hashes.sizes))]
    for size, kept in sorted(hashes.sizes.items()):
        parts += [struct.pack(">HI", size, len(kept)), *sorted(kept)]
    with output(path) as handle:
        handle.write(b"".join(parts))


def read_hashes(path: str | Path) -> Grams:
    """Raises StrataError for a file that is none of ours or is cut short."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise StrataError(f"{path}: {error.strerror or error}") from None
    if not data.startswith(MAGIC):
        raise StrataError(f"{path}: not a file of n-gram hashes ({MAGIC.decode().strip()})")
    try:
        (count,), offset, sizes = struct.unpack_from(">H", data, len(MAGIC)), len(MAGIC) + 2, {}
        for _ in range(count):
            size, held = struct.unpack_from(">HI", data, offset)
            offset += 6
            end = offset + held * HASH_BYTES
            if end > len(data):
                raise StrataError(f"{path}: cut short")
            sizes[size] = frozenset(data[i : i + HASH_BYTES] for i in range(offset, end, HASH_BYTES))
            offset = end
    except struct.error:
        raise StrataError(f"{path}: cut short") from None
    if offset != len(data):
        raise StrataError(f"{path}: {len(data) - offset} bytes too many")
    return Grams(sizes)


def shipped_hashes() -> Grams:
    """The hashes of all prompts that ship, open and reserve."""
    from .load import data_folder

    return read_hashes(data_folder() / "ngram_hashes.bin")


def _hash(run: list[str]) -> bytes:
    return blake2b(" ".join(run).encode(), digest_size=HASH_BYTES).digest()
