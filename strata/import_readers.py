"""Reads the files that importers take: JSON lines, one large JSON array, Parquet rows, plain lines. All streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .errors import StrataError
from .load import MAX_LINE_BYTES, lines_of, parse_object, text_of

Record = tuple[int, Any]
"""Number of the line or record, from 1, and its value; a StrataError instead of a value for one that cannot be read."""

_CHUNK = 1 << 16


def json_values(path: Path) -> Iterator[Record]:
    """The objects of a JSON-lines file, or the elements of a file that is one JSON array."""
    with path.open("rb") as handle:
        head = handle.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return _array(path) if head.startswith(b"[") else _lines(path, parse_object)


def _lines(path: Path, read: Callable[[bytes], Any]) -> Iterator[Record]:
    """What ``read`` makes of every line that is not blank."""
    for number, line in lines_of(path):
        if isinstance(line, StrataError):
            yield number, line
        elif line.strip():
            try:
                value = read(line)
            except StrataError as error:
                value = error
            yield number, value


def _array(path: Path) -> Iterator[Record]:
    """Elements of one array, decoded as the text comes in. Broken JSON ends the reading: what follows has no place."""
    decoder = json.JSONDecoder()
    number, rest, started = 0, "", False
    with path.open(encoding="utf-8-sig") as handle:
        while True:
            try:
                chunk = handle.read(_CHUNK)
            except UnicodeDecodeError as error:
                yield number + 1, StrataError(f"not UTF-8: {error.reason}; the rest of the array is lost")
                return
            rest += chunk
            while True:
                rest = rest.lstrip() if started else rest.lstrip().removeprefix("[").lstrip()
                started = True
                if rest.startswith("]"):
                    return
                start = 1 if rest.startswith(",") else 0
                begin = start + len(rest[start:]) - len(rest[start:].lstrip())
                try:
                    value, end = decoder.raw_decode(rest, begin)
                except (ValueError, RecursionError):
                    break
                if end == len(rest) and chunk:
                    break  # a number at the end of a chunk may go on
                number += 1
                yield number, value
                rest = rest[end:]
            if not chunk:
                yield number + 1, StrataError("the JSON array breaks off or is malformed here; the rest is lost")
                return
            if len(rest) > MAX_LINE_BYTES:
                yield number + 1, StrataError("over-long or malformed element; the rest of the array is lost")
                return


def parquet_rows(path: Path) -> Iterator[Record]:
    """Rows of a Parquet file, or, for any other file, what `json_values` gives."""
    with path.open("rb") as handle:
        if handle.read(4) != b"PAR1":
            yield from json_values(path)
            return
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        number = 0
        for batch in pq.ParquetFile(path).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowException, OSError) as error:
        raise StrataError(f"{path}: not a readable Parquet file ({error})") from None


def text_lines(path: Path) -> Iterator[Record]:
    return _lines(path, lambda line: {"text": text_of(line).strip()})
