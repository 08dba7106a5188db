"""Gates on what the candidate costs to keep around: peak resident memory, and energy where the machine tells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from ...harness.wording import counted
from ..check import Check, frozen
from ..evidence import BASELINE, Evidence
from ..pairs import paired
from ..result import GateResult
from ..three_way import Claim, decide
from .speed import OVERALL, TimingCheck, overall_problem, residency, slowed, weighted


class Memory(Check):
    id = "memory"
    asks = "Does the peak resident memory stay inside the envelope, and near champion-alone's?"
    defaults = frozen({"ratio": 1.25, "runs": 5})
    thresholds = ("ratio",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        envelope = evidence.plan.get("memory_envelope_bytes")
        peaks = {arm: process_peaks(evidence.memory, arm) for arm in (evidence.candidate, BASELINE)}
        for arm, found in peaks.items():
            if isinstance(found, str):
                return self.result("inconclusive" if len(evidence.memory) else "not-measured", found, unit="bytes")
            if len(found) < int(self.params["runs"]):
                fresh, least = counted(len(found), "fresh process", "fresh processes"), int(self.params["runs"])
                reason = f"{fresh} of {arm}; the worst of at least {least} is asked for"
                return self.result("inconclusive", reason, n=len(found), unit="bytes")
        mine, base = (float(np.max(peaks[arm])) for arm in (evidence.candidate, BASELINE))
        ratio, most = mine / base, float(self.params["ratio"])
        details: dict[str, Any] = {
            "envelope_bytes": envelope, "champion_alone_bytes": base, "ratio": ratio, "ratio_threshold": most,
            "residency": residency(evidence),
        }  # fmt: skip
        limit = min(most * base, float(envelope)) if envelope else most * base
        common: dict[str, Any] = {"estimate": mine, "threshold": limit, "n": len(peaks[evidence.candidate]), "unit":
        "bytes",
                                  "details": details}  # fmt: skip
        if envelope and mine > float(envelope):
            return self.result("fail", f"the peak of {mine / 2**20:.0f} MiB is beyond the envelope", **common)
        if ratio > most:
            return self.result("fail", f"the peak is {ratio:.2f} times champion-alone's; {most:g} is allowed", **common)
        inside = "inside the envelope, " if envelope else ""
        return self.result("pass", f"the worst peak is {inside}{ratio:.2f} times champion-alone's", **common)

    def disturb(self, evidence: Evidence) -> Evidence:
        frame = evidence.memory.copy()
        peak = frame["peak_resident_bytes"]
        return evidence.replace(
            memory=frame.assign(peak_resident_bytes=peak.where(frame["arm"] != evidence.candidate, peak * 10))
        )


def process_peaks(memory: pd.DataFrame, arm: str) -> np.ndarray[Any, Any] | str:
    """Kernel high-water mark of each fresh process of an arm; a sentence when there is none that counts."""
    if memory.empty or not {"arm", "unit", "peak_resident_bytes"} <= set(memory.columns):
        return "no memory timeline was recorded"
    mine = memory[(memory["arm"] == arm).to_numpy()]
    if mine.empty:
        return f"no memory timeline of {arm}"
    values = pd.to_numeric(mine["peak_resident_bytes"], errors="coerce").to_numpy(float)
    if not np.isfinite(values).all() or (values <= 0).any():
        return f"{int((~np.isfinite(values) | (values <= 0)).sum())} memory samples of {arm} are not positive numbers"
    return pd.Series(values).groupby(mine["unit"].to_numpy()).max().to_numpy(float)


class Energy(TimingCheck):
    id = "energy"
    asks = "Does a token cost no more energy?"
    defaults = frozen({"ratio": 1.02})
    thresholds = ("ratio",)
    default_requirement = "if-available"
    column = "energy_uj"

    def evaluate(self, evidence: Evidence) -> GateResult:
        frame, ratio = evidence.requests, float(self.params["ratio"])
        read = pd.to_numeric(frame[self.column], errors="coerce") if self.column in frame else pd.Series(dtype=float)
        if read.dropna().empty:
            return self.result("not-measured", "this machine does not tell its energy", threshold=ratio, unit="ratio")
        pairs, weights = paired(evidence, evidence.candidate, BASELINE, self.column, per_token=True), evidence.weights()
        found = weighted(pairs, weights).overall
        claim = Claim(OVERALL, found, math.log(ratio), show=math.exp, blocked=overall_problem(pairs, weights, found))
        status, lines = decide([claim], evidence.alpha)
        reason = {"pass": f"energy per token rises by at most {ratio - 1:.0%}",
                  "fail": f"energy per token rises by more than {ratio - 1:.0%}"}.get(
            status, lines[0].reason)  # fmt: skip
        return self.result(status, reason, estimate=lines[0].estimate, interval=lines[0].interval, threshold=ratio,
                           n=found.n, unit="ratio")  # fmt: skip

    def disturb(self, evidence: Evidence) -> Evidence:
        return slowed(evidence, evidence.candidate, 4.0, self.column)
