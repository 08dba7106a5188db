"""Engine speed, verification cost and memory bandwidth, measured together on this machine.

Decode is a call of one token; verification a call of more, given as its cost relative to one; both at several lengths
of context. The bandwidth is measured in the same run; the share of it that decode reaches counts the bytes of weights
and of keys and values that a token needs (MB read). Close other programs first: the figures are of a quiet machine.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

DEFAULT_MODEL = "smollm2-135m-instruct"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"a name or a GGUF file (default: {DEFAULT_MODEL})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--threads", type=int, nargs="+", help="thread counts (default: 1 and 2)")
    parser.add_argument("--contexts", type=int, nargs="+", help="tokens of context (default: 200 2048 6144)")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each context (default: 4)")


def run(args: argparse.Namespace, services: Any) -> int:
    from rich.console import Console

    from ..bench import Effort, measure
    from ..bench_table import print_report
    from ..engine.engine import processors
    from ..errors import ArmError
    from ..models import pull

    threads = args.threads or [count for count in (1, 2) if count <= processors()]
    if min(threads) < 1 or args.seconds <= 0 or min(args.contexts or [1]) < 1:
        raise ArmError("--threads, --contexts and --seconds must be above zero")
    effort = Effort(seconds=args.seconds)
    if args.contexts:
        effort = Effort(contexts=tuple(args.contexts), seconds=args.seconds)
    path = pull(args.model)
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("measuring") as status:
            report = measure(path, threads, effort, status.update)
    else:
        report = measure(path, threads, effort)
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        print_report(report, Console() if Console().is_terminal else Console(width=120))
    return 0
