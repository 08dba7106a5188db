"""The report as one HTML file. Everything printed goes through autoescaping; only our own SVG and script do not."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from jinja2 import Environment, PackageLoader, StrictUndefined

from .explain import VERDICT_SYMBOLS
from .figures import style
from .figures.drawn import CONFIRMATORY, Drawn
from .numbers import NONE
from .page import Page
from .robustness import OUTCOMES

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
    env.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return env


def render(page: Page, figures: Sequence[Drawn], version: str) -> str:
    """The whole page as text."""
    env = environment()
    script = env.get_template("script.js.j2").render()
    return env.get_template("report.html.j2").render(
        page=page,
        outcomes=OUTCOMES,
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
    )


def render_or_plain(page: Page, figures: Sequence[Drawn], version: str) -> str:
    """The page, or a plain one of verdict and reasons where it cannot be laid out: a verdict never goes untold."""
    try:
        return render(page, figures, version)
    except Exception as error:
        return plain_page(page, f"{type(error).__name__}: {error}")


def plain_page(page: Page, reason: str) -> str:
    """Verdict, gates and reasons without a template; everything in it is escaped."""
    gates = "".join(f"<li>{escape(g.id)}: {escape(g.status)}. {escape(g.reason)}</li>" for g in page.verdict.gates)
    notes = "".join(f"<p>{escape(p)}</p>" for p in (f"The report could not be laid out ({reason}).", *page.problems))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{page.verdict.verdict}: draftgate</title>'
        f"</head><body><main><h1>{page.verdict.verdict}</h1><p>{escape(page.headline)}</p>{notes}"
        f"<p>Plan <code>{escape(page.plan_id)}</code>. The same in full: report.md, junit.xml and verdict.json.</p>"
        f"<ul>{gates}</ul></main></body></html>\n"
    )


def content_hash(script: str) -> str:
    """The hash that the page's own content security policy allows, of exactly what stands between the script tags."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
