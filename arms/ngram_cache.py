"""A frozen n-gram cache: what usually follows, counted in public text before the freeze, bound by its file's hash.

The file is an uncompressed `.npz` (no pickles): for each n, sorted rows of n token ids and the token that followed most
often. `python -m draftgate.arms.ngram_cache --model MODEL --out FILE TEXT…` builds one; the same texts, the same file.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .draws import Draws
from .errors import ArmError
from .model_free import ModelFree
from .policies import LARGEST_K
from .proposer import Hidden, Proposer
from .round import Proposal

FORMAT: Final = "draftgate-ngram-cache/1"
LARGEST_N: Final = 8


class NgramCache:
    """n-gram -> next token, for several n."""

    def __init__(self, tables: Mapping[int, Mapping[tuple[int, ...], int]], tokenizer_sha256: str, sha256: str) -> None:
        self.tables = {n: dict(tables[n]) for n in sorted(tables, reverse=True)}
        self.tokenizer_sha256, self.sha256 = tokenizer_sha256, sha256

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
    """Write the file and return its sha256. The same tables give the same bytes."""
    arrays: dict[str, npt.NDArray[Any]] = {"format": np.array(FORMAT), "tokenizer_sha256": np.array(tokenizer_sha256)}
    for n, table in sorted(tables.items()):
        rows = np.array([[*gram, token] for gram, token in sorted(table.items())], np.int32).reshape(-1, n + 1)
        arrays[f"n{n}"] = rows
    temporary = path.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), buffer.getvalue())
    os.replace(temporary, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_cache(path: Path, sha256: str | None = None) -> NgramCache:
    """Raises ArmError for a file that cannot be read, is no such cache, or has another hash than the plan's."""
    try:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if sha256 is not None and digest != sha256:
            raise ArmError(f"{path}: sha256 {digest[:12]}… is not the plan's {sha256[:12]}…")
        if not data.startswith(b"PK"):
            raise ValueError("no .npz archive")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            version = str(arrays["format"])
            if version != FORMAT:
                raise ArmError(f"{path}: format {version!r} is unknown; this version reads {FORMAT}")
            tables = {n: _table(arrays[f"n{n}"], n) for n in range(1, LARGEST_N + 1) if f"n{n}" in arrays}
            return NgramCache(tables, str(arrays["tokenizer_sha256"]), digest)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ArmError(f"{path}: not an n-gram cache: {error}") from error


def _table(rows: npt.NDArray[Any], n: int) -> dict[tuple[int, ...], int]:
    if rows.ndim != 2 or rows.shape[1] != n + 1 or rows.dtype.kind != "i":
        raise ValueError(f"table n{n} has shape {rows.shape}")
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


def cache_settings(spec: Mapping[str, Any], tokenizer_sha256: str) -> tuple[NgramCache, int]:
    """(cache, k) of an arm entry with ``cache`` (a path) and ``sha256``. Raises ArmError."""
    k, path, sha256 = spec.get("k", 4), spec.get("cache"), spec.get("sha256")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= LARGEST_K:
        raise ArmError(f"ngram_cache.k must be a whole number in [1, {LARGEST_K}], not {k!r}")
    if not isinstance(path, str) or not isinstance(sha256, str):
        raise ArmError("an ngram_cache arm needs cache, the path of its file, and sha256, the hash that binds it")
    cache = read_cache(Path(path), sha256)
    if cache.tokenizer_sha256 != tokenizer_sha256:
        raise ArmError(f"{path}: the cache was built with another tokenizer than the champion's")
    return cache, k


def main() -> None:
    from .models import load_model

    parser = argparse.ArgumentParser(description="Build an n-gram cache from public text.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--max-n", type=int, default=4, choices=range(1, LARGEST_N + 1))
    parser.add_argument("--min-n", type=int, default=2, choices=range(1, LARGEST_N + 1))
    parser.add_argument("--min-count", type=int, default=2)
    parser.add_argument("texts", nargs="+", type=Path)
    args = parser.parse_args()
    tokenizer = load_model(args.model).tokenizer
    texts = [tokenizer.encode(path.read_text(encoding="utf-8")) for path in args.texts]
    tables = count(texts, range(args.min_n, args.max_n + 1), args.min_count)
    print(write_cache(args.out, tables, tokenizer.sha256), sum(map(len, tables.values())))


if __name__ == "__main__":
    main()
