"""Fix a plan by hash before the first token: writes plan.json, prints the plan id and the decision card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .plan_options import add_plan_options, card_lines, composed, say


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_options(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="run directory to create")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign plan.json with this SSH private key")
    parser.add_argument("--envelope", type=Path, metavar="KEY", help="also write a DSSE envelope (extra: sign)")
    parser.add_argument("--json", action="store_true", help="print plan id and decision card as JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..freeze import freeze

    frozen = freeze(composed(args), args.out, services)
    if args.sign is not None:
        from ..signature import sign_plan

        say(f"signed: {sign_plan(frozen.run_dir, args.sign)}")
    if args.envelope is not None:
        from ..envelope import write_envelope

        say(f"envelope: {write_envelope(frozen.run_dir, args.envelope)}")
    for note in frozen.notes:
        say(f"draftgate: {note}")
    if args.json:
        print(json.dumps({"plan_id": frozen.plan_id, "decision_card": frozen.card}))
        return 0
    print(f"plan {frozen.plan_id}")
    for line in card_lines(frozen.card):
        print(line)
    return 0
