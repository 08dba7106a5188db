"""Reads GGUF files, which are untrusted: every count, length, offset and size is checked before it is used.

Layout (little-endian, versions 2 and 3): magic, version, tensor count, key count; the keys; the tensor descriptions;
padding to the alignment; the tensor data. The file is memory-mapped; nothing of the data is copied or interpreted here.
A file that another process truncates while it is mapped is outside what a reader can guard against.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import ArmError
from .string_array import StringArray

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LOADABLE_TYPES = ("F32", "F16", "Q8_0", "Q4_0", "Q4_1")
LOADABLE_ARCHITECTURES = ("llama",)

MAX_KEYS = 16_384
MAX_TENSORS = 65_536
MAX_NAME_BYTES = 65_535
MAX_STRING_BYTES = 16 << 20
MAX_ELEMENTS = 8_000_000
"""Over all arrays of one file: the largest vocabularies in use have 0.3 million tokens and 0.6 million merges."""
MAX_DIMENSION = 1 << 32
MAX_ALIGNMENT = 1 << 20
MAX_NESTING = 2

TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
"""Type number -> name, values a block, bytes a block."""

_SCALARS: dict[int, str] = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_BOOL, _STRING, _ARRAY = 7, 8, 9


def _short(name: str) -> str:
    """A name from the file, fit for one line of an error message."""
    return repr(name if len(name) <= 80 else name[:80] + "…")


class GgufError(ArmError):
    """A file that is not a usable GGUF: what is wrong and where."""


@dataclass(frozen=True)
class TensorInfo:
    name: str
    type: str
    """As ggml spells it, for example ``Q4_1``."""
    shape: tuple[int, ...]
    """Row-major: the last number is the contiguous one (rows, columns)."""
    offset: int
    """Absolute, in bytes from the start of the file."""
    bytes: int


@dataclass(frozen=True)
class GgufFile:
    path: Path
    bytes: int
    """Size of the file."""
    version: int
    metadata: dict[str, Any]
    """Strings, numbers, bools; arrays are lists of them, of strings a `StringArray`."""
    tensors: dict[str, TensorInfo]
    """In the order of the file."""
    map: mmap.mmap = field(repr=False, compare=False)

    @cached_property
    def sha256(self) -> str:
        """Hash of the whole file (computed once; about 0.1 s for 100 MB)."""
        digest = hashlib.sha256()
        with memoryview(self.map) as view:
            for start in range(0, self.bytes, 1 << 22):
                digest.update(view[start : start + (1 << 22)])
        return digest.hexdigest()

    @property
    def architecture(self) -> str:
        value = self.metadata.get("general.architecture")
        if not isinstance(value, str):
            raise GgufError(f"{self.path}: general.architecture is missing or not a string")
        return value

    def data(self, name: str) -> memoryview:
        """The bytes of one tensor, not copied. Raises GgufError when there is no such tensor."""
        info = self.tensors.get(name)
        if info is None:
            raise GgufError(f"{self.path}: no tensor named {_short(name)}")
        return memoryview(self.map)[info.offset : info.offset + info.bytes]

    def require_loadable(self) -> None:
        """Raises GgufError, by name, for an architecture or tensor type that the bundled engine does not run."""
        if self.architecture not in LOADABLE_ARCHITECTURES:
            raise GgufError(
                f"{self.path}: architecture {_short(self.architecture)} is not supported; "
                f"supported: {', '.join(LOADABLE_ARCHITECTURES)}"
            )
        for info in self.tensors.values():
            if info.type not in LOADABLE_TYPES:
                raise GgufError(
                    f"{self.path}: tensor {_short(info.name)} has type {info.type}, which is not supported; "
                    f"supported: {', '.join(LOADABLE_TYPES)}"
                )


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Map a GGUF file and read its header. Raises GgufError for anything that is not a well-formed v2 or v3 file."""
    where = Path(path)
    mapped = _map(where)
    try:
        reader = _Reader(mapped, where)
        version, tensor_count, key_count = reader.preamble()
        metadata = reader.metadata(key_count)
        tensors = reader.tensors(tensor_count, _alignment(metadata, where))
    except BaseException:
        mapped.close()
        raise
    return GgufFile(where, len(mapped), version, metadata, tensors, mapped)


def _map(path: Path) -> mmap.mmap:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block the open
    except (OSError, ValueError) as error:
        raise GgufError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise GgufError(f"{path}: not a regular file")
        if status.st_size < 24:
            raise GgufError(f"{path}: {status.st_size} bytes, shorter than a GGUF header")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise GgufError(f"{path}: cannot be mapped: {error.strerror or error}") from error
    finally:
        os.close(descriptor)


def _alignment(metadata: dict[str, Any], path: Path) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise GgufError(f"{path}: general.alignment is {str(alignment)[:40]}, not a power of two up to {MAX_ALIGNMENT}")
    return alignment


class _Reader:
    """A cursor over the header. ``position`` never passes the end of the file."""

    def __init__(self, mapped: mmap.mmap, path: Path) -> None:
        self.map, self.path, self.size = mapped, path, len(mapped)
        self.position = 0
        self.elements = 0

    def fail(self, problem: str) -> GgufError:
        return GgufError(f"{self.path}: at byte {self.position}: {problem}")

    def need(self, count: int, what: str) -> None:
        if count > self.size - self.position:
            raise self.fail(f"{what} needs {count} bytes and the file has {self.size - self.position} left")

    def number(self, code: str, what: str) -> Any:
        width = struct.calcsize("<" + code)
        self.need(width, what)
        value = struct.unpack_from("<" + code, self.map, self.position)[0]
        self.position += width
        return value

    def string(self, limit: int, what: str) -> str:
        length: int = self.number("Q", f"the length of {what}")
        if length > limit:
            raise self.fail(f"{what} claims {length} bytes; the limit is {limit}")
        self.need(length, what)
        raw = self.map[self.position : self.position + length]
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.fail(f"{what} is not UTF-8") from None
        self.position += length
        return text

    def preamble(self) -> tuple[int, int, int]:
        if self.map[:4] != MAGIC:
            raise GgufError(f"{self.path}: not a GGUF file (it starts with {self.map[:4]!r})")
        self.position = 4
        version: int = self.number("I", "the version")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            kind = "a big-endian file" if swapped in VERSIONS else f"GGUF version {version}"
            raise GgufError(f"{self.path}: {kind} is not supported; supported: little-endian versions 2 and 3")
        tensors: int = self.number("Q", "the tensor count")
        keys: int = self.number("Q", "the key count")
        if tensors > MAX_TENSORS or keys > MAX_KEYS:
            raise self.fail(f"claims {tensors} tensors and {keys} keys; the limits are {MAX_TENSORS} and {MAX_KEYS}")
        return version, tensors, keys

    def metadata(self, count: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(count):
            key = self.string(MAX_NAME_BYTES, "a key's name")
            if not key or key in metadata:
                raise self.fail(f"duplicate key {_short(key)}" if key else "a key without a name")
            metadata[key] = self.value(self.number("I", f"the type of {_short(key)}"), f"the value of {_short(key)}", 0)
        return metadata

    def value(self, kind: int, what: str, depth: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind], what)
        if kind == _BOOL:
            return bool(self.truths(1, what)[0])
        if kind == _STRING:
            return self.string(MAX_STRING_BYTES, what)
        if kind == _ARRAY:
            return self.array(what, depth)
        raise self.fail(f"{what} has the unknown type {kind}")

    def array(self, what: str, depth: int) -> Sequence[Any]:
        if depth >= MAX_NESTING:
            raise self.fail(f"{what} nests arrays deeper than {MAX_NESTING}")
        kind: int = self.number("I", f"the element type of {what}")
        count: int = self.number("Q", f"the length of {what}")
        self.elements += count
        if self.elements > MAX_ELEMENTS:
            raise self.fail(f"{what} brings the arrays to {self.elements} elements; the limit is {MAX_ELEMENTS}")
        if kind in _SCALARS:
            width = struct.calcsize("<" + _SCALARS[kind])
            self.need(width * count, what)
            values = list(struct.unpack_from(f"<{count}{_SCALARS[kind]}", self.map, self.position))
            self.position += width * count
            return values
        if kind == _BOOL:
            return [bool(byte) for byte in self.truths(count, what)]
        if kind == _STRING:
            strings = self.strings(count, what)
            return list(strings) if depth else strings  # by the million, small ones would cost more as objects
        if kind == _ARRAY:
            self.need(12 * count, what)
            return [self.array(what, depth + 1) for _ in range(count)]
        raise self.fail(f"{what} has elements of the unknown type {kind}")

    def truths(self, count: int, what: str) -> bytes:
        self.need(count, what)
        raw = self.map[self.position : self.position + count]
        if raw.strip(b"\x00\x01"):
            raise self.fail(f"{what} holds a bool that is neither 0 nor 1")
        self.position += count
        return raw

    def strings(self, count: int, what: str) -> StringArray:
        """The tight loop of a load: two arrays of some 50 000 strings in 30 ms."""
        self.need(8 * count, what)
        mapped, size, first, position = self.map, self.size, self.position, self.position
        length_at = struct.Struct("<Q").unpack_from
        ends = array("I" if size < 1 << 32 else "Q")  # half the memory for all but files past 4 GiB
        append = ends.append
        try:
            for _ in range(count):
                (length,) = length_at(mapped, position)
                position += 8
                end = position + length
                if end > size or length > MAX_STRING_BYTES:
                    raise struct.error
                mapped[position:end].decode()  # only to see that it can be: `StringArray` does it again when asked
                append(end - first)
                position = end
        except struct.error:
            self.position = position
            raise self.fail(f"{what}: string {len(ends)} of {count} passes the end of the file") from None
        except UnicodeDecodeError:
            self.position = position
            raise self.fail(f"{what}: string {len(ends)} of {count} is not UTF-8") from None
        self.position = position
        return StringArray(mapped[first:position], ends)

    def tensors(self, count: int, alignment: int) -> dict[str, TensorInfo]:
        described: dict[str, TensorInfo] = {}
        for _ in range(count):
            info = self.tensor(alignment)
            if info.name in described:
                raise self.fail(f"duplicate tensor {_short(info.name)}")
            described[info.name] = info
        base = -(-self.position // alignment) * alignment
        tensors = {t.name: TensorInfo(t.name, t.type, t.shape, base + t.offset, t.bytes) for t in described.values()}
        end, before = base, ""
        for info in sorted(tensors.values(), key=lambda t: t.offset):
            if info.offset < end:
                raise GgufError(f"{self.path}: tensors {_short(before)} and {_short(info.name)} overlap")
            end, before = info.offset + info.bytes, info.name
            if end > self.size:
                raise GgufError(
                    f"{self.path}: tensor {_short(info.name)} ends at byte {end} and the file has {self.size}; "
                    "the file is truncated or its header is wrong"
                )
        return tensors

    def tensor(self, alignment: int) -> TensorInfo:
        """One description; its offset is still relative to the start of the data."""
        name = self.string(MAX_NAME_BYTES, "a tensor's name")
        if not name:
            raise self.fail("a tensor without a name")
        what = f"tensor {_short(name)}"
        rank: int = self.number("I", f"the rank of {what}")
        if not 1 <= rank <= 4:
            raise self.fail(f"{what} has {rank} dimensions; 1 to 4 are possible")
        dimensions = [self.number("Q", f"the shape of {what}") for _ in range(rank)]
        kind: int = self.number("I", f"the type of {what}")
        offset: int = self.number("Q", f"the offset of {what}")
        if kind not in TENSOR_TYPES:
            raise self.fail(f"{what} has the unknown tensor type {kind}")
        type_name, block, block_bytes = TENSOR_TYPES[kind]
        count = 1
        for dimension in dimensions:
            if not 1 <= dimension <= MAX_DIMENSION:
                raise self.fail(f"{what} has a dimension of {dimension}")
            count *= dimension
        if dimensions[0] % block:
            raise self.fail(f"{what}: rows of {dimensions[0]} values are not whole {type_name} blocks of {block}")
        size = count // block * block_bytes
        if offset % alignment:
            raise self.fail(f"{what}: offset {offset} is not a multiple of the alignment {alignment}")
        if size > self.size or offset > self.size:
            raise self.fail(f"{what} claims {size} bytes at offset {offset}; the file has {self.size}")
        return TensorInfo(name, type_name, tuple(reversed(dimensions)), offset, size)
