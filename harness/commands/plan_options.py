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
    """The decision card as a reader sees it: chances of each verdict by true speed-up, and what they mean."""
    if card is None:
        return []
    lines = ["decision card: chances of each verdict if the speed-up were truly so in every stratum"]
    names = ("GO", "NO-GO", "INCONCLUSIVE")
    lines.append("  true speed-up  " + "  ".join(f"{name:>12}" for name in names))
    for truth in card.get("truths", ()):
        shares = "  ".join(f"{100 * float(truth.get(name, 0)):>11.0f}%" for name in names)
        lines.append(f"  {truth.get('speedup', float('nan')):>13g}  {shares}")
    variation = card.get("variation") or {}
    if variation:
        lines.append(
            f"  spread of log time ratios: prompts {variation.get('prompt_sd')}, noise {variation.get('noise_sd')}, "
            f"blocks {variation.get('block_sd')} ({variation.get('source')})"
        )
    return [*lines, f"  {card['note']}"] if card.get("note") else lines
