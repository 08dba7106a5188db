"""Options and notes shared by the commands that compose or run a plan."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..plan import ComposedPlan, compose_plan
from ..progress import Bar, Progress, Silent


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """`plan=NAME`, overrides, and the options whose values are paths."""
    parser.add_argument("overrides", nargs="*", metavar="plan=NAME | key=value", help="a bundled plan and overrides")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="a plan of your own (`draftgate init` writes one)")
    add_model_options(parser)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--champion", metavar="PATH", help="champion: a GGUF file or a registered name")
    parser.add_argument("--draft", metavar="PATH", help="draft: a GGUF file or a registered name")


def composed(args: argparse.Namespace) -> ComposedPlan:
    return compose_plan(args.overrides, plan_file=args.plan, champion=args.champion, draft=args.draft)


def path_overrides(args: argparse.Namespace) -> dict[str, str]:
    """Where the models lie now, for a directory that was frozen elsewhere."""
    given = {"champion_path": args.champion, "draft_path": args.draft}
    return {k: v for k, v in given.items() if v is not None}


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """A bar on a terminal, silence elsewhere."""
    if sys.stderr.isatty():
        with Bar() as bar:
            yield bar
    else:
        yield Silent()


def say(text: str) -> None:
    """To a person, not to a pipe."""
    print(text, file=sys.stderr)


def card_lines(card: dict[str, Any] | None) -> list[str]:
    """The decision card as a reader sees it: whatever lines it brings, else its chances."""
    if card is None:
        return []
    lines = card.get("lines") or card.get("text")
    if isinstance(lines, str):
        return lines.splitlines()
    if isinstance(lines, list):
        return [str(line) for line in lines]
    import json

    return json.dumps(card, indent=1).splitlines()
