"""Train a draft for a champion: generate its text, fit, export a GGUF file and its provenance receipt.

Everything is resumable: run the same command again after an interruption. Needs the extra `train` (torch on CPU).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .numbers import MAX_SEED, MAX_THREADS, MAX_TOKENS, whole


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--champion", default="smollm2-135m-instruct", help="name or path of the champion (mini: the teacher)"
    )
    parser.add_argument("--kind", choices=("feature", "independent", "mini"), default="feature",
                        help="feature: on the champion's hidden states; independent: a small Llama; mini: a small "
                        "champion and its draft, both")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="GGUF file to write (mini: folder)")
    parser.add_argument("--work", type=Path, help="folder of corpus and checkpoints (default: OUT.work)")
    parser.add_argument("--tokens", type=whole(1, 10**9), help="answer tokens to generate")
    parser.add_argument("--passes", type=float, help="times every sequence is seen")
    parser.add_argument("--rows", type=whole(1, MAX_TOKENS), help="output vocabulary of the draft")
    parser.add_argument("--width", type=whole(1, MAX_TOKENS), help="width of an independent draft")
    parser.add_argument("--layers", type=whole(1, 1000), help="layers of an independent draft")
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=1)
    parser.add_argument(
        "--threads", type=whole(0, MAX_THREADS), help="threads of engine and torch (default: all cores)"
    )
    parser.add_argument("--licence", help="licence of the champion where its file names none")
    parser.add_argument("--json", action="store_true", help="print the receipt as JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..errors import ArmError

    try:
        import gguf  # noqa: F401
        import torch
    except ImportError as error:
        raise ArmError(f"{error.name} is missing: distill needs the extra, pip install 'draftgate[train]'") from error
    from ..models import load_model

    if args.threads:
        torch.set_num_threads(args.threads)
    work: Path = args.work or args.out.with_name(args.out.name + ".work")
    model = load_model(args.champion, threads=args.threads)
    receipts = _mini(model, args, work) if args.kind == "mini" else [_draft(model, args, work)]
    for receipt in receipts:
        if args.json:
            print(json.dumps(asdict(receipt), sort_keys=True))
        else:
            print(f"{receipt.kind}: {receipt.file_bytes / 1e6:.1f} MB, sha256 {receipt.file_sha256}")
            print(f"  held out: {receipt.figures}")
    return 0


def _draft(model: Any, args: argparse.Namespace, work: Path) -> Any:
    from ..distill.pipeline import Recipe, distill, licence_of

    given = {name: getattr(args, name) for name in ("tokens", "passes", "rows", "width", "layers", "seed")}
    recipe = replace(Recipe(kind=args.kind), **{name: value for name, value in given.items() if value is not None})
    return distill(model, recipe, args.out, work, args.licence or licence_of(model), reporter())


def _mini(model: Any, args: argparse.Namespace, work: Path) -> list[Any]:
    from ..distill.mini import MiniRecipe
    from ..distill.mini_pair import train_pair
    from ..distill.pipeline import licence_of

    given = {name: getattr(args, name) for name in ("tokens", "passes", "seed")}
    recipe = replace(MiniRecipe(), **{name: value for name, value in given.items() if value is not None})
    return train_pair(model, recipe, args.out, work, args.licence or licence_of(model), args.threads, reporter())


def reporter() -> Callable[[str], None]:
    """Progress on stderr: one line rewritten on a terminal, held-out figures and a line a minute elsewhere."""
    last = 0.0

    def report(text: str) -> None:
        nonlocal last
        if sys.stderr.isatty():
            keep = "{" in text
            print(f"\r\x1b[K{text}", end="\n" if keep else "", file=sys.stderr, flush=True)
        elif "{" in text or time.monotonic() - last > 60:
            last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    return report
