"""What a pipeline shows: the step summary and annotations, in the way GitHub Actions reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..gates.result import Verdict
from .files import ReportError

SUMMARY_LIMIT = 1024 * 1024
"""Bytes a step summary may have."""
_MOST = 10
"""Annotations of one kind that a step shows."""


def append_summary(text: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """Appends Markdown to the step summary; None where no summary is asked for.

    Raises ReportError when one is asked for and cannot be written: a verdict nobody sees must not look green.
    """
    name = (os.environ if environment is None else environment).get("GITHUB_STEP_SUMMARY")
    if not name:
        return None
    path = Path(name)
    try:
        used = path.stat().st_size if path.exists() else 0
        if used + len(text.encode()) + 1 > SUMMARY_LIMIT:
            text = "*The summary is full; the report is in report.md.*"
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text.rstrip("\n") + "\n")
    except OSError as error:
        raise ReportError(
            f"cannot write the step summary {path}: {error.strerror or error}; the reports themselves are written"
        ) from error
    return path


def escape_data(text: str) -> str:
    """The message of a workflow command: per cent and line ends escaped, so that it stays one command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def annotation(level: str, title: str, message: str) -> str:
    """One workflow command; ``level`` is error, warning or notice."""
    return f"::{level} title={escape_property(title)}::{escape_data(message)}"


def verdict_annotations(verdict: Verdict) -> list[str]:
    """An error for each gate that stands in the way, the verdict first; a notice for a GO."""
    if verdict.verdict == "GO":
        return [annotation("notice", "draftgate GO", f"plan {verdict.plan_id[:12]}: every required gate passed")]
    lines = [annotation("error", f"draftgate {verdict.verdict}", "; ".join(verdict.reasons) or "no reason was given")]
    for gate in verdict.gates:
        blocking = gate.status in ("fail", "invalid") or (
            gate.requirement == "required" and gate.status not in ("pass", "not-applicable")
        )
        if blocking:
            lines.append(annotation("error", f"gate {gate.id}: {gate.status}", gate.reason))
    return lines[:_MOST]


def on_actions(environment: Mapping[str, str] | None = None) -> bool:
    return (os.environ if environment is None else environment).get("GITHUB_ACTIONS") == "true"
