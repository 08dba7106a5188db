"""Write a commented plan to start from; `draftgate freeze --plan FILE --out DIR` freezes it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", default=Path("plan.yaml"), metavar="FILE", help="plan.yaml")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..atomic import write_bytes
    from ..errors import PlanError
    from ..plan import conf_folder

    if args.file.exists():
        raise PlanError(f"{args.file} exists; give another name, nothing was changed")
    if args.file.suffix not in (".yaml", ".yml"):
        raise PlanError(f"{args.file}: a plan file ends in .yaml")
    write_bytes(args.file, (conf_folder() / "template.yaml").read_bytes())
    print(f"{args.file}: edit it, then")
    print(f"  draftgate freeze --plan {args.file} --out runs/mine")
    print("  draftgate run runs/mine")
    print("  draftgate gate runs/mine")
    return 0
