"""The report as one HTML file. Everything printed goes through autoescaping; only our own SVG and script do not."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .explain import VERDICT_SYMBOLS
from .figures import style
from .figures.drawn import CONFIRMATORY, Drawn
from .numbers import NONE, quantity
from .page import Page

SECTIONS = (
    ("verdict", "Verdict"),
    ("results", "Results"),
    ("gates", "Gates"),
    ("change", "Changes"),
    ("not-shown", "Limits"),
    ("card", "Expected"),
    ("multiverse", "Robustness"),
    ("exploratory", "Exploratory"),
    ("checklists", "Checklists"),
    ("identities", "Identities"),
    ("sources", "Sources"),
)


def environment() -> Environment:
    env = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["columns"] = columns
    env.filters["figure"] = lambda x: quantity(float(x))
    return env


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every key of the rows, in the order of first appearance."""
    return list(dict.fromkeys(k for row in rows for k in row))


def render(page: Page, figures: Sequence[Drawn], version: str) -> str:
    """The whole page as text."""
    env = environment()
    script = env.get_template("script.js.j2").render()
    card_rows, card_notes = split_card(page.decision_card)
    return env.get_template("report.html.j2").render(
        page=page,
        version=version,
        sections=SECTIONS,
        script=script,
        script_hash=content_hash(script),
        figure_variables={"light": style.variables(dark=False), "dark": style.variables(dark=True)},
        verdict_symbol=VERDICT_SYMBOLS[page.verdict.verdict],
        gate_ids={e.result.id for e in page.gates},
        confirmatory=[f for f in figures if f.id in CONFIRMATORY],
        exploratory=[f for f in figures if f.id not in CONFIRMATORY],
        speedup=next((e for e in page.gates if e.result.id == "speedup" and e.estimate != NONE), None),
        card_rows=card_rows,
        card_notes=card_notes,
    )


def content_hash(script: str) -> str:
    """The hash that the page's own content security policy allows, of exactly what stands between the script tags."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def split_card(card: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[tuple[str, Any]]]:
    """A decision card as its table (the first list of mappings in it) and the plain values beside it."""
    rows: list[Mapping[str, Any]] = []
    notes = []
    for key, value in card.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            rows = rows or value
        elif not isinstance(value, Mapping | list):
            notes.append((key, value))
    return rows, notes
