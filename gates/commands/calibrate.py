"""The gates' own error rates: simulated truths through the real gate code, naive methods beside ours.

  draftgate calibrate                  print the committed tables
  draftgate calibrate --quick          simulate again, 200 replicates a cell (about two minutes)
  draftgate calibrate --full --out F   4,000 replicates a cell (an hour or so), tables written to a folder

Exit code 1 when a claim is not borne out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="200 replicates a cell")
    size.add_argument("--moderate", dest="size", action="store_const", const="moderate", help="1,000 replicates a cell")
    size.add_argument("--full", dest="size", action="store_const", const="full", help="4,000 replicates a cell")
    parser.add_argument("--table", metavar="NAME", action="append", help="only this table; may be given again")
    parser.add_argument("--seed", type=int, default=None, help="another seed than the committed tables'")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write each table as JSON into this folder")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ...harness.errors import DraftgateError
    from ..calibration.run import SEED, TABLES, broken, committed, run_table, write

    names = args.table or list(TABLES)
    unknown = [n for n in names if n not in TABLES]
    if unknown:
        raise DraftgateError(f"calibrate: no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    found = []
    for name in names:
        if args.size is None:
            found.append(committed(name))
            continue
        seed = SEED if args.seed is None else args.seed
        found.append(run_table(name, args.size, seed, _progress()))
        if args.out is not None:
            print(f"wrote {write(found[-1], args.out)}", file=sys.stderr)
    wrong = [line for table in found for line in broken(table)]
    print(json.dumps(found) if args.json else "\n\n".join(map(text, found)))
    for line in wrong:
        print(f"not borne out: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _progress() -> Any:
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda words: print(f"\r\033[K{words[:100]}", end="", file=sys.stderr, flush=True)


def text(table: Any) -> str:
    """One table for a terminal."""
    lines = [f"{table['table']} ({table['size']}: {table['replicates']} replicates, seed {table['seed']})"]
    truth = None
    for c in table["cells"]:
        if c["truth"] != truth:
            truth = c["truth"]
            lines.append(f"  {truth}")
        claim = "" if c["limit"] is None else f"  claimed ≤ {c['limit']:.1%}{'' if c['holds'] else '  NOT HELD'}"
        lines.append(f"    {c['method']:<36} {c['quantity']:<52} {c['rate']:>8.4f} (n {c['n']}){claim}")
    return "\n".join(lines)
