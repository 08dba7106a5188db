"""Several candidates side by side, each judged from its own records. Says what forbids to compare them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="finished run directories, two or more")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..compare import hindrances, load_sides, render_json, render_markdown, rows

    sides = load_sides(args.dirs, services)
    if args.json:
        print(render_json(sides))
    elif args.markdown:
        print(render_markdown(sides), end="")
    else:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = Table(show_lines=False, pad_edge=False)
        shown.add_column("")
        for side in sides:
            shown.add_column(Text(side.name), overflow="fold")
        for label, cells in rows(sides):
            shown.add_row(Text(label, "bold"), *(Text(c) for c in cells))
        Console(file=sys.stdout, highlight=False).print(shown)
    if not args.json and not args.markdown:
        for text in hindrances(sides):
            print(f"draftgate: careful: {text}", file=sys.stderr)
    return 0
