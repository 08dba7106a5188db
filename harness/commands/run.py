"""Run a frozen plan, or go on with one that was interrupted: the same command, as often as needed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .plan_options import add_model_options, path_overrides, progress, say


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR", help="run directory with plan.json")
    add_model_options(parser)
    parser.add_argument(
        "--accept-machine", action="store_true", help="continue a run that was started on another machine"
    )
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..execute import Execution
    from ..rundir import RunDir
    from ..runner import RunOptions
    from ..wording import counted

    with progress() as bar:
        execution = Execution(
            RunDir(args.dir),
            services,
            RunOptions(progress=bar),
            path_overrides(args),
            accept_machine=args.accept_machine,
        )
        outcome = execution.go()
    for note in outcome.notes:
        say(f"draftgate: {note}")
    if args.json:
        print(json.dumps({
            "plan_id": outcome.plan_id, "requests": outcome.requests, "deviations": outcome.deviations,
            "complete": True,
        }))  # fmt: skip
    else:
        requests = counted(outcome.requests, "request")
        print(f"complete: {requests}, {counted(outcome.deviations, 'deviation')}, plan {outcome.plan_id}")
    return 0
