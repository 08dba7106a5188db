"""How it feels to read along: time to the first token, time a token, and the gaps between bursts, by stratum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..gates.evidence import BASELINE
from ..gates.pairs import paired
from ..gates.performance import burst_gaps, per_token, quantile_ratios
from .numbers import NONE
from .records import RunRecords


@dataclass(frozen=True)
class PaceRow:
    """One stratum; pairs read champion-alone → candidate."""

    stratum: str
    first_token: str
    per_token: str
    tokens_per_s: str
    ratios: str
    """Candidate's quantile of the total time over champion-alone's: 5 %, 50 %, 95 %."""
    gap: str
    """95th percentile of the time between two bursts of the candidate's tokens."""


def pace_rows(records: RunRecords) -> list[PaceRow]:
    """A row a stratum that has times; empty where none has."""
    told = {(str(r["arm"]), str(r["stratum"])): r for r in per_token(records.evidence).to_dict("records")}
    gaps = {str(r["stratum"]): float(r["p95_ms"]) for r in _bursts(records)}
    quantiles = quantile_ratios(paired(records.evidence, records.candidate), (0.05, 0.5, 0.95))
    ratios: dict[str, list[float]] = {}
    for line in quantiles.to_dict("records"):
        ratios.setdefault(str(line["stratum"]), []).append(float(line["ratio"]))
    rows = []
    for stratum in records.strata:
        both = [told.get((arm, stratum), {}) for arm in (BASELINE, records.candidate)]
        if any(both):
            rows.append(
                PaceRow(
                    stratum,
                    _pair(both, "ttft_ms", "ms"),
                    _pair(both, "tpot_ms", "ms"),
                    _pair(both, "tokens_per_s", ""),
                    " · ".join(f"{x:.3g}" for x in ratios.get(stratum, ())) or NONE,
                    f"{gaps[stratum]:.3g} ms" if stratum in gaps else NONE,
                )
            )
    return rows


def _bursts(records: RunRecords) -> Sequence[Mapping[Any, Any]]:
    return burst_gaps(records.table("rounds"), records.candidate).to_dict("records")


def _pair(both: Sequence[Mapping[Any, Any]], column: str, unit: str) -> str:
    said = [f"{one[column]:.3g}" if one and math.isfinite(one[column]) else NONE for one in both]
    return f"{said[0]} → {said[1]} {unit}".strip()
