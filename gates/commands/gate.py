"""Evidence to verdict, from the records of a run alone. The exit code is the verdict:
0 GO, 3 NO-GO, 4 INCONCLUSIVE, 5 INVALID; 6 when the run has not ended (then no verdict is written).

A verdict.json that another version wrote, or that the ledger binds, is never overwritten by a different one: that goes
beside it (verdict.rejudged.json), and where the two decide differently the exit code is 5. One that was edited since
the ledger bound it is replaced, kept beside (verdict.replaced.json), and the exit code is 5."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", type=Path, help="a run directory")
    parser.add_argument("--json", action="store_true", help="print verdict.json instead of the summary")
    parser.add_argument("--junit", metavar="F", type=Path, help="also write the JUnit report here")
    parser.add_argument("--markdown", metavar="F", type=Path, help="also write the Markdown report here")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..verdict_file import as_json, store_verdict

    verdict = services.judge(args.dir)
    stored = store_verdict(args.dir, verdict)
    written = {path.name: path for path in services.write_reports(args.dir, verdict)}
    for wanted, name in ((args.junit, "junit.xml"), (args.markdown, "report.md")):
        if wanted is not None and name in written:
            wanted.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(written[name], wanted)
        elif wanted is not None:
            print(f"draftgate: no {name} was written", file=sys.stderr)
    if not args.json and sys.stdout.isatty():
        services.print_verdict(verdict)
    else:
        print(json.dumps(as_json(verdict), allow_nan=False) if args.json else summary(verdict))
    if stored.note:
        print(f"draftgate: {stored.note}", file=sys.stderr)
    return 5 if stored.contradicts else int(verdict.exit_code)


def summary(verdict: Any) -> str:
    """The verdict, its gates and its reasons, for a terminal."""
    lines = [f"{verdict.verdict}   plan {verdict.plan_id[:12]}" + ("   exploratory" if verdict.exploratory else "")]
    width = max((len(g.id) for g in verdict.gates), default=0)
    for gate in verdict.gates:
        shown = "" if gate.estimate is None else f"{gate.estimate:.4g} {gate.unit}"
        if gate.interval is not None:
            shown += f" [{gate.interval[0]:.4g}, {gate.interval[1]:.4g}]"
        optional = "" if gate.requirement == "required" else f" ({gate.requirement})"
        lines.append(f"  {gate.id:<{width}}  {gate.status:<14}{optional} {shown}")
        if gate.status not in ("pass", "not-applicable"):
            lines.append(f"  {'':<{width}}  {gate.reason}")
    flips = [f for f in verdict.extra.get("multiverse") or () if f.get("flips")]
    lines += [f"  flips: {f['gate']} is {f['status']} with {f['variant']}" for f in flips]
    return "\n".join(lines)
