"""verdict.json: the verdict as a file, without a NaN or an infinity in it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.atomic import write_bytes
from ..harness.formats import ANALYSIS_VERSION
from ..harness.identity import package_version
from ..harness.ledger import read_ledger
from ..harness.rundir import RunDir
from .result import GateResult, Verdict

FORMAT = "draftgate-verdict/1"
BESIDE = "verdict.rejudged.json"
EXTRAS = ("decision_card", "multiverse", "self_check", "not_shown", "deviations")


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The JSON value of a verdict; numbers that do not exist are null."""
    value = {
        "format": FORMAT,
        "verdict": verdict.verdict,
        "plan_id": verdict.plan_id,
        "exploratory": verdict.exploratory,
        "computed_by": computed_by(),
        "reasons": list(verdict.reasons),
        "gates": [_gate(g) for g in verdict.gates],
        **{key: verdict.extra.get(key) for key in EXTRAS},
        **{key: value for key, value in verdict.extra.items() if key not in EXTRAS},
    }
    return plain(value)  # type: ignore[no-any-return]


def computed_by() -> dict[str, str]:
    """The package and the version of the analysis that judge here."""
    return {"package_version": package_version(), "analysis_version": ANALYSIS_VERSION}


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
    return write_bytes(RunDir(run_dir).verdict, _bytes(as_json(verdict)))


def _bytes(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


@dataclass(frozen=True)
class Stored:
    """Where a verdict now lies, and what is to be said about the one that was there."""

    path: Path
    note: str = ""
    contradicts: bool = False
    """The kept verdict.json decides otherwise: verdict or the status of a gate."""


def store_verdict(run_dir: Path | str, verdict: Verdict) -> Stored:
    """Writes verdict.json, but never over a verdict that is not this version's to change.

    What says the same stays as it is, byte for byte. A verdict by another version of the package, or one that the
    ledger binds by hash, is kept where it differs, and this one goes beside it. A file that is no verdict, or one that
    was edited since the ledger bound it, is replaced.
    """
    path, value = RunDir(run_dir).verdict, as_json(verdict)
    try:
        raw = path.read_bytes()
        there = json.loads(raw)
    except (OSError, ValueError, RecursionError):
        return Stored(write_verdict(run_dir, verdict))
    if (
        not isinstance(there, dict)
        or not isinstance(there.get("gates"), list)
        or there.get("plan_id") != value["plan_id"]
    ):
        return Stored(write_verdict(run_dir, verdict), f"{path.name} was no verdict on this plan; it is replaced")
    if {**there, "computed_by": None} == {**value, "computed_by": None}:
        return Stored(path)
    bound = [r.body.get("sha256") for r in read_ledger(RunDir(run_dir).path).records.of_kind("verdict")]
    whose = there.get("computed_by")
    if bound and hashlib.sha256(raw).hexdigest() != bound[-1]:
        return Stored(write_verdict(run_dir, verdict), f"{path.name} was not the one the ledger binds; it is replaced")
    if not bound and whose == value["computed_by"]:
        return Stored(write_verdict(run_dir, verdict))
    beside = write_bytes(path.with_name(BESIDE), _bytes(value))
    by = (
        f"draftgate {whose.get('package_version')}, {whose.get('analysis_version')}"
        if isinstance(whose, dict)
        else "a version that does not name itself"
    )
    other = _decisions(there) != _decisions(value)
    what = f"it says {there.get('verdict')}, these gates say {value['verdict']}" if other else "it decides the same"
    return Stored(beside, f"{path.name} (by {by}) is kept: {what}; this verdict lies beside it in {BESIDE}", other)


def _decisions(value: Mapping[str, Any]) -> Any:
    gates = [g for g in value["gates"] if isinstance(g, Mapping)]
    return value.get("verdict"), sorted((str(g.get("id")), str(g.get("status"))) for g in gates)
