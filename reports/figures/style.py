"""The one style of every figure: sizes, lines, and colours that colour-blind readers can tell apart (Okabe, Ito 2008).

Colours are written into the SVG as CSS variables, so that the same drawing is right on white and on black; each has a
light and a dark value. Colour never carries meaning alone: arms differ by marker and dash, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...gates.evidence import BASELINE

INK, SOFT, GRID, PAPER = "#16202b", "#4d5a69", "#d9dfe6", "#fffffe"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"

COLOURS: Mapping[str, tuple[str, str, str]] = {
    INK: ("--fig-ink", INK, "#e7edf3"),
    SOFT: ("--fig-soft", SOFT, "#a5b2bf"),
    GRID: ("--fig-grid", GRID, "#323d48"),
    PAPER: ("--fig-paper", "#ffffff", "#12171d"),
    BLUE: ("--fig-blue", BLUE, "#56b4e9"),
    VERMILLION: ("--fig-vermillion", VERMILLION, "#ff9350"),
    GREEN: ("--fig-green", GREEN, "#3ccf9f"),
    PURPLE: ("--fig-purple", "#b8608f", "#e6a3c9"),
    ORANGE: ("--fig-orange", "#b97f00", "#f2b632"),
    SKY: ("--fig-sky", "#2f8fc4", "#8fd0f7"),
}
"""Drawn colour to (CSS variable, light value, dark value). Orange, sky and purple are darker on white."""

RC: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "draftgate", "font.family": "DejaVu Sans", "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 9.0, "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.5, "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "axes.edgecolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.linewidth": 0.8, "lines.linewidth": 1.6, "lines.markersize": 4.0, "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none", "path.simplify": True, "path.simplify_threshold": 0.4,
}  # fmt: skip

WIDTH = 7.4
"""Inches: at this width 9-point text is readable on a page and, scrolled, on a phone."""


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str
    dash: Any


_KNOWN: Mapping[str, Look] = {
    BASELINE: Look(INK, "s", "-"),
    "neural_draft": Look(BLUE, "o", "-"),
    "prompt_lookup": Look(VERMILLION, "^", (0, (5, 1.6))),
    "champion_again": Look(SOFT, "x", (0, (1, 1.2))),
    "slowed_dummy": Look(PURPLE, "v", (0, (3, 1, 1, 1))),
}
_FURTHER: Sequence[Look] = (
    Look(GREEN, "D", (0, (4, 1, 1, 1, 1, 1))), Look(ORANGE, "P", (0, (2, 1))), Look(SKY, "*", (0, (6, 2))),
)  # fmt: skip
CONTROLS = frozenset({"champion_again", "slowed_dummy"})


def look(arm: str, arms: Sequence[str] = ()) -> Look:
    """The look of an arm, the same in every figure; arms beyond the known ones take the further looks in plan order."""
    if arm in _KNOWN:
        return _KNOWN[arm]
    others = [a for a in arms if a not in _KNOWN]
    return _FURTHER[(others.index(arm) if arm in others else 0) % len(_FURTHER)]


def name(text: str) -> str:
    """An arm as a reader's words. Strata keep the name that plan, tables and overrides know them by."""
    return text.replace("_", " ")


def figure(height: float, width: float = WIDTH) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def columns_for(panels: int) -> int:
    """How many small panels stand side by side."""
    return panels if panels <= 5 else 4 if panels in (7, 8) else 3 if panels == 6 else 5


def grid_of(fig: Figure, panels: int, columns: int, **shared: Any) -> list[Axes]:
    """``panels`` axes in rows of ``columns``; unused places are removed, the lowest of each column is labelled."""
    rows = -(-panels // columns)
    axes = list(fig.subplots(rows, columns, squeeze=False, **shared).ravel())
    for spare in axes[panels:]:
        spare.remove()
    for lowest in axes[max(0, panels - columns) : panels]:
        lowest.tick_params(labelbottom=True)
    return axes[:panels]


def small_multiples(panels: int) -> tuple[Figure, list[Axes]]:
    """Equal panels that share both axes, with fixed margins: nothing in them needs a layout to be searched for.

    Limits, scale and ticks are common, so set them on the first panel before anything is drawn.
    """
    columns = columns_for(panels)
    rows = -(-panels // columns)
    height = 1.5 * rows + 0.6
    fig = Figure(figsize=(WIDTH, height))
    axes = grid_of(fig, panels, columns, sharex=True, sharey=True)
    fig.subplots_adjust(
        left=0.55 / WIDTH, right=1 - 0.06 / WIDTH, bottom=0.5 / height, top=1 - 0.52 / height, wspace=0.1, hspace=0.42
    )
    return fig, axes


def label_all(fig: Figure, x: str, y: str, legend_columns: int) -> None:
    """Common axis labels and the legend in the margins of `small_multiples`."""
    _, height = fig.get_size_inches()
    fig.text(0.5, 0.08 / height, x, ha="center", va="bottom", fontsize=9)
    fig.text(0.05 / WIDTH, 0.5, y, ha="left", va="center", rotation="vertical", fontsize=9)
    fig.legend(loc="upper right", ncols=legend_columns, bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)


def variables(dark: bool) -> str:
    """CSS declarations of all colours for one scheme."""
    return " ".join(f"{variable}: {dark_value if dark else light};" for variable, light, dark_value in COLOURS.values())
