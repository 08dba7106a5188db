"""A matplotlib figure as SVG text: the same bytes every time, themable, labelled for screen readers."""

from __future__ import annotations

import io
import re
from html import escape

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from . import style

_HEX = re.compile("|".join(map(re.escape, style.COLOURS)), re.IGNORECASE)
_FONT = re.compile(r"font-family: [^;\"]+;? ?|(?<=px) (?:&quot;|'|\")?DejaVu Sans[^;\"]*")
_ATTRIBUTE = re.compile(r' (?:d|x|y|transform|points|width|height|cx|cy|r)="[^"]*"')
_LONG = re.compile(r"(\d\.\d{2})\d+")
_ID = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')


def inline_svg(fig: Figure, id: str, title: str, description: str) -> str:
    """SVG to put into a page that declares the colour variables.

    Ids are prefixed with the figure's own, so that several drawings share a page; role, title and description are set.
    """
    body = _svg(fig)
    body = body[body.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = _ID.sub(lambda m: f"{m[1]}{id}-{m[2]}", body)
    body = _HEX.sub(lambda m: f"var({style.COLOURS[m[0].lower()][0]})", body)
    body = _FONT.sub("", body)
    body = _ATTRIBUTE.sub(lambda m: _LONG.sub(r"\1", m[0]), body)
    box = re.search(r'viewBox="[^"]+"', body)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box[0] if box else ""} '
        f'role="img" aria-labelledby="{id}-title {id}-description"><title id="{id}-title">{escape(title)}</title>'
        f'<desc id="{id}-description">{escape(description)}</desc>'
    )
    body = re.sub(r"<svg[^>]*>", lambda _: opening, body, count=1)
    return re.sub(r"\n\s*", "\n", body).strip()


def _svg(fig: Figure) -> str:
    """What ``fig.savefig`` writes, laid out once: it would walk through the whole drawing three times."""
    text = io.StringIO()
    canvas = FigureCanvasSVG(fig)
    fig.dpi = 72  # SVG's own: the layout is made for what is drawn
    engine = fig.get_layout_engine()
    if engine is not None:
        engine.execute(fig)
        fig.set_layout_engine("none")
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    canvas.print_svg(text, metadata=metadata)  # type: ignore[no-untyped-call]
    return text.getvalue()


def standalone_svg(inline: str) -> str:
    """The same drawing as a file of its own: it brings its colours, its ground and its font."""
    css = (
        f"svg {{ {style.variables(dark=False)} font-family: system-ui, 'DejaVu Sans', sans-serif; }} "
        f"@media (prefers-color-scheme: dark) {{ svg {{ {style.variables(dark=True)} }} }}"
    )
    ground = '<rect width="100%" height="100%" style="fill: var(--fig-paper)"/>'
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + inline.replace("</desc>", f"</desc><style>{css}</style>{ground}", 1)
        + "\n"
    )
