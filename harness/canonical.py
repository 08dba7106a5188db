"""Canonical bytes and digests: what a plan id, a chain link and a bound artifact are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def canonical_bytes(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value. Raises ValueError for NaN, infinities and integers beyond 2**53."""
    import rfc8785

    try:
        return bytes(rfc8785.dumps(value))
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"not canonical JSON: {error}") from None


def digest(data: bytes) -> str:
    """sha256, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_value(value: Any) -> str:
    """sha256 of the canonical bytes of a JSON value."""
    return digest(canonical_bytes(value))


def digest_file(path: Path) -> str:
    """sha256 of a file's bytes, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_ids(ids: Iterable[int]) -> str:
    """sha256 of token ids written as decimal numbers with commas: independent of word size and byte order."""
    return digest(",".join(map(str, ids)).encode())


def compact(value: Any) -> bytes:
    """One line of JSON without spaces or newline, keys in the given order, ASCII only. Raises ValueError for NaN."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def is_digest(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and all(c in "0123456789abcdef" for c in text)
