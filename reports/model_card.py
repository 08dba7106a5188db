"""A few lines for the draft's model card: what was decided, on what evidence, and what that does not say."""

from __future__ import annotations

import json

from .markdown import code, safe
from .numbers import NONE
from .page import Page


def model_card_snippet(page: Page) -> str:
    """Markdown with a `model-index`-like YAML head; figures only where a gate measured them."""
    by_id = {e.result.id: e for e in page.gates}
    plan, champion = page.plan, page.plan["champion"]
    draft = plan.get("draft") or {}
    told = [
        ("end-to-end speed-up over champion-alone", "speedup"),
        ("peak resident memory", "memory"),
        ("requests more than 10 % slower", "tail"),
    ]
    measured = [
        f"| {what} | {by_id[id].estimate} | {by_id[id].interval} |"
        for what, id in told
        if id in by_id and by_id[id].estimate != NONE
    ]
    head = {
        "name": draft.get("name") or page.candidate,
        "champion": champion.get("name"),
        "verdict": page.verdict.verdict,
        "exploratory": page.verdict.exploratory,
        "plan_id": page.plan_id,
        "draft_sha256": draft.get("sha256"),
        "champion_sha256": champion.get("sha256"),
        "hardware_class": plan.get("hardware_class"),
    }
    lines = [
        "---",
        "draftgate:",
        *(f"  {key}: {json.dumps(value, sort_keys=True)}" for key, value in head.items()),
        "---",
        "",
        f"## Speculative decoding in front of {code(champion.get('name'))}",
        "",
        f"**{page.verdict.verdict}.** {safe(page.headline)}",
        "",
        f"Decided by plan {code(page.plan_id)}, fixed before the first token: {safe(page.facts_line)}.",
        "",
        *(["| measured | estimate | 95 % interval |", "| --- | --- | --- |", *measured, ""] if measured else []),
        "What this does not show:",
        "",
        *(f"- {safe(text)}" for text in page.not_shown),
        "",
    ]
    return "\n".join(lines)
