"""``draftgate strata check``: what a set holds, what is wrong with it, and what it can exercise."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..coverage import EVENTS
from ..errors import StrataError
from ..examine import Count, Examination, examine, four_characters_a_token
from ..load import names, prompt_file

BARS = " ▁▂▃▄▅▆▇█"


def run_check_command(args: argparse.Namespace, services: Any) -> int:
    """0 when every record is good; 2 when some are not (they are named). Near duplicates are reported, not refused."""
    if not 0 < args.similar <= 1:
        raise StrataError("--similar has to lie in (0, 1]")
    count, counted_by = _counter(args.model, services)
    found = [
        examine(prompt_file(name), count=count, context_limit=args.context_limit, similar=args.similar)
        for name in args.names or names()
    ]
    bad = sum(part.problem_count for part in found)
    empty = [part.path for part in found if not part.problem_count and not part.prompts]
    if args.json:
        report = {"counted_by": counted_by, "context_limit": args.context_limit, "sets": [p.record() for p in found]}
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        _print(found, counted_by, args.context_limit)
    if bad:
        print(f"draftgate: {bad} bad record(s); the good ones are usable", file=sys.stderr)
    for name in empty:
        print(f"draftgate: {name}: no prompts; a record a line is expected", file=sys.stderr)
    return 2 if bad or empty else 0


def _counter(model: str | None, services: Any) -> tuple[Count, str]:
    if model is None:
        return four_characters_a_token, "4 characters a token (give --model for true lengths)"
    make = getattr(services, "token_counter", None)
    if make is None:
        raise StrataError("--model: no tokenizer can be had here")
    return make(model), model


def _print(found: list[Examination], counted_by: str, context_limit: int) -> None:
    console = Console()
    lengths = Table(box=None, pad_edge=False, title=f"tokens by {escape(counted_by)}", title_justify="left")
    lengths.add_column("set", no_wrap=True)
    for column in ("n", "families", "reserve", "min", "median", "p90", "max"):
        lengths.add_column(column, justify="right")
    lengths.add_column("≤32…>8k", no_wrap=True)
    for part in found:
        row = part.record()
        tokens = row["tokens"] or dict.fromkeys(("min", "median", "p90", "max"), "-")
        share = f"{part.reserve / part.prompts:.0%}" if part.prompts else "-"
        numbers = (part.prompts, part.families, share, *tokens.values())
        lengths.add_row(_name(part), *map(str, numbers), _bars(list(row["histogram"].values())))
    console.print(lengths)
    console.print()

    console.print("prompts that can exercise each event:")
    for part in found:
        events = ", ".join(f"{event} {part.events[event]}" for event in EVENTS if part.events[event])
        lacking = ", ".join(event for event in EVENTS if not part.events[event])
        console.print(f"  {_name(part)}: {events}" + (f" (none for {lacking})" if lacking else ""), highlight=False)
    for part in found:
        for pair in part.duplicates:
            console.print(f"near duplicates in {_name(part)}: {pair['first']} {pair['second']} {pair['similarity']}")
        if part.compared < part.prompts:
            console.print(f"{_name(part)}: near duplicates looked for among the first {part.compared:,} prompts only")
        if part.over_limit:
            console.print(f"{_name(part)}: {part.over_limit} prompt(s) do not fit {context_limit:,} tokens")
        for problem in part.problems:
            console.print(escape(str(problem)), soft_wrap=True)
        if part.problem_count > len(part.problems):
            console.print(f"… and {part.problem_count - len(part.problems):,} more bad records")


def _name(part: Examination) -> str:
    """The stratum where the file has one, else the file."""
    return next(iter(part.strata)) if len(part.strata) == 1 else escape(part.path)


def _bars(counts: list[int]) -> str:
    most = max(counts, default=0) or 1
    return "".join(BARS[-(-n * (len(BARS) - 1) // most)] for n in counts)
