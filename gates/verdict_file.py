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
from ..harness.set_aside import set_aside
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
    """What was there decides otherwise (verdict or the status of a gate), or is not what the ledger binds."""


def store_verdict(run_dir: Path | str, verdict: Verdict) -> Stored:
    """Writes verdict.json, but never over a verdict that is not this version's to change.

    What says the same stays as it is, byte for byte. A verdict by another version of the package, or one that the
    ledger binds by hash, is kept where it differs, and this one goes beside it. A file that is no verdict, or one that
    was edited, is replaced; what it said is kept under another name and told.
    """
    path, value = RunDir(run_dir).verdict, as_json(verdict)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Stored(write_verdict(run_dir, verdict))
    there = _verdict_on(raw, str(value["plan_id"]))
    if there is not None and {**there, "computed_by": None} == {**value, "computed_by": None}:
        return Stored(path)
    bound = bound_digest(run_dir)
    if bound is not None and hashlib.sha256(raw).hexdigest() != bound:
        return _replaced(run_dir, verdict, "is not the one that the ledger binds: it was edited or damaged", True)
    if there is None:
        return _replaced(run_dir, verdict, "is no verdict on this plan", False)
    other, whose = _decisions(there) != _decisions(value), there.get("computed_by")
    if bound is None and whose == value["computed_by"]:
        why = (
            f"says {there.get('verdict')} where these records give {value['verdict']}" if other else "says other words"
        )
        return _replaced(run_dir, verdict, why, other)
    beside = write_bytes(path.with_name(BESIDE), _bytes(value))
    by = (
        f"draftgate {whose.get('package_version')}, {whose.get('analysis_version')}"
        if isinstance(whose, dict)
        else "a version that does not name itself"
    )
    what = f"it says {there.get('verdict')}, these gates say {value['verdict']}" if other else "it decides the same"
    return Stored(beside, f"{path.name} (by {by}) is kept: {what}; this verdict lies beside it in {BESIDE}", other)


def bound_digest(run_dir: Path | str) -> str | None:
    """The sha256 of verdict.json that the ledger holds last; None where it binds none."""
    said = [r.body.get("sha256") for r in read_ledger(RunDir(run_dir).path).records.of_kind("verdict")]
    return str(said[-1]) if said else None


def _verdict_on(raw: bytes, plan_id: str) -> dict[str, Any] | None:
    """The value of a verdict file on this plan; None for anything else."""
    try:
        there = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(there, dict) and isinstance(there.get("gates"), list) and there.get("plan_id") == plan_id
    return there if fits else None


def _replaced(run_dir: Path | str, verdict: Verdict, why: str, contradicts: bool) -> Stored:
    path = RunDir(run_dir).verdict
    kept = set_aside(path)
    note = f"{path} {why}; this verdict replaces it, and what was there is kept in {kept.name}"
    return Stored(write_verdict(run_dir, verdict), note, contradicts)


def _decisions(value: Mapping[str, Any]) -> Any:
    gates = [g for g in value["gates"] if isinstance(g, Mapping)]
    return value.get("verdict"), sorted((str(g.get("id")), str(g.get("status"))) for g in gates)
