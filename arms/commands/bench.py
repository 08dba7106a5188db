"""Engine speed, verification cost and memory bandwidth, measured together on this machine.

Decode is a call of one token; verification a call of more, given as its cost relative to one; both at several lengths
of context. The bandwidth is measured in the same run; the share of it that decode reaches counts the bytes of weights
and of keys and values that a token needs (MB read). Close other programs first: the figures are of a quiet machine.

With --draft, whole rounds of that draft are timed instead, and a `policy:` block is printed that an arm's entry in a
plan can hold as it stands: k is then chosen in every request from these frozen costs and from its own acceptance.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from .numbers import whole

DEFAULT_MODEL = "smollm2-135m-instruct"
LARGEST_K = 16


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"a name or a GGUF file (default: {DEFAULT_MODEL})")
    parser.add_argument("--draft", metavar="MODEL", help="a draft of the model: print the costs of its rounds")
    parser.add_argument("--k", type=whole(1, LARGEST_K), default=6, help="with --draft: most proposals (default 6)")
    parser.add_argument("--temperature", type=float, default=0.0, help="with --draft: 0 (the default) is greedy")
    parser.add_argument("--top-p", type=float, default=1.0, help="with --draft")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--threads", type=int, nargs="+", help="thread counts (default: 1 and 2)")
    parser.add_argument("--contexts", type=int, nargs="+", help="tokens of context (default: 200 2048 6144)")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each context (default: 4)")


def run(args: argparse.Namespace, services: Any) -> int:
    from rich.console import Console

    from ..bench import COLUMNS, Effort, measure
    from ..bench_table import print_report
    from ..engine.engine import processors
    from ..engine.gguf import read_gguf
    from ..errors import ArmError
    from ..model_info import describe
    from ..models import pull

    if args.draft is not None:
        return _draft(args)
    threads = args.threads or [count for count in (1, 2) if count <= processors()]
    if min(threads) < 1 or args.seconds <= 0 or min(args.contexts or [1]) < 1:
        raise ArmError("--threads, --contexts and --seconds must be above zero")
    effort = Effort(seconds=args.seconds)
    if args.contexts:
        effort = Effort(contexts=tuple(args.contexts), seconds=args.seconds)
    path = pull(args.model)
    if args.contexts:
        holds = (describe(read_gguf(path)).context_limit or 0) - max(COLUMNS)
        if max(args.contexts) > holds:
            raise ArmError(
                f"--contexts {max(args.contexts)}: the model holds at most {holds} before {max(COLUMNS)} tokens"
            )
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


def _draft(args: argparse.Namespace) -> int:
    """One number of threads, the run's own unless given."""
    from rich.console import Console

    from ..draft_costs import measure, policy_lines
    from ..engine.engine import processors
    from ..errors import ArmError
    from ..models import load_draft, load_model, pull

    threads, contexts = args.threads or [processors()], args.contexts or [200, 2048]
    if len(threads) != 1 or threads[0] < 1 or args.seconds <= 0 or min(contexts) < 2:
        raise ArmError("with --draft: one number of --threads, --seconds above zero, --contexts of at least 2 tokens")
    champion = load_model(pull(args.model), threads=threads[0])
    limit = champion.engine.context_limit - args.k - 1
    if max(contexts) > limit:
        raise ArmError(f"--contexts {max(contexts)}: the model holds at most {limit} before {args.k} proposals")
    draft = load_draft(args.draft, champion, threads=threads[0])
    decoding = {"temperature": args.temperature, "top_p": args.top_p}
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("measuring") as status:
            costs = measure(champion, draft, sorted(set(contexts)), args.k, decoding, args.seconds, status.update)
    else:
        costs = measure(champion, draft, sorted(set(contexts)), args.k, decoding, args.seconds)
    if args.json:
        print(json.dumps({"format": "draftgate-draft-costs/1", "threads": threads[0], "k": args.k, "costs": costs}))
        return 0
    print(f"# {draft.info.name}, {threads[0]} threads: a round of n proposals, over a round of none")
    for entry in costs:
        shares = ", ".join(f"{n}: {us / entry['round_us'][0]:.2f}" for n, us in enumerate(entry["round_us"]))
        print(f"# {entry['context']} tokens of context ({entry['round_us'][0] / 1e3:.2f} ms): {shares}")
    print("\n".join(policy_lines(costs, args.k)))
    return 0
