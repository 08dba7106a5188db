"""A finished figure, and how one is made without ever taking the report down with it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib
import pandas as pd

from ...gates.result import Verdict
from ...harness.collector import without_collector
from ..gate_texts import Label
from ..records import RunRecords
from . import style
from .svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIRMATORY = ("survival", "ecdf", "breakeven", "heatmap")
EXPLORATORY = ("waterfall", "memory", "calibration", "pareto")


class CannotDraw(Exception):
    """What the figure needs is not in the records; the message says what."""


@dataclass(frozen=True)
class Sketch:
    """What a figure module gives: the drawing, its data as a tidy table, and words."""

    figure: Figure
    table: pd.DataFrame
    """One row a drawn value, limits in columns of their own."""
    caption: str
    alt: str
    """What a reader who cannot see it should know: the main reading, in numbers."""
    labels: tuple[Label, ...] = ("measured",)


class FigureModule(Protocol):
    TITLE: str

    def draw(self, records: RunRecords, verdict: Verdict) -> Sketch: ...


@dataclass(frozen=True)
class Drawn:
    id: str
    title: str
    caption: str
    labels: Sequence[Label]
    svg: str
    """Empty where it could not be drawn."""
    table: pd.DataFrame
    missing: str = ""


def draw(id: str, records: RunRecords, verdict: Verdict) -> Drawn:
    """One figure by id. What prevents it is told in place of the drawing: a report must come out whatever happens."""
    try:
        module: Any = importlib.import_module(f".{id}", __package__)
    except ImportError as error:
        return Drawn(id, id, "", (), "", pd.DataFrame(), f"{error}")
    with matplotlib.rc_context(style.RC):
        try:
            sketch: Sketch = module.draw(records, verdict)
            svg = inline_svg(sketch.figure, id, module.TITLE, sketch.alt)
        except CannotDraw as error:
            return Drawn(id, module.TITLE, getattr(module, "ABOUT", ""), (), "", pd.DataFrame(), str(error))
        except Exception as error:
            reason = f"drawing failed ({type(error).__name__}: {error}); the gates do not depend on figures"
            return Drawn(id, module.TITLE, getattr(module, "ABOUT", ""), (), "", pd.DataFrame(), reason)
    return Drawn(id, module.TITLE, sketch.caption, sketch.labels, svg, sketch.table)


def draw_all(records: RunRecords, verdict: Verdict, ids: Sequence[str] = CONFIRMATORY + EXPLORATORY) -> list[Drawn]:
    """Every figure in turn."""
    with without_collector():
        return [draw(id, records, verdict) for id in ids]
