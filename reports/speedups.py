"""Speed-up of an arm over champion-alone, by stratum and overall, as the gates compute it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..gates.evidence import BASELINE
from ..gates.intervals import Estimate, estimate
from ..gates.pairs import paired
from .records import RunRecords

OVERALL = "overall"


@dataclass(frozen=True)
class Cell:
    """A speed-up with its limits (NaN where the sample gives none) and the prompt clusters behind it."""

    value: float
    low: float
    high: float
    n: int


def speed_cells(records: RunRecords, arm: str) -> Mapping[str, Cell]:
    """Geometric-mean speed-ups; strata without usable pairs are absent, and so is "overall" where one is missing."""
    pairs = paired(records.evidence, arm, BASELINE)
    if not pairs.values:
        return {}
    weights = records.evidence.weights()
    covered = all(s in pairs.values for s, w in weights.items() if w > 0)
    found = estimate(pairs.values, {s: weights.get(s, 0.0) for s in pairs.values})
    cells = dict(found.strata)
    if covered:
        cells[OVERALL] = found.overall
    return {name: _cell(e, records.evidence.alpha) for name, e in cells.items() if math.isfinite(e.mean)}


def _cell(found: Estimate, alpha: float) -> Cell:
    low, high = found.limits(alpha) if found.tells(alpha) else (math.nan, math.nan)
    return Cell(math.exp(-found.mean), math.exp(-high), math.exp(-low), found.n)
