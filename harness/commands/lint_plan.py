"""Refuse a silently weakened plan: a lower threshold, a smaller sample, a gate taken out, without a written reason.

Each of the two is a run directory, a plan.json, or a plan file (.yaml). The reason is the amendment's own
(`draftgate amend --reason`), or given here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, help="the plan as it was")
    parser.add_argument("after", type=Path, help="the plan as it is now")
    parser.add_argument("--reason", default="", help="why it was weakened")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..weakening import comparable, weakened

    before, after = comparable(args.before), comparable(args.after)
    found = weakened(before, after)
    parent = after.get("parent") or {}
    known = parent.get("reason", "") if parent.get("plan_id") == before.get("plan_id") else ""
    reason = args.reason.strip() or known
    if args.json:
        print(json.dumps({"weakened": found, "reason": reason, "ok": not found or bool(reason)}))
    else:
        for line in found:
            print(line)
        print("nothing is weakened" if not found else f"reason: {reason}" if reason else "weakened without a reason")
    return 0 if not found or reason else 5
