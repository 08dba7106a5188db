"""Workloads: list the ones that ship, show their prompts, check a file, import other people's, seal a set."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import StrataError

_IMPORT_KINDS = ("mt-bench", "openai-chat", "sharegpt", "spec-bench", "speed-bench", "text")


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    listing = verbs.add_parser("list", help="the strata that ship, with sizes, weights and session lengths")
    listing.add_argument("--json", action="store_true", help="one JSON object on stdout")

    show = verbs.add_parser("show", help="the prompts of a stratum or file")
    show.add_argument("name", help="a stratum's name, a prompt file, or a folder with prompts.jsonl")
    show.add_argument("--id", help="only this prompt, in full")
    show.add_argument("--split", choices=("open", "reserve"), help="only this part")
    show.add_argument("--json", action="store_true", help="canonical records, one a line")

    check = verbs.add_parser("check", help="bad records, near duplicates, lengths, what events a set can exercise")
    check.add_argument("names", nargs="*", metavar="FILE-or-NAME", help="default: all strata that ship")
    check.add_argument(
        "--model", help="count tokens by this model's tokenizer and template (else 4 characters a token)"
    )
    check.add_argument("--context-limit", type=int, default=8192, help="the champion's context in tokens (8192)")
    check.add_argument("--similar", type=float, default=0.6, help="report pairs of at least this similarity (0.6)")
    check.add_argument("--json", action="store_true", help="one JSON object on stdout")

    importing = verbs.add_parser("import", help="other people's prompt files into this schema")
    importing.add_argument("kind", choices=_IMPORT_KINDS)
    importing.add_argument("file")
    importing.add_argument("--out", required=True, help="prompt file to write; OUT.source.json is written beside it")
    importing.add_argument("--licence", default="not stated", help="licence of the prompts, as their source states it")
    importing.add_argument("--stratum", help="name of the workload (else each record's category or the file's name)")
    importing.add_argument("--reserve-every", type=int, default=3, help="one prompt in N is reserved (3); 0 for none")

    seal = verbs.add_parser("seal", help="publishable commitments to a set's prompts")
    seal.add_argument("name")
    seal.add_argument("--out", required=True, help="folder for seal.json (publish it) and salt.hex (keep it)")
    seal.add_argument("--all", action="store_true", help="the open prompts as well, not only the reserve")

    unseal = verbs.add_parser("verify-seal", help="compare a set and a salt with the commitments made before")
    unseal.add_argument("name")
    unseal.add_argument("seal", help="seal.json")
    unseal.add_argument("salt", help="salt.hex")
    unseal.add_argument("--all", action="store_true", help="the seal was made of all prompts")

    long = verbs.add_parser("generate-long", help="write the long-context stratum anew for a model's tokenizer")
    long.add_argument("--model", required=True)
    long.add_argument("--out", required=True)

    hashes = verbs.add_parser("hashes", help="n-gram hashes of prompt files, for checks of training data")
    hashes.add_argument("names", nargs="*", metavar="FILE-or-NAME", help="default: all strata that ship")
    hashes.add_argument("--out", required=True)


def run(args: argparse.Namespace, services: Any) -> int:
    if args.verb == "check":
        from .check import run_check_command

        return run_check_command(args, services)
    if args.verb == "import":
        from .importing import run_import

        return run_import(args)
    if args.verb in ("list", "show"):
        from . import showing

        return showing.run_list(args) if args.verb == "list" else showing.run_show(args)
    if args.verb in ("seal", "verify-seal"):
        from . import sealed

        return sealed.run_seal(args) if args.verb == "seal" else sealed.run_verify(args)
    if args.verb in ("generate-long", "hashes"):
        from . import making

        return making.run_generate_long(args, services) if args.verb == "generate-long" else making.run_hashes(args)
    raise StrataError(f"unknown verb {args.verb!r}")
