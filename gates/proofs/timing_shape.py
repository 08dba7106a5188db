"""The shape of a round's time: what must not grow with the context, and what must stay small beside the models.

Output says nothing about a rollback that copies the whole cache or a fixed cost added to every block. Both show in the
phases of the rounds: rollback time against context length, and the share spent outside the two forward passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from .finding import Finding

LEAST_ROUNDS = 30
GROWTH = 0.02
"""Rollback may grow, from the 10th to the 90th percentile of context, by this share of a median verification."""
OVERHEAD = 0.5
"""Median share of a round outside both models: the aim is 0.15, and half of it is a block that pays for something
else."""


def check_timing_shape(
    rounds: Iterable[Mapping[str, Any]], growth: float = GROWTH, overhead: float = OVERHEAD
) -> Finding:
    """Rounds of one arm that proposed something: rows of the `rounds` table.

    Theil–Sen slope of rollback on context, with Kendall's test, so that single outliers say nothing.
    """
    rows = [r for r in rounds if int(r["proposed"]) > 0 and int(r["total_ns"]) > 0]
    detail: dict[str, Any] = {"bounds": {"growth": growth, "overhead": overhead}}
    if len(rows) < LEAST_ROUNDS:
        reason = f"{len(rows)} rounds are too few to tell a shape"
        return Finding("timing_shape", True, max(1, len(rows)), "rounds", {**detail, "reason": reason, "judged": False})
    context, rollback, verify, draft, total = (
        np.array([float(r[name]) for r in rows])
        for name in ("context_tokens", "rollback_ns", "verify_ns", "draft_ns", "total_ns")
    )
    detail["judged"] = True
    problems = []
    low, high = (float(x) for x in np.percentile(context, [10, 90]))
    slope, trend = 0.0, 1.0
    if high > low:
        slope = float(stats.theilslopes(rollback[:2000], context[:2000]).slope)
        trend = float(stats.kendalltau(context, rollback).pvalue)
    grown = float(slope * (high - low) / np.median(verify))
    if grown > growth and trend < 1e-4:
        problems.append(
            f"rollback grows with the context, by {grown:.1%} of a verification over {high - low:.0f} tokens"
        )
    share = float(np.median((total - verify - draft) / total))
    if share > overhead:
        problems.append(f"{share:.0%} of a round is spent outside both models")
    detail |= {"rollback_growth": grown, "trend_p": trend, "overhead_share": share}
    if problems:
        detail["reason"] = "; ".join(problems)
    return Finding("timing_shape", not problems, len(rows), "rounds", detail)
