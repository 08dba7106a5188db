"""Sample size and chances of each verdict, through the real gate code, with the variation of a pilot run.

draftgate power DIR                       the decision card of a frozen plan
draftgate power DIR --pilot RUN           with the 80 % upper limits of the variation in RUN
draftgate power DIR --prompts 20 40 80 --blocks 3 5 --speedup 1.3   the same plan, larger or smaller"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", type=Path, help="a run directory with a frozen plan")
    parser.add_argument("--pilot", metavar="RUN", type=Path, help="a finished run to take the variation from")
    parser.add_argument("--prompts", metavar="N", type=int, nargs="+", help="prompts a stratum to try")
    parser.add_argument("--blocks", metavar="B", type=int, nargs="+", help="blocks to try")
    parser.add_argument("--speedup", metavar="X", type=float, nargs="+", help="true speed-ups to try")
    parser.add_argument("--replicates", metavar="R", type=int, default=100, help="simulated runs a truth (default 100)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ...harness.errors import DraftgateError
    from ...harness.freeze import load_plan
    from ..evidence import load_evidence
    from ..power import SPEEDUPS, decision_card, pilot_variation, resized

    plan = load_plan(args.dir)
    variation = None
    if args.pilot is not None:
        try:
            variation = pilot_variation(load_evidence(args.pilot))
        except ValueError as error:
            raise DraftgateError(f"{args.pilot}: {error}") from None
    if args.replicates < 10 or min([1, *(args.prompts or ()), *(args.blocks or ())]) < 1:
        raise DraftgateError("power: at least 10 replicates, 1 prompt and 1 block")
    if any(x <= 0 for x in args.speedup or ()):
        raise DraftgateError("power: a speed-up is a positive ratio, such as 1.3")
    speedups = tuple(args.speedup or SPEEDUPS)
    cards = []
    for prompts in args.prompts or [None]:
        for blocks in args.blocks or [None]:
            sized = resized(plan, prompts, blocks)
            print(f"simulating {shape(sized)}", file=sys.stderr)
            card = decision_card(sized, variation=variation, replicates=args.replicates, speedups=speedups)
            cards.append({"prompts": prompts, "blocks": blocks, "shape": shape(sized), **card})
    print(json.dumps(cards if len(cards) > 1 else cards[0]) if args.json else "\n\n".join(map(text, cards)))
    return 0


def shape(plan: Any) -> str:
    """ "14 strata of 8-40 prompts, 3 blocks"."""
    sizes = sorted({len(s.get("prompts", ())) for s in plan.get("strata", ())})
    blocks = (plan.get("schedule") or {}).get("blocks", 1)
    span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}" if sizes else "0"
    return f"{len(plan.get('strata', ()))} strata of {span} prompts, {blocks} block{'' if blocks == 1 else 's'}"


def text(card: Any) -> str:
    """The card as a small table."""
    v = card["variation"]
    lines = [
        f"{card['shape']}; sd of log ratios: prompts {v['prompt_sd']:.3f}, noise {v['noise_sd']:.3f}, "
        f"blocks {v['block_sd']:.3f} ({v['source']})",
        f"simulated: {', '.join(card['simulated']) or 'no gate'}",
        f"assumed to hold: {', '.join(card['assumed']) or 'none'}",
        "true speed-up      GO   NO-GO  INCONCLUSIVE",
    ]
    for t in card["truths"]:
        lines.append(f"{t['speedup']:>13g}  {t['GO']:>6.0%}  {t['NO-GO']:>6.0%}  {t['INCONCLUSIVE']:>12.0%}")
    return "\n".join([*lines, card["note"]])
