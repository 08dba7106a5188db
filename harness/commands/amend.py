"""A new plan that names its parent, the change, the reason, and whether results had been seen.

Where results had been seen, every verdict of the amended plan is marked exploratory.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .plan_options import add_plan_options, card_lines, composed, say


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR", help="run directory of the parent plan")
    add_plan_options(parser)
    parser.add_argument("--reason", required=True, help="why the plan changes")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="run directory of the amended plan")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..amend import amend
    from ..rundir import RunDir

    frozen = amend(RunDir(args.dir), composed(args), args.out, args.reason, services)
    for line in (*frozen.notes, *card_lines(frozen.card)):
        say(line)
    parent = frozen.plan["parent"]
    print(f"plan {frozen.plan_id}")
    print(f"amends {parent['plan_id']}")
    for line in parent["changes"]:
        print(f"  {line}")
    print(
        "results had been seen: the verdict will be exploratory"
        if parent["results_seen"]
        else "no results had been seen"
    )
    return 0
