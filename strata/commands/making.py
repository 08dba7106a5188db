"""``draftgate strata generate-long`` and ``hashes``: the committed files that are made, not written."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..contamination import ngram_hashes, prompt_texts, write_hashes
from ..errors import StrataError
from ..files import output
from ..generate_long import generate
from ..load import load_stratum, names


def run_generate_long(args: argparse.Namespace, services: Any) -> int:
    make = getattr(services, "token_counter", None)
    if make is None:
        raise StrataError("--model: no tokenizer can be had here")
    count = make(args.model)
    with output(Path(args.out)) as handle:
        for record in generate(count):
            handle.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    return 0


def run_hashes(args: argparse.Namespace) -> int:
    found = ngram_hashes(text for name in args.names or names() for text in prompt_texts(load_stratum(name)))
    write_hashes(Path(args.out), found)
    print(f"{args.out}: {len(found):,} hashes")
    return 0
