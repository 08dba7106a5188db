"""The cost model: what a round costs by proposal length and context, what a token then costs, and which k is best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from .evidence import BASELINE, warm

Array = npt.NDArray[np.float64]
PHASES = ("draft_ns", "verify_ns", "sample_ns", "rollback_ns", "other_ns")
CONTEXT_EDGES = (256, 1024)
OUTCOME_COLUMNS = ["arm", "k", "outcome", "rounds", "sample_ns", "rollback_ns"]
NO_OUTCOMES = pd.DataFrame(columns=OUTCOME_COLUMNS)
FEWEST_ROUNDS = 30
"""A proposal length seen in fewer rounds has no cost of its own."""


@dataclass(frozen=True)
class CostTable:
    """Mean nanoseconds by proposal length and context class; champion-alone's per token beside it."""

    table: pd.DataFrame
    """arm, context ("0-255", …, "*"), k, rounds, the phases, total_ns; ``k`` 0 is a champion step."""
    champion_ns: float
    """C₁: champion-alone's decode nanoseconds per token, prefill excluded; NaN when it did not run."""
    outcomes: pd.DataFrame = field(default_factory=lambda: NO_OUTCOMES)
    """arm, k, outcome, rounds, sample_ns, rollback_ns: what a correction, a full acceptance, a stop costs apart."""


def cost_table(rounds: pd.DataFrame, requests: pd.DataFrame, edges: Sequence[int] = CONTEXT_EDGES) -> CostTable:
    """Means per arm, context class and k, from traces. Empty rounds give an empty table, never a zero cost."""
    columns = ["arm", "context", "k", "rounds", *PHASES, "total_ns"]
    if rounds.empty or not {"arm", "proposed", *PHASES} <= set(rounds.columns):
        return CostTable(pd.DataFrame(columns=columns), champion_cost(requests))
    context = rounds["context_tokens"].to_numpy() if "context_tokens" in rounds else np.zeros(len(rounds))
    work = rounds[list(PHASES)].astype(float)
    work = work.assign(
        total_ns=rounds["total_ns"].astype(float) if "total_ns" in rounds else work.sum(axis=1),
        arm=rounds["arm"].to_numpy(object),
        k=rounds["proposed"].to_numpy(int),
        context=np.array(labels(edges), object)[np.searchsorted(np.asarray(edges), context, side="right")],
    )
    outcomes = NO_OUTCOMES
    if "outcome" in rounds:
        by = work.assign(outcome=rounds["outcome"].to_numpy(object)).groupby(["arm", "k", "outcome"], sort=True)
        outcomes = by[["sample_ns", "rollback_ns"]].mean().assign(rounds=by.size()).reset_index()[OUTCOME_COLUMNS]
    work = pd.concat([work, work.assign(context="*")], ignore_index=True)
    grouped = work.groupby(["arm", "context", "k"], sort=True)
    table = grouped[[*PHASES, "total_ns"]].mean().assign(rounds=grouped.size()).reset_index()
    return CostTable(table[columns], champion_cost(requests), outcomes)


def labels(edges: Sequence[int]) -> list[str]:
    """Names of the context classes between ``edges``."""
    low = [0, *edges]
    return [f"{a}-{b - 1}" for a, b in zip(low, edges, strict=False)] + [f"{low[-1]}+"]


def champion_cost(requests: pd.DataFrame, arm: str = BASELINE) -> float:
    """C₁ = Σ (total − prefill) / Σ tokens over warm requests; NaN without any."""
    if requests.empty or not {"arm", "total_ns", "prefill_ns", "new_tokens"} <= set(requests.columns):
        return math.nan
    mine = warm(requests[(requests["arm"] == arm).to_numpy()])
    tokens = float(mine["new_tokens"].sum())
    return float((mine["total_ns"] - mine["prefill_ns"]).sum()) / tokens if tokens > 0 else math.nan


@dataclass(frozen=True)
class Prediction:
    """Per-token cost by proposal length, predicted from the round costs measured at that k and fixed-k survival."""

    k: npt.NDArray[np.int64]
    round_ns: Array
    """E[C_round(k)]; NaN where k was not measured often enough: never extrapolated."""
    tokens: Array
    """E[G(k)] = 1 + Σ_{i≤k} S_i."""
    per_token_ns: Array
    champion_ns: float

    @property
    def best(self) -> int | None:
        """The measured k of the lowest cost per token, 0 (do not speculate) when none is below C₁; None when
        unknown."""
        known = np.isfinite(self.per_token_ns)
        if not known.any() or not math.isfinite(self.champion_ns):
            return None
        at = int(np.nanargmin(self.per_token_ns))
        return int(self.k[at]) if self.per_token_ns[at] < self.champion_ns else 0


def predict(costs: CostTable, survival_by_position: Sequence[float], arm: str, context: str = "*") -> Prediction:
    """C̄(k) for k = 1 … K from fixed-k survival S_1 … S_K and the measured round costs.

    A round that proposed k costs what rounds of that k did, rejections, corrections and rollbacks in the mixture seen.
    """
    s = np.asarray(survival_by_position, float)
    k = np.arange(1, len(s) + 1)
    table = costs.table
    mine = table[(table["arm"] == arm) & (table["context"] == context) & (table["rounds"] >= FEWEST_ROUNDS)]
    by_k: Mapping[int, float] = dict(zip(mine["k"].astype(int), mine["total_ns"].astype(float), strict=True))
    round_ns = np.array([by_k.get(int(i), math.nan) for i in k])
    tokens = 1 + np.cumsum(s)
    return Prediction(k, round_ns, tokens, round_ns / tokens, costs.champion_ns)


def predicted_and_measured(rounds: pd.DataFrame, requests: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Per stratum: cost per token by the model C̄ = E[C_round] / (1 + Σ Q_i), and as measured end to end (prefill out).

    They part by what rounds do not hold (tokens cut at the end of a request, time between rounds).
    """
    lines = []
    strata = sorted(set(requests["stratum"])) if "stratum" in requests else []
    for name in strata:
        traced = warm(rounds[((rounds["arm"] == arm) & (rounds["stratum"] == name)).to_numpy()])
        asked = warm(requests[((requests["arm"] == arm) & (requests["stratum"] == name)).to_numpy()])
        base = requests[((requests["arm"] == BASELINE) & (requests["stratum"] == name)).to_numpy()]
        predicted = measured = math.nan
        if len(traced) and "total_ns" in traced:
            predicted = float(traced["total_ns"].mean()) / (1 + float(traced["accepted"].mean()))
        tokens = float(asked["new_tokens"].sum()) if len(asked) else 0.0
        if tokens > 0:
            spent = asked["total_ns"] - asked["prefill_ns"] - asked.get("draft_prefill_ns", 0)
            measured = float(spent.sum()) / tokens
        champion = champion_cost(base)
        lines.append({"stratum": name, "predicted_ns": predicted, "measured_ns": measured, "champion_ns": champion,
                      "predicted_ratio": predicted / champion, "measured_ratio": measured / champion})  # fmt: skip
    return pd.DataFrame(lines)
