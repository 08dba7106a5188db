"""Writes report.html, report.md, junit.xml, figures and attestation of a finished run, from its records alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", type=Path, help="a run directory")
    parser.add_argument(
        "--sign-key", metavar="PEM", type=Path, help="sign the attestation with this private key (extra [sign])"
    )
    parser.add_argument("--crate", action="store_true", help="also write ro-crate-metadata.json")
    parser.add_argument("--quiet", action="store_true", help="print only the paths written")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..stored_verdict import contradiction
    from ..write import write_reports

    verdict = services.judge(args.dir)
    problem = contradiction(args.dir, verdict)
    for path in write_reports(args.dir, verdict, key=args.sign_key, crate=args.crate):
        print(path)
    if not args.quiet:
        services.print_verdict(verdict, sys.stderr)
    if problem:
        print(f"draftgate: {problem}", file=sys.stderr)
        return 5
    return 0
