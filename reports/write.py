"""Writes every report of a run directory, whatever the verdict; each file whole or not at all."""

from __future__ import annotations

from pathlib import Path

from ..gates.result import Verdict
from .attestation import write_attestation
from .figures.drawn import draw_all
from .figures.svg import standalone_svg
from .files import write_text
from .html import render_or_plain
from .junit import render_junit
from .markdown import render_markdown
from .model_card import model_card_snippet
from .page import build_page
from .records import load_records


def package_version() -> str:
    from .. import __version__

    return str(__version__)


def write_reports(run_dir: Path, verdict: Verdict, *, key: Path | None = None, crate: bool = False) -> list[Path]:
    """Writes report.html, report.md, junit.xml, figures/ (SVG and CSV), the model-card snippet and the attestation.

    ``key``: a PEM private key; the attestation is then signed. ``crate``: an RO-Crate as well. Returns the paths
    written. Small machine-readable files come first, so that a failure later still leaves them; a page that cannot be
    laid out becomes a plain one that says so. Raises ReportError where a file cannot be written, EvidenceError or
    IncompleteRun where there is nothing to report.
    """
    root = Path(run_dir)
    records = load_records(root, verdict)
    written = [write_text(root / "junit.xml", render_junit(verdict))]
    page = build_page(records, verdict)
    written += [
        write_text(root / "report.md", render_markdown(page)),
        write_text(root / "model-card.md", model_card_snippet(page)),
    ]
    figures = draw_all(records, verdict)
    for figure in figures:
        if figure.svg:
            csv = figure.table.to_csv(index=False, float_format="%.9g")
            written.append(write_text(root / "figures" / f"{figure.id}.svg", standalone_svg(figure.svg)))
            written.append(write_text(root / "figures" / f"{figure.id}.csv", csv))
        else:  # what an earlier report drew would contradict this one
            for suffix in (".svg", ".csv"):
                (root / "figures" / f"{figure.id}{suffix}").unlink(missing_ok=True)
    written.append(write_text(root / "report.html", render_or_plain(page, figures, package_version())))
    written.append(write_attestation(root, records, verdict, key))
    if crate:
        from .crate import write_crate

        written.append(write_crate(root, page))
    return written
