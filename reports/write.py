"""Writes every report of a run directory, whatever the verdict; each file whole or not at all."""

from __future__ import annotations

from pathlib import Path

from ..gates.result import Verdict
from .figures.drawn import draw_all
from .figures.svg import standalone_svg
from .files import write_text
from .html import render
from .junit import render_junit
from .markdown import render_markdown
from .page import build_page
from .records import load_records


def package_version() -> str:
    from .. import __version__

    return str(__version__)


def write_reports(run_dir: Path, verdict: Verdict) -> list[Path]:
    """Writes report.html, report.md, junit.xml and figures/ (SVG and CSV) into ``run_dir``; returns the paths written.

    Raises ReportError where a file cannot be written, EvidenceError or IncompleteRun where there is nothing to report.
    """
    root = Path(run_dir)
    records = load_records(root)
    page, figures = build_page(records, verdict), draw_all(records, verdict)
    written = []
    for figure in figures:
        if figure.svg:
            written.append(write_text(root / "figures" / f"{figure.id}.svg", standalone_svg(figure.svg)))
            written.append(
                write_text(root / "figures" / f"{figure.id}.csv", figure.table.to_csv(index=False, float_format="%.9g"))
            )
    written.append(write_text(root / "junit.xml", render_junit(verdict)))
    written.append(write_text(root / "report.md", render_markdown(page)))
    written.append(write_text(root / "report.html", render(page, figures, package_version())))
    return written
