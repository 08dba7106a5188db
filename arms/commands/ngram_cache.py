"""Build an n-gram cache from public text, for arms of kind ngram_cache.

Paragraphs that repeat a prompt of the workload strata are left out. A plan names the file:

  entries:
    ngram_cache: {kind: ngram_cache, k: 4, options: {cache: FILE}}

and the freeze binds its sha256.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from .numbers import MAX_TOKENS, whole

LARGEST_N = 8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--champion", required=True, metavar="MODEL", help="whose tokenizer: a name or a GGUF file")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the .npz file to write")
    parser.add_argument("--max-n", type=whole(1, LARGEST_N), default=4, metavar="N", help="longest n-gram (default 4)")
    parser.add_argument("--min-n", type=whole(1, LARGEST_N), default=2, metavar="N", help="shortest n-gram (default 2)")
    parser.add_argument("--min-count", type=whole(1, MAX_TOKENS), default=2, metavar="N",
                        help="keep what was seen so often (default 2)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT", help="UTF-8 text files")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..engine.gguf import read_gguf
    from ..engine.tokenizer import Tokenizer
    from ..errors import ArmError
    from ..models import resolve
    from ..ngram_cache import count, write_cache

    if args.min_n > args.max_n:
        raise ArmError(f"--min-n {args.min_n} is above --max-n {args.max_n}")
    tokenizer = Tokenizer.from_gguf(read_gguf(resolve(args.champion)))
    kept, dropped = paragraphs(args.texts)
    tables = count((tokenizer.encode(text) for text in kept), range(args.min_n, args.max_n + 1), args.min_count)
    if not any(tables.values()):
        raise ArmError(f"nothing was seen {args.min_count} times in {len(kept)} paragraphs; give more text")
    sha256 = write_cache(args.out, tables, tokenizer.sha256)
    found = {
        "file": args.out.name, "sha256": sha256, "bytes": args.out.stat().st_size, "paragraphs": len(kept),
        "left_out": dropped, "ngrams": {str(n): len(table) for n, table in tables.items()},
    }  # fmt: skip
    if args.json:
        print(json.dumps(found))
    else:
        print(f"{args.out}: {sum(map(len, tables.values()))} n-grams of {len(kept)} paragraphs, sha256 {sha256}")
    if dropped:
        print(f"{dropped} paragraphs repeat a prompt of the strata and were left out", file=sys.stderr)
    return 0


def paragraphs(files: list[Path]) -> tuple[list[str], int]:
    """Paragraphs of the texts that repeat no prompt of the strata, and the number of those that do."""
    from ...strata.contamination import is_contaminated, shipped_hashes
    from ..errors import ArmError

    hashes, kept, dropped = shipped_hashes(), [], 0
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArmError(f"{path}: cannot be read as UTF-8 text: {error}") from error
        for part in filter(str.strip, re.split(r"\n\s*\n", text)):
            if is_contaminated(part, hashes):
                dropped += 1
            else:
                kept.append(part)
    return kept, dropped
