"""Gate on break-even: a session of the declared length wins back what loading and prefilling the draft cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...harness.wording import counted
from ..breakeven import FiellerSet, amortising_share, fieller, lengths_of
from ..check import frozen
from ..evidence import BASELINE, Evidence
from ..intervals import FLOOR_PROMPTS, Estimate, estimate
from ..pairs import Paired, paired
from ..result import GateResult
from ..three_way import Claim, decide
from .speed import TimingCheck, overall_problem, residency, slowed, weighted

FEWEST_LOADS = 12


class BreakEven(TimingCheck):
    id = "break-even"
    asks = "Does a session of the declared length win back what the draft costs to load and prefill?"
    defaults = frozen({"saving_ns": 0.0})

    def evaluate(self, evidence: Evidence) -> GateResult:
        try:
            lengths = {s: lengths_of(evidence.plan, s) for s in evidence.weights()}
        except (ValueError, KeyError, TypeError) as error:
            return self.result("inconclusive", f"session lengths: {error}")
        loads = draft_loads(evidence)
        if isinstance(loads, str):
            return self.result("inconclusive", loads, unit="ns")
        weights = evidence.weights()
        sessions = {s: x.mean for s, x in lengths.items()}
        gain = session_gain(evidence, sessions)
        d = without_loads(weighted(gain, weights).overall, loads)
        claim = Claim("overall", d, float(self.params["saving_ns"]), below=False,
                      blocked=overall_problem(gain, weights, d))  # fmt: skip
        status, lines = decide([claim], evidence.alpha)
        line = lines[0]
        n_min, saving, fixed = minimum_length(evidence, loads, float(np.mean(list(sessions.values()))))
        details: dict[str, Any] = {
            "session_tokens": sessions, "saving_ns_per_token": saving, "fixed_ns": fixed, "cold_loads": loads.n,
            "n_min": None if n_min is None else {
                "estimate": n_min.estimate, "lower": n_min.lower, "upper": n_min.upper, "never": n_min.never,
                "only_never": n_min.only_never,
            },
            "amortising_share": None if n_min is None else {s: amortising_share(x, n_min) for s, x in lengths.items()},
            "residency": residency(evidence),
        }  # fmt: skip
        reason = {
            "pass": "a session of the declared length pays for the draft",
            "fail": "a session of the declared length does not pay for the draft",
        }.get(status, line.reason)
        return self.result(status, reason, estimate=line.estimate, interval=line.interval,
                           threshold=float(self.params["saving_ns"]), n=line.n, unit="ns", details=details)  # fmt: skip

    def disturb(self, evidence: Evidence) -> Evidence:
        return slowed(evidence, evidence.candidate, 4.0)


class Loads:
    """Draft loads in fresh processes: their mean and its variance. Their uncertainty comes from loads, not from
    prompts."""

    def __init__(self, load: np.ndarray[Any, Any], start: np.ndarray[Any, Any]) -> None:
        """``load`` and ``start`` (the first forward call: allocation and initialisation) in nanoseconds."""
        self.n = len(load)
        self.mean = sum(float(x.mean()) for x in (load, start) if len(x))
        self.variance = sum(float(x.var(ddof=1)) / len(x) for x in (load, start) if len(x) > 1)


def draft_loads(evidence: Evidence) -> Loads | str:
    """Cold loads of the draft; none are needed where the candidate has no draft. A sentence when there are too few."""
    if residency(evidence) == "champion":
        return Loads(np.empty(0), np.empty(0))
    found: list[float] = []
    start: list[float] = []
    for body in evidence.audits.get("cold_loads", ()):
        detail = body.get("detail") or {}
        found += _positive(_draft_values(detail))
        start += _positive(detail.get("draft_first_forward_ns") or ())
    frame = evidence.requests
    if not found and {"arm", "unit", "draft_load_ns", "entry"} <= set(frame.columns):
        cold = frame[((frame["arm"] == evidence.candidate) & (frame["entry"] == "cold")).to_numpy()]
        once = cold.drop_duplicates(["unit", *(c for c in ("segment",) if c in cold)])["draft_load_ns"].astype(float)
        found = [x for x in once if math.isfinite(x) and x > 0]
    if len(found) < FEWEST_LOADS:
        return f"{counted(len(found), 'cold load')} of the draft; the cost of loading it needs at least {FEWEST_LOADS}"
    return Loads(np.array(found), np.array(start))


def _positive(values: Iterable[Any]) -> list[float]:
    return [float(x) for x in values if isinstance(x, (int, float)) and math.isfinite(x) and x > 0]


def _draft_values(detail: Mapping[str, Any]) -> list[Any]:
    for key in ("draft_load_ns", "draft_ns", "draft"):
        if isinstance(detail.get(key), (list, tuple)):
            return list(detail[key])
    rows = detail.get("loads")
    if isinstance(rows, (list, tuple)):
        return [r.get("draft_load_ns") for r in rows if isinstance(r, Mapping)]
    return []


def _session_frame(evidence: Evidence, sessions: Mapping[str, float]) -> Evidence:
    """Requests with ``session_ns``: what a session of the stratum's length would take at this request's rate, loads
    apart."""
    frame = evidence.requests.copy()
    decode = frame["total_ns"].astype(float) - frame["prefill_ns"] - frame.get("draft_prefill_ns", 0)
    tokens = frame["new_tokens"].astype(float)
    rate = decode / tokens.where(tokens > 0)
    turns = frame.groupby(["arm", "stratum", "prompt_id", "block"], observed=True)["total_ns"].transform("size")
    frame["rate_ns"] = rate / turns
    frame["session_ns"] = (rate * frame["stratum"].map(dict(sessions)) + frame.get("draft_prefill_ns", 0)) / turns
    return evidence.replace(requests=frame)


def _gain(pairs: Paired) -> Paired:
    """Champion minus candidate, in nanoseconds, in place of log ratios."""
    return Paired({s: base - arm for s, (arm, base) in pairs.raw.items()}, pairs.clusters, pairs.problems)


def session_gain(evidence: Evidence, sessions: Mapping[str, float]) -> Paired:
    """D(M) before the loads, per cluster and block."""
    key = (evidence.candidate, BASELINE, "session_ns")
    if evidence.given:
        return (
            _gain(evidence.given[key]) if key in evidence.given else Paired({}, {}, {"": "no session costs were given"})
        )
    needed = {"total_ns", "prefill_ns", "new_tokens", "stratum"}
    if evidence.requests.empty or not needed <= set(evidence.requests.columns):
        return Paired({}, {}, {"": "requests lack decode times"})
    return _gain(paired(_session_frame(evidence, sessions), evidence.candidate, BASELINE, "session_ns"))


def without_loads(gain: Estimate, loads: Loads) -> Estimate:
    """D(M): the gain less the mean load, their variances added (Satterthwaite)."""
    if not gain.usable:
        return gain
    variance = gain.variance + loads.variance
    below = gain.variance**2 / gain.df + (loads.variance**2 / (loads.n - 1) if loads.n > 1 else 0.0)
    df = variance**2 / below if below > 0 else gain.df
    skew = gain.skew * (gain.variance / variance) ** 1.5 if variance > 0 else 0.0
    return Estimate(gain.mean - loads.mean, variance, df, skew, gain.n, gain.blocks)


def minimum_length(
    evidence: Evidence, loads: Loads, session: float
) -> tuple[FiellerSet | None, float | None, float | None]:
    """The set for N_min by inverting D, with C₁ − C̄ and F; None where the pairs give no estimate."""
    weights = evidence.weights()
    if evidence.given or evidence.requests.empty:
        return None, None, None
    common = dict.fromkeys(weights, session)
    d = without_loads(weighted(session_gain(evidence, common), weights).overall, loads)
    if not d.usable or d.n < FLOOR_PROMPTS:
        return None, None, None
    frame = _session_frame(evidence, common)
    rate = weighted(_gain(paired(frame, evidence.candidate, BASELINE, "rate_ns")), weights).overall
    if not rate.usable:
        return None, None, None
    fixed = session * rate.mean - d.mean
    prefill = _prefill(frame, weights)
    variance_fixed = prefill.variance + loads.variance if prefill.usable else loads.variance
    covariance = (session**2 * rate.variance + variance_fixed - d.variance) / (2 * session)
    found = fieller(
        rate.mean, max(0.0, fixed), rate.variance, variance_fixed, covariance, min(d.df, rate.df), evidence.alpha
    )
    return found, rate.mean, fixed


def _prefill(evidence: Evidence, weights: Mapping[str, float]) -> Estimate:
    frame = evidence.requests
    mine = frame[((frame["arm"] == evidence.candidate) & (frame["entry"] != "cold")).to_numpy()]
    if "draft_prefill_ns" not in mine or not (mine["draft_prefill_ns"] > 0).any():
        return Estimate(0.0, math.nan, math.nan, 0.0, 0, 0)
    values = {}
    for stratum, rows in mine.groupby("stratum", observed=True):
        table = rows.pivot_table(index="prompt_id", columns="block", values="draft_prefill_ns", aggfunc="mean")
        values[str(stratum)] = table.to_numpy(float)
    return estimate(values, weights).overall
