"""The report as a pull-request comment: at most 64 KB, cut between rows, never inside one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .explain import VERDICT_SYMBOLS, Explained
from .numbers import NONE
from .page import Page

LIMIT = 64 * 1024
"""Bytes of UTF-8; what the usual hosts take in one comment."""
_MARKS = {
    "pass": "✅",
    "fail": "❌",
    "inconclusive": "❔",
    "not-measured": "⚪",
    "not-applicable": "➖",
    "invalid": "🚫",
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~$!&@])")


def safe(text: object) -> str:
    """Text from outside as literal Markdown in one line: nothing in it becomes markup, a link or a table cell."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def code(text: object) -> str:
    """Text as an inline code span that its own backticks cannot end."""
    return "`" + " ".join(str(text).split()).replace("`", "ˋ").replace("|", "¦") + "`"


def render_markdown(page: Page, limit: int = LIMIT) -> str:
    """The whole comment. What does not fit is left out from the end, block by block, and its absence is said."""
    blocks = [
        _head(page),
        _gates(page.gates),
        _open(page),
        _strata(page),
        _list("What would change this verdict", _changes(page)),
        _list("What this does not show", [safe(t) for t in page.not_shown]),
        _list("Deviations", [safe(d) for d in page.deviations]),
        _checklist(page),
        _gate_texts(page.gates),
    ]
    return fit([b for b in blocks if b], limit)


def fit(blocks: Sequence[str], limit: int) -> str:
    """Joins blocks while they fit; the first that does not is cut between its lines, with a note."""
    note = "\n\n*Shortened to fit a comment; the rest is in report.html.*\n"
    room = limit - len(note.encode())
    whole = "\n\n".join(blocks) + "\n"
    if len(whole.encode()) <= limit:
        return whole
    kept: list[str] = []
    used = 0
    for block in blocks:
        lines: list[str] = []
        used += 2
        for line in block.split("\n"):
            size = len(line.encode()) + 1
            if used + size > room:
                return "\n\n".join([*kept, *(["\n".join(lines)] if lines else [])]) + note
            lines.append(line)
            used += size
        kept.append("\n".join(lines))
    return "\n\n".join(kept) + note


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    rule = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *rows])


def _head(page: Page) -> str:
    lines = [
        f"## {VERDICT_SYMBOLS[page.verdict.verdict]} {page.verdict.verdict}: {code(page.candidate)}",
        "",
        safe(page.headline),
        "",
    ]
    lines += [f"> **Records:** {safe(p)}" for p in page.problems]
    if page.robustness.flips:
        lines.append(f"> **Not robust:** {safe(page.robustness.flips)}")
    lines += [
        f"- Plan {safe(page.plan['title'])}, id {code(page.plan_id)}",
        f"- Champion {code(page.plan['champion']['name'])}; {safe(page.facts_line)}",
        f"- Deviations: {len(page.deviations) or 'none recorded'}",
    ]
    return "\n".join(lines)


def _gates(gates: Sequence[Explained]) -> str:
    rows = [
        [
            code(e.result.id),
            f"{_MARKS[e.result.status]} {e.words}",
            e.estimate,
            e.interval,
            e.threshold,
            f"{e.result.n:,}" if e.result.n else NONE,
        ]
        for e in gates
    ]
    return table(["Gate", "Status", "Estimate", "95 % interval", "Rule", "n"], rows, (2, 5))


def _open(page: Page) -> str:
    lines = [
        f"- {code(e.result.id)}: {safe(e.found)}"
        for e in page.gates
        if e.result.status not in ("pass", "not-applicable")
    ]
    return "\n".join(["**Not passed**", "", *lines]) if lines else ""


def _strata(page: Page) -> str:
    rows = [
        [
            safe(s.name) + (" ★" if s.designated else ""),
            s.speedup,
            s.limits,
            f"{_MARKS.get(s.status, '')} {s.words}",
            s.accepted_share,
            s.tokens_per_round,
            s.quality,
        ]
        for s in page.strata.rows
    ]
    if not rows:
        return ""
    head = table(
        ["Stratum (★ designated)", "Speed-up", "95 % interval", "State", "Accepted", "Tokens a round", "Quality"],
        rows,
        (1, 4, 5, 6),
    )
    return f"### Results by stratum\n\n{head}"


def _changes(page: Page) -> list[str]:
    return [(f"{code(id)}: " if id else "") + safe(text) for id, text in page.change]


def _list(title: str, items: Sequence[str]) -> str:
    return "\n".join([f"### {title}", "", *(f"- {item}" for item in items)]) if items else ""


def _checklist(page: Page) -> str:
    rows = [[safe(c.text), state, safe(by)] for c, state, by in page.deletion]
    facts = [[safe(fact), "resolved" if resolved else "open", safe(how)] for fact, resolved, how in page.facts]
    return "\n\n".join(
        [
            "### When to delete the speculative path",
            table(["Criterion", "State", "By"], rows),
            "### Facts that only a local run can settle",
            table(["Fact", "State", "How"], facts),
        ]
    )


def _gate_texts(gates: Sequence[Explained]) -> str:
    lines = ["### Gate by gate", ""]
    for e in gates:
        lines.append(f"- **{safe(e.text.title)}** ({e.words}). {safe(e.text.asked)} {safe(e.found)} {safe(e.why)}")
    return "\n".join(lines)
