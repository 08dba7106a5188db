"""``draftgate strata list`` and ``show``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..defaults import DESIGNATED, WEIGHTS
from ..errors import StrataError
from ..load import load_stratum, names
from ..schema import Prompt
from ..sessions import session_length


def run_list(args: argparse.Namespace) -> int:
    rows = [_summary(name) for name in names()]
    if args.json:
        print(json.dumps({"strata": rows}, ensure_ascii=False, indent=2))
        return 0
    table = Table(box=None, pad_edge=False)
    table.add_column("stratum", no_wrap=True)
    for column in ("n", "families", "reserve", "turns>1", "checked", "weight", "session", "sigma"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = [str(row[key]) for key in ("prompts", "families", "reserve", "multi_turn", "checked")]
        session = (str(row["session_length"][key]) for key in ("median", "sigma"))
        table.add_row(row["name"] + " *" * row["designated"], *numbers, f"{row['weight']:.2f}", *session)
    console = Console()
    console.print(table)
    console.print("* designated; session: median new tokens of a sitting, log-normal with sigma")
    return 0


def run_show(args: argparse.Namespace) -> int:
    prompts = [p for p in load_stratum(args.name) if args.split in (None, p.split) and args.id in (None, p.id)]
    if not prompts:
        raise StrataError(f"{args.name}: no prompt {'with that id' if args.id else 'in that part'}")
    if args.json:
        for prompt in prompts:
            print(json.dumps(prompt.record(), ensure_ascii=False))
        return 0
    console = Console(soft_wrap=True)
    for prompt in prompts:
        console.print(Text(_heading(prompt), style="bold"))
        console.print(Text(_body(prompt) if args.id else _first_line(prompt)))
        console.print()
    return 0


def _summary(name: str) -> dict[str, Any]:
    prompts = load_stratum(name)
    return {
        "name": name,
        "prompts": len(prompts),
        "families": len({p.family_id for p in prompts}),
        "reserve": sum(p.split == "reserve" for p in prompts),
        "multi_turn": sum(len(p.turns) > 1 for p in prompts),
        "checked": sum(p.check is not None for p in prompts),
        "weight": WEIGHTS.get(name, 0.0),
        "session_length": session_length(name),
        "designated": name in DESIGNATED,
    }


def _heading(prompt: Prompt) -> str:
    check = f" check={prompt.check['kind']}" if prompt.check else ""
    family = f" family={prompt.family_id}" if prompt.family_id != prompt.id else ""
    tags = f" [{', '.join(prompt.tags)}]" if prompt.tags else ""
    return f"{prompt.id} {prompt.language} {prompt.split}{family}{check}{tags}"


def _first_line(prompt: Prompt) -> str:
    line = " / ".join(text.strip().splitlines()[0] for text in prompt.texts())
    return line if len(line) <= 160 else line[:159] + "…"


def _body(prompt: Prompt) -> str:
    if prompt.raw is not None:
        return f"(raw) {prompt.raw}"
    turns = ("\n".join(f"{m.role}: {m.content}" for m in turn) for turn in prompt.turns)
    text = "\n(answer)\n".join(turns)
    return text + (f"\ncheck: {json.dumps(prompt.check, ensure_ascii=False)}" if prompt.check else "")
