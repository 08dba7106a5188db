"""One cell of a calibration table: a truth, a method, and how often it was wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

FAMILY_LEVEL = 0.05
"""A whole table of cells that all keep their limit is flagged at most this often, by simulation noise."""


@dataclass(frozen=True)
class Cell:
    table: str
    truth: str
    """The simulated world in words."""
    method: str
    """"ours", or the name of a naive method shown beside it."""
    quantity: str
    rate: float
    """Observed frequency, or a mean where the quantity says so."""
    n: int
    """Replicates."""
    limit: float | None = None
    """What our method claims not to exceed here; None where nothing is claimed."""

    @property
    def standard_error(self) -> float:
        p = min(max(self.rate, 0.0), 1.0)
        return float(np.sqrt(max(p * (1 - p), 1 / self.n) / self.n))


def bound(cell: Cell, cells: int) -> float | None:
    """Largest frequency that simulation noise explains when the truth is the limit, over ``cells`` cells at once."""
    if cell.limit is None:
        return None
    return float(stats.binom.ppf(1 - FAMILY_LEVEL / max(1, cells), cell.n, cell.limit)) / cell.n


def rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """JSON rows, each with its familywise bound and whether it holds."""
    listed = list(cells)
    claimed = sum(c.limit is not None for c in listed)
    out = []
    for cell in listed:
        most = bound(cell, claimed)
        out.append({
            **asdict(cell), "rate": round(cell.rate, 5), "standard_error": round(cell.standard_error, 5),
            "bound": None if most is None else round(most, 5), "holds": None if most is None else bool(cell.rate <=
            most),
        })  # fmt: skip
    return out
