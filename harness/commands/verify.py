"""A third party's check: chain, hashes, tables and verdict recomputed from the raw records. Needs no model.

Exit code 0 when everything holds, whatever the verdict; 5 when something does not; 6 when the run has not ended.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR", help="run directory")
    parser.add_argument(
        "--replay", action="store_true", help="re-derive decisions from the private traces (needs the models)"
    )
    parser.add_argument(
        "--allowed-signers", type=Path, metavar="FILE", help="plan.json must be signed by one of these SSH keys"
    )
    parser.add_argument(
        "--envelope-key", type=Path, metavar="PEM", help="plan.dsse.json must hold under this public key"
    )
    parser.add_argument(
        "--require-git-order", action="store_true", help="fail unless git shows the plan before the run"
    )
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..ancestry import plan_precedes_run
    from ..rundir import RunDir
    from ..verify import verify_run

    run_dir = RunDir(args.dir)
    report = verify_run(run_dir, services)
    if report.plan_id:
        _signatures(args, run_dir, report)
        ordered, sentence = plan_precedes_run(run_dir)
        if ordered is False or (ordered is None and args.require_git_order):
            report.problems.append(sentence)
        else:
            (report.checked if ordered else report.not_checked).append(sentence)
        if args.replay and report.complete:
            _replay(run_dir, services, report)
        elif not args.replay:
            report.not_checked.append("replay: not asked for (--replay)")
    if args.json:
        print(json.dumps({
            "ok": report.ok, "complete": report.complete, "plan_id": report.plan_id, "verdict": report.verdict,
            "checked": report.checked, "problems": report.problems, "not_checked": report.not_checked,
        }))  # fmt: skip
    else:
        for mark, lines in (("ok", report.checked), ("not checked", report.not_checked), ("PROBLEM", report.problems)):
            for line in lines:
                print(f"{mark}: {line}")
        print("honest" if report.ok and report.complete else "NOT VERIFIED" if not report.ok else "incomplete run")
    return 5 if not report.ok else 0 if report.complete else 6


def _signatures(args: argparse.Namespace, run_dir: Any, report: Any) -> None:
    from ..errors import IntegrityError

    try:
        if args.allowed_signers is not None:
            from ..signature import check_signature

            report.checked.append(f"signature: plan.json is signed by {check_signature(run_dir, args.allowed_signers)}")
        elif run_dir.signature.exists():
            report.not_checked.append("signature: there is one (--allowed-signers FILE checks it)")
        if args.envelope_key is not None:
            from ..envelope import check_envelope

            check_envelope(run_dir, args.envelope_key)
            report.checked.append("envelope: plan.dsse.json holds")
    except IntegrityError as error:
        report.problems.append(str(error))


def _replay(run_dir: Any, services: Any, report: Any) -> None:
    """The proofs' own audit of every decision on record (`gates/proofs/replay.py`)."""
    found = services.replay(run_dir.path)
    body = found if isinstance(found, dict) else found.finding().body()
    if body["ok"]:
        report.checked.append(f"replay: {body['n']} decisions re-derived, every one as recorded")
    else:
        said = body.get("detail", {}).get("mismatches") or body.get("detail", {}).get("reason") or "nothing to replay"
        report.problems.append(f"replay: not what was recorded: {said}")
