"""verdict.json: the verdict as a file, without a NaN or an infinity in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.atomic import write_bytes
from ..harness.rundir import RunDir
from .result import GateResult, Verdict

FORMAT = "draftgate-verdict/1"
EXTRAS = ("decision_card", "multiverse", "self_check", "not_shown", "deviations")


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The JSON value of a verdict; numbers that do not exist are null."""
    value = {
        "format": FORMAT,
        "verdict": verdict.verdict,
        "plan_id": verdict.plan_id,
        "exploratory": verdict.exploratory,
        "reasons": list(verdict.reasons),
        "gates": [_gate(g) for g in verdict.gates],
        **{key: verdict.extra.get(key) for key in EXTRAS},
        **{key: value for key, value in verdict.extra.items() if key not in EXTRAS},
    }
    return plain(value)  # type: ignore[no-any-return]


def _gate(gate: GateResult) -> dict[str, Any]:
    return {
        "id": gate.id,
        "status": gate.status,
        "requirement": gate.requirement,
        "reason": gate.reason,
        "estimate": gate.estimate,
        "interval": gate.interval,
        "threshold": gate.threshold,
        "unit": gate.unit,
        "n": gate.n,
        "per_stratum": gate.per_stratum,
        "details": gate.details,
    }


def plain(value: Any) -> Any:
    """JSON values only: numpy unwrapped, tuples as lists, non-finite numbers as null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, str) else str(value)


def write_verdict(run_dir: Path | str, verdict: Verdict) -> Path:
    """Writes verdict.json in one step; returns its path."""
    path = RunDir(run_dir).verdict
    text = json.dumps(as_json(verdict), indent=1, ensure_ascii=False, allow_nan=False)
    return write_bytes(path, (text + "\n").encode())
