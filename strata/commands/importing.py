"""``draftgate strata import``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from ..errors import StrataError
from ..files import output
from ..importers import IMPORTERS, file_sha256, import_file
from ..load import Problem

MOST_NAMED = 50


def run_import(args: argparse.Namespace) -> int:
    """0 when every record came over; 2 when some did not (they are named, and the others are written)."""
    source, out = Path(args.file), Path(args.out)
    if args.reserve_every < 0:
        raise StrataError("--reserve-every has to be 0 or more")
    if out.exists() and source.exists() and out.samefile(source):
        raise StrataError(f"{out}: would overwrite the file it is made from")
    lost: Counter[str] = Counter()
    kept: Counter[str] = Counter()

    def note(problem: Problem) -> None:
        lost["records"] += 1
        if lost["records"] <= MOST_NAMED:
            print(problem, file=sys.stderr)

    with output(out) as handle:
        for prompt in import_file(
            args.kind,
            source,
            licence=args.licence,
            stratum=args.stratum,
            reserve_every=args.reserve_every,
            on_problem=note,
        ):
            handle.write(json.dumps(prompt.record(), ensure_ascii=False).encode() + b"\n")
            kept[prompt.stratum] += 1
        if not kept:
            raise StrataError(f"{source}: no record could be imported as {args.kind}; {out} was not written")
    sidecar = {
        "kind": args.kind,
        "file": source.name,
        "sha256": file_sha256(source),
        "licence": args.licence,
        "mapping": dict(IMPORTERS[args.kind].mapping),
        "output": out.name,
        "output_sha256": file_sha256(out),
        "prompts": dict(kept),
        "not_imported": lost["records"],
    }
    with output(out.with_name(out.name + ".source.json")) as handle:
        handle.write(json.dumps(sidecar, ensure_ascii=False, indent=2).encode() + b"\n")
    print(f"{out}: {kept.total():,} prompts in {len(kept)} strata; {lost['records']:,} records not imported")
    return 2 if lost else 0
