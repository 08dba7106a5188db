"""Prompt files in, prompts out: one JSON object a line, streamed, with every bad line named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from .errors import StrataError
from .schema import Prompt, from_record

Value = TypeVar("Value")

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is skipped without being held in memory."""


@dataclass(frozen=True)
class Problem:
    """A line that gave no prompt."""

    path: str
    line: int
    """1-based."""
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def data_folder() -> Path:
    return Path(str(files(__package__))) / "data"


def names() -> list[str]:
    """The strata that ship, in alphabetical order."""
    return sorted(path.parent.name for path in data_folder().glob("*/prompts.jsonl"))


def prompt_file(name_or_path: str | Path) -> Path:
    """The file of a shipped stratum, of a folder with ``prompts.jsonl`` in it, or the file itself."""
    name = str(name_or_path)
    if name in names():
        return data_folder() / name / "prompts.jsonl"
    path = Path(name_or_path)
    if path.is_dir():
        path = path / "prompts.jsonl"
    if not path.is_file():
        raise StrataError(f"no stratum and no file {name!r}; strata are {', '.join(names())}")
    return path


def load_stratum(name_or_path: str | Path) -> list[Prompt]:
    """All prompts of a shipped stratum or a user's file, in file order.

    A record without ``stratum`` takes the name of the folder (for ``prompts.jsonl``) or of the file. Raises StrataError
    naming file and line of the first bad record, and when there is none at all.
    """
    path = prompt_file(name_or_path)
    prompts = list(read_jsonl(path))
    if not prompts:
        raise StrataError(f"{path}: no prompts in it")
    return prompts


def default_stratum(path: Path) -> str:
    return path.resolve().parent.name if path.name == "prompts.jsonl" else path.name.split(".")[0]


def read_jsonl(
    path: str | Path, *, stratum: str | None = None, on_problem: Callable[[Problem], None] | None = None
) -> Iterator[Prompt]:
    """The prompts of a file, one at a time; memory grows only by a hash an id.

    Without ``on_problem`` the first bad line raises StrataError; with it every bad line is handed over and the good
    ones keep coming. Bad is: over-long, empty, not UTF-8, not one JSON object, an unknown or malformed field, a NUL, an
    id seen before.
    """
    path = Path(path)
    name = stratum or default_stratum(path)
    return prompts_of(path, lines_of(path), lambda _, line: from_record(parse_object(line), stratum=name), on_problem)


def prompts_of(
    path: Path,
    records: Iterable[tuple[int, Value | StrataError]],
    read: Callable[[int, Value], Prompt],
    on_problem: Callable[[Problem], None] | None,
) -> Iterator[Prompt]:
    """The prompts of numbered records that can be read and whose id no earlier one has; the others are problems.

    Without ``on_problem`` the first problem raises StrataError.
    """
    seen: set[int] = set()
    for number, value in records:
        try:
            if isinstance(value, StrataError):
                raise value
            prompt = read(number, value)
            if (key := id_hash(prompt.id)) in seen:
                raise StrataError(f"duplicate id {prompt.id!r}: an earlier record has it")
            seen.add(key)
        except StrataError as error:
            problem = Problem(str(path), number, str(error))
            if on_problem is None:
                raise StrataError(str(problem)) from None
            on_problem(problem)
            continue
        yield prompt


def parse_object(line: bytes) -> Any:
    """One line's JSON value. Raises StrataError for what is not UTF-8, not JSON, or JSON that readers disagree on."""
    if b"\x00" in line:
        raise StrataError(f"NUL byte at byte {line.index(0)}")
    text = text_of(line)
    if not text.strip():
        raise StrataError("empty line")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise StrataError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise StrataError("not usable JSON: nested too deeply") from None
    except ValueError as error:
        raise StrataError(f"not usable JSON: {error}") from None


def text_of(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrataError(f"not UTF-8 at byte {error.start} (0x{line[error.start]:02x})") from None


def id_hash(identifier: str) -> int:
    """64 bits of an id: a million in a set take 65 MB, and two ids collide in one such file of 37 million."""
    return int.from_bytes(blake2b(identifier.encode(), digest_size=8).digest())


def lines_of(path: Path) -> Iterator[tuple[int, bytes | StrataError]]:
    """Numbered lines of a file without their ends; a StrataError stands for one longer than MAX_LINE_BYTES."""
    try:
        handle = path.open("rb")
    except OSError as error:
        raise StrataError(f"{path}: {error.strerror or error}") from None
    with handle:
        number = 0
        while chunk := handle.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(chunk) > MAX_LINE_BYTES and not chunk.endswith(b"\n"):
                while chunk and not chunk.endswith(b"\n"):
                    chunk = handle.readline(MAX_LINE_BYTES)
                yield number, StrataError(f"over-long: the line has more than {MAX_LINE_BYTES:,} bytes")
                continue
            if number == 1:
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            yield number, chunk.rstrip(b"\r\n")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} appears twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
