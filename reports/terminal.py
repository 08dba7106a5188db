"""A verdict in the terminal: the word first, then a compact table, then what stands in the way."""

from __future__ import annotations

import sys
from typing import IO

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..gates.result import Verdict
from .explain import SYMBOLS, VERDICT_SYMBOLS, explain, headline, what_would_change
from .numbers import NONE
from .robustness import robustness

_VERDICT_STYLE = {"GO": "green", "NO-GO": "red", "INCONCLUSIVE": "yellow", "INVALID": "magenta"}
_STATUS_STYLE = {
    "pass": "green", "fail": "bold red", "inconclusive": "bold yellow", "not-measured": "yellow",
    "not-applicable": "dim",
    "invalid": "bold magenta",
}  # fmt: skip


_LEAST = {"gate": 0, "status": 0, "estimate": 60, "95 % interval": 84, "rule": 68, "n": 92}
"""Column to the width of terminal from which it is shown."""


def print_verdict(verdict: Verdict, file: IO[str] | None = None, width: int | None = None) -> None:
    """Prints to ``file`` (standard output when None). Colours only on a terminal and without NO_COLOR."""
    console = Console(file=file or sys.stdout, width=width, highlight=False, soft_wrap=False)
    console.print(render(verdict, console.width))


def render(verdict: Verdict, width: int) -> Group:
    colour = _VERDICT_STYLE[verdict.verdict]
    head = Text.assemble(
        (f" {VERDICT_SYMBOLS[verdict.verdict]} {verdict.verdict} ", f"bold reverse {colour}"), "  ", headline(verdict)
    )
    plan = Text(f"plan {verdict.plan_id}" if width >= 76 else f"plan {verdict.plan_id[:12]}", style="dim")
    parts: list[Panel | Table | Text] = [
        Panel(Group(head, plan), border_style=colour, box=box.ROUNDED, padding=(0, 1)),
        _table(verdict, width),
    ]
    explained = [explain(g) for g in verdict.gates]
    open_ = [e for e in explained if e.result.status not in ("pass", "not-applicable")]
    for e in open_:
        parts.append(_hanging(Text(f"{e.symbol} {e.result.id}", _STATUS_STYLE[e.result.status]), e.found))
    flips = robustness(verdict).flips
    if flips:
        parts.append(_hanging(Text("~ not robust", "yellow"), flips))
    changes = what_would_change(verdict, explained)[:4]
    if verdict.verdict != "GO" and changes:
        parts.append(Text("  What would change it:", style="bold"))
        parts += [_hanging(Text(f"→ {id}" if id else "→"), text) for id, text in changes]
    return Group(*parts)


def _hanging(lead: Text, text: str) -> Table:
    """A lead and a text that wraps beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text("  ") + lead, Text(text))
    return grid


def _table(verdict: Verdict, width: int) -> Table:
    """As many columns as fit: a narrow terminal keeps gate and status and loses numbers, never the other way."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False, padding=(0, 1), collapse_padding=True)
    shown = [name for name, least in _LEAST.items() if width >= least]
    for name in shown:
        table.add_column(name, no_wrap=True, justify="right" if name in ("estimate", "n") else "left")
    for gate in verdict.gates:
        e, how = explain(gate), _STATUS_STYLE[gate.status]
        optional = " (optional)" if width >= 100 and gate.requirement == "if-available" else ""
        cells = {
            "gate": escape(gate.id),
            "status": f"[{how}]{SYMBOLS[gate.status]} {e.words}{optional}[/]",
            "estimate": escape(_blank(e.estimate)),
            "95 % interval": f"[dim]{escape(_blank(e.interval))}[/]",
            "rule": escape(_blank(e.threshold)),
            "n": f"{gate.n:,}" if gate.n else "",
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _blank(text: str) -> str:
    return "" if text == NONE else text
