"""Freeze, run, gate and report in one. An existing directory with the same plan is resumed.

draftgate sweep --out runs/first                        the demo, under three minutes
draftgate sweep plan=smollm2 --out runs/all             every stratum, three blocks
draftgate sweep plan=smollm2 arms=neural --draft FILE --out runs/draft
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .plan_options import add_plan_options, card_lines, composed, progress, say


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_options(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="run directory to create or resume")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..execute import Execution
    from ..freeze import freeze
    from ..rundir import RunDir
    from ..runner import RunOptions
    from ..wording import counted

    frozen = freeze(composed(args), args.out, services)
    say(f"plan {frozen.plan_id}")
    for line in (*frozen.notes, *card_lines(frozen.card)):
        say(line)
    with progress() as bar:
        outcome = Execution(RunDir(args.out), services, RunOptions(progress=bar)).go()
    for note in outcome.notes:
        say(f"draftgate: {note}")
    verdict = outcome.verdict
    if verdict is None:
        print(f"complete: {counted(outcome.requests, 'request')}, plan {outcome.plan_id}; no verdict")
        return 0
    try:
        written = services.write_reports(args.out, verdict)
    except ModuleNotFoundError as error:
        say(f"draftgate: no reports: {error.name} is not installed")
        written = []
    if args.json:
        print(json.dumps({"verdict": verdict.verdict, "plan_id": outcome.plan_id, "exploratory": verdict.exploratory}))
    else:
        services.print_verdict(verdict)
        for path in written:
            if path.parent == args.out and path.name.startswith("report."):
                print(path)
    return int(verdict.exit_code)
