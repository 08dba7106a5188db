"""Judge one candidate in a pipeline: freeze a committed plan with the draft filled in, run, gate, report.

draftgate ci --plan ci/plan.yaml --candidate build/draft.gguf --out runs/ci
draftgate ci --plan ci/plan.yaml --candidate build/draft.gguf --quick        for pull requests
draftgate ci … --baseline adopted/verdict.json --hardware-class ci/machine.json

The exit code is the verdict (0 GO, 3 NO-GO, 4 INCONCLUSIVE, 5 INVALID); 2 is unusable input, 6 an unfinished run. All
reports are written first. Timing gates count only on the declared hardware class; elsewhere they are not measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plan", type=Path, required=True, metavar="FILE", help="committed plan template, its draft left open"
    )
    parser.add_argument("--candidate", type=Path, required=True, metavar="DRAFT.gguf", help="the draft to judge")
    parser.add_argument("--out", type=Path, default=Path("runs/ci"), metavar="DIR", help="run directory (runs/ci)")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="verdict.json of the draft in use")
    parser.add_argument("--hardware-class", type=Path, metavar="FILE", help="JSON with the class on which times count")
    parser.add_argument(
        "--quick", action="store_true", help="few prompts, one block; timing and memory where available"
    )
    parser.add_argument("--reason", default="", help="why the plan asks less than the baseline's plan")


def run(args: argparse.Namespace, services: Any) -> int:
    from ...harness.commands.plan_options import progress, say
    from ..ci import Job, judge_candidate
    from ..files import ReportError
    from ..github import annotation, append_summary, on_actions, verdict_annotations

    job = Job(args.plan, args.candidate, args.out, args.baseline, args.hardware_class, args.quick, args.reason)
    try:
        with progress() as bar:
            judged = judge_candidate(job, services, bar)
    except Exception as error:
        if isinstance(getattr(error, "exit_code", None), int):
            _tell_failure(error)
        raise
    for note in judged.notes:
        say(f"draftgate: {note}")
    services.print_verdict(judged.verdict)
    comment = (args.out / "report.md").read_text("utf-8")
    if judged.comparison:
        print(judged.comparison)
        comment += "\n" + judged.comparison + "\n"
    if on_actions():
        print("\n".join(verdict_annotations(judged.verdict)))
    code = int(judged.verdict.exit_code)
    try:
        append_summary(comment)
    except ReportError as error:
        if on_actions():
            print(annotation("error", "draftgate: no step summary", str(error)))
        print(f"draftgate: {error}", file=sys.stderr)
        return code or error.exit_code
    return code


def _tell_failure(error: Exception) -> None:
    """No verdict came: said where a reviewer looks, and the exit code is the error's own."""
    from ..files import ReportError
    from ..github import annotation, append_summary, on_actions
    from ..markdown import safe

    if on_actions():
        print(annotation("error", "draftgate: no verdict", str(error)))
    try:
        append_summary(f"## No verdict\n\n{safe(error)}")
    except ReportError as second:
        print(f"draftgate: {second}", file=sys.stderr)
