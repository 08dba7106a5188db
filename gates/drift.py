"""Drift: whether the log ratio moves over the run, and whether the place in the order of arms matters."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from .evidence import BASELINE, warm
from .intervals import Estimate

NO_EFFECTS = pd.DataFrame(columns=["arm", "order", "effect", "n"])
Array = npt.NDArray[np.float64]


def drift(values: Mapping[str, Array], weights: Mapping[str, float]) -> Estimate:
    """Weighted mean over strata of the change of y from first to last block, a straight line through the block means.

    ``values``: y [clusters, blocks] by stratum. Variance from the block means' scatter about their lines, pooled over
    strata (three blocks or more), else from the scatter of the strata's slopes. NaN variance when neither exists.
    """
    slopes, squares, shares, residual, df = [], [], [], 0.0, 0
    for stratum, y in values.items():
        w = weights.get(stratum, 0.0)
        if w <= 0 or y.ndim != 2 or y.shape[1] < 2 or not len(y):
            continue
        own = y - np.nanmean(y, axis=1)[:, None]
        block = np.nanmean(own, axis=0)
        t = np.arange(len(block)) - (len(block) - 1) / 2
        slope = float(t @ block) / float(t @ t)
        slopes.append(slope * (len(block) - 1))
        squares.append((len(block) - 1) ** 2 / float(t @ t))
        shares.append(w)
        residual += float(((block - block.mean() - slope * t) ** 2).sum())
        df += len(block) - 2
    blocks = min((y.shape[1] for y in values.values() if y.ndim == 2), default=0)
    n = sum(len(y) for y in values.values())
    if not slopes:
        return Estimate(math.nan, math.nan, math.nan, 0.0, n, blocks)
    share = np.array(shares) / sum(shares)
    mean = float(share @ np.array(slopes))
    if df > 0:
        variance = residual / df * float((share**2) @ np.array(squares))
    elif len(slopes) > 1:
        df = len(slopes) - 1
        variance = float(np.var(slopes, ddof=1)) * float((share**2).sum())
    else:
        variance = math.nan
    return Estimate(mean, variance, float(df), 0.0, n, blocks)


def order_effects(requests: pd.DataFrame, column: str = "total_ns") -> pd.DataFrame:
    """Mean log time by arm and place in the order of arms, less the arm's mean for the same prompts: arm, order,
    effect, n.

    Reported, never gated: the design balances order. Empty when the table does not know the order.
    """
    needed = {"arm", "order", "stratum", "prompt_id", column}
    if requests.empty or not needed <= set(requests.columns):
        return NO_EFFECTS
    rows = warm(requests)
    time = pd.to_numeric(rows[column], errors="coerce")
    y = np.log(time.where(time > 0))
    own = y - y.groupby([rows["arm"], rows["stratum"], rows["prompt_id"]], observed=True).transform("mean")
    grouped = own.groupby([rows["arm"], rows["order"]], observed=True)
    table: pd.DataFrame = grouped.agg(["mean", "count"]).reset_index()
    table.columns = pd.Index(["arm", "order", "effect", "n"])
    return table


def same_model_arms(arms: list[Mapping[str, object]]) -> tuple[str | None, tuple[str, float] | None]:
    """The A/A arm, and the slowed dummy with its known slowdown, among a plan's arms."""
    again, dummy = None, None
    for arm in arms:
        if arm.get("kind") != BASELINE or arm.get("name") == BASELINE:
            continue
        slowdown = arm.get("slowdown")
        if isinstance(slowdown, (int, float)) and slowdown:
            dummy = (str(arm["name"]), float(slowdown))
        else:
            again = str(arm["name"])
    return again, dummy
