"""Planted faults, each of which a gate or audit of a user's plan must catch; equivalents must pass; and false alarms.

draftgate sabotage               quick: the first thing that catches each fault, 60 correct runs
draftgate sabotage --full        everything that catches it, 600 correct runs
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes (the default)")
    size.add_argument("--full", action="store_true", help="all alarms, 600 correct runs")
    parser.add_argument("--only", metavar="NAME", action="append", help="one fault by name; may be given again")
    parser.add_argument("--json", action="store_true", help="faults, equivalents and false_alarm as JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..proofs.sabotage.bank import faults, run_bank

    known = {f.name for f in faults()}
    unknown = sorted(set(args.only or ()) - known)
    if unknown:
        print(f"draftgate: no fault named {unknown[0]!r}; they are: {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    result = run_bank(args.full, args.only, lambda text: print(text, file=sys.stderr))
    body = result.body()
    print(json.dumps(body) if args.json else "\n".join(table(body)))
    return 0 if result.ok else 5


def table(body: dict[str, Any]) -> list[str]:
    """Fault, what caught it, on how much; then equivalents and false alarms."""
    rows = [("group", "fault", "caught by", "n")]
    rows += [(f["group"], f["name"], f["by"] or "NOTHING", str(f["n"])) for f in body["faults"]]
    width = [max(len(r[i]) for r in rows) for i in range(2)]
    out = [f"{r[0].ljust(width[0])}  {r[1].ljust(width[1])}  {r[3]:>6}  {r[2]}" for r in rows]
    caught = sum(f["caught"] for f in body["faults"])
    out += ["", f"{caught} of {len(body['faults'])} faults caught"]
    for e in body["equivalents"]:
        out.append(f"equivalent: {e['name']}: {'passes' if e['passed'] else 'REFUSED by ' + e['by']}")
    a = body["false_alarm"]
    low, high = a["interval"]
    out.append(
        f"false alarms: {a['alarms']} in {a['replicates']} correct runs (95 % {low:.2%} to {high:.2%}; "
        f"level of the whole battery {a['level']:.1%})"
    )
    return out
