"""A frozen n-gram cache: what usually follows, counted in public text before the freeze, bound by its file's hash.

The file is an uncompressed `.npz` (no pickles): for each n, sorted rows of n token ids and the token that followed most
often. `draftgate ngram-cache --champion MODEL --out FILE TEXT…` builds one; the same texts, the same file.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..strata.files import replacing
from .draws import Draws
from .errors import ArmError
from .model_free import ModelFree
from .policies import LARGEST_K
from .proposer import Hidden, Proposer
from .round import Proposal

FORMAT: Final = "draftgate-ngram-cache/1"
LARGEST_N: Final = 8
LARGEST_FILE: Final = 64 << 20
"""Bytes; in memory the tables take some twenty times as much."""


class NgramCache:
    """n-gram -> next token, for several n."""

    def __init__(self, tables: Mapping[int, Mapping[tuple[int, ...], int]], tokenizer_sha256: str, sha256: str) -> None:
        self.tables = {n: dict(tables[n]) for n in sorted(tables, reverse=True)}
        self.tokenizer_sha256, self.sha256 = tokenizer_sha256, sha256
        self.largest_token = max((max(max(g), t) for table in tables.values() for g, t in table.items()), default=0)

    def next(self, context: Sequence[int]) -> int | None:
        """What followed the longest known suffix most often."""
        for n, table in self.tables.items():
            if n <= len(context):
                token = table.get(tuple(context[-n:]))
                if token is not None:
                    return token
        return None


def count(
    texts: Iterable[Sequence[int]], sizes: Sequence[int], min_count: int = 2
) -> dict[int, dict[tuple[int, ...], int]]:
    """The token that follows each n-gram most often, lowest id at ties, where that was at least ``min_count`` times."""
    seen: dict[int, dict[tuple[int, ...], Counter[int]]] = {n: defaultdict(Counter) for n in sizes}
    for text in texts:
        ids = list(text)
        for n in sizes:
            for i in range(len(ids) - n):
                seen[n][tuple(ids[i : i + n])][ids[i + n]] += 1
    return {
        n: {
            gram: best
            for gram, counts in table.items()
            if counts[best := min(counts, key=lambda t: (-counts[t], t))] >= min_count
        }
        for n, table in seen.items()
    }


def write_cache(path: Path, tables: Mapping[int, Mapping[tuple[int, ...], int]], tokenizer_sha256: str) -> str:
    """Write the file and return its sha256. The same tables give the same bytes.

    Raises ArmError, and leaves what was there, where it cannot be written or is more than `read_cache` takes.
    """
    arrays: dict[str, npt.NDArray[Any]] = {"format": np.array(FORMAT), "tokenizer_sha256": np.array(tokenizer_sha256)}
    for n, table in sorted(tables.items()):
        rows = np.array([[*gram, token] for gram, token in sorted(table.items())], np.int32).reshape(-1, n + 1)
        arrays[f"n{n}"] = rows
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), buffer.getvalue())
    data = whole.getvalue()
    if len(data) > LARGEST_FILE:
        raise ArmError(f"{path}: {len(data) >> 20} MiB are more than an arm reads; give less text")
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise ArmError(f"{path}: cannot be written: {error.strerror or error}") from error
    return hashlib.sha256(data).hexdigest()


def read_cache(path: Path, sha256: str | None = None) -> NgramCache:
    """Raises ArmError for a file that cannot be read, is no such cache, or has another hash than the plan's."""
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ArmError(f"{path}: more than {LARGEST_FILE >> 20} MiB; build the cache of less text or fewer sizes")
        digest = hashlib.sha256(data).hexdigest()
        if sha256 is not None and digest != sha256:
            raise ArmError(f"{path}: sha256 {digest[:12]}… is not the plan's {sha256[:12]}…")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            version = _text(archive, "format")
            if version != FORMAT:
                raise ArmError(f"{path}: format {version!r} is unknown; this version reads {FORMAT}")
            there = set(archive.namelist())
            sizes = [n for n in range(1, LARGEST_N + 1) if f"n{n}.npy" in there]
            if not sizes:
                raise ValueError("it holds no table")
            tables = {n: _table(_array(archive, f"n{n}"), n) for n in sizes}
            return NgramCache(tables, _text(archive, "tokenizer_sha256"), digest)
    except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        raise ArmError(f"{path}: not an n-gram cache: {error}") from error


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """One array, allocated only where its bytes are really there."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > LARGEST_FILE:
        raise ValueError(f"{name} is compressed or too large")
    data = archive.read(info)
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is of an unknown array format")
    shape, columns_first, kind = np.lib.format.read_array_header_1_0(stream)
    if kind.hasobject or columns_first or math.prod(shape) * kind.itemsize != len(data) - stream.tell():
        raise ValueError(f"{name} has shape {shape} and other bytes than that takes")
    return np.frombuffer(data, kind, offset=stream.tell()).reshape(shape)


def _text(archive: zipfile.ZipFile, name: str) -> str:
    array = _array(archive, name)
    if array.dtype.kind != "U" or array.ndim:
        raise ValueError(f"{name} is no text")
    return str(array)


def _table(rows: npt.NDArray[Any], n: int) -> dict[tuple[int, ...], int]:
    if rows.ndim != 2 or rows.shape[1] != n + 1 or rows.dtype.kind != "i":
        raise ValueError(f"table n{n} has shape {rows.shape}")
    if rows.size and rows.min() < 0:
        raise ValueError(f"table n{n} holds a negative token id")
    return {tuple(row[:-1]): row[-1] for row in rows.tolist()}


class CacheLookup(ModelFree):
    """Proposer of one request: follows the cache token by token while it knows what comes next."""

    def __init__(self, cache: NgramCache, k: int, stop_ids: frozenset[int]) -> None:
        super().__init__(k, stop_ids)
        self.cache = cache
        self.longest = max(cache.tables, default=1)

    def prefill(self, prompt: Sequence[int]) -> None:
        return None

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        window = list(context[-self.longest :])
        tokens: list[int] = []
        while len(tokens) < k:
            token = self.cache.next(window)
            if token is None:
                break
            tokens.append(token)
            window.append(token)
            if token in self.stop_ids:
                break
        return Proposal(tokens)

    def fingerprint(self) -> dict[str, object]:
        return {"ngram_cache": self.cache.sha256}

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        return CacheLookup(self.cache, self.maximum, self.stop_ids)


def cache_settings(spec: Mapping[str, Any], tokenizer_sha256: str, vocabulary: int) -> tuple[NgramCache, int]:
    """(cache, k) of an arm entry with ``cache`` (a path) and ``sha256``. Raises ArmError."""
    k, path, sha256 = spec.get("k", 4), spec.get("cache"), spec.get("sha256")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= LARGEST_K:
        raise ArmError(f"ngram_cache.k must be a whole number in [1, {LARGEST_K}], not {k!r}")
    if not isinstance(path, str) or not isinstance(sha256, str):
        raise ArmError("an ngram_cache arm needs cache, the path of its file, and sha256, the hash that binds it")
    cache = read_cache(Path(path), sha256)
    if cache.tokenizer_sha256 != tokenizer_sha256:
        raise ArmError(f"{path}: the cache was built with another tokenizer than the champion's")
    if cache.largest_token >= vocabulary:
        raise ArmError(f"{path}: token {cache.largest_token} is outside the champion's {vocabulary}")
    return cache, k
