"""A small finished run on which every default gate passes, in memory and on disk, to be spoiled by tests."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from draftgate.gates.calibration.simulate import Truth, World, plan_of, simulate
from draftgate.gates.evidence import Evidence
from draftgate.gates.registry import default_gates
from draftgate.harness.canonical import canonical_bytes, digest
from draftgate.harness.tables import TABLES, build

CONTROL = {"prompt_sd": 0.0, "noise_sd": 0.01, "block_sd": 0.002}
ARMS: Mapping[str, Truth] = {
    "prompt_lookup": Truth(mean=-math.log(1.4), prompt_sd=0.05, noise_sd=0.01, block_sd=0.002),
    "champion_again": Truth(**CONTROL),
    "slowed_dummy": Truth(mean=math.log(1.05), **CONTROL),
}


def good_world(strata: Sequence[str] = ("a", "b", "c", "d"), prompts: int = 40, **changes: Any) -> World:
    return World(strata=tuple(strata), prompts=prompts, arms=ARMS, designated=("a",), **changes)


def good_evidence(seed: int = 1, **changes: Any) -> Evidence:
    """A GO: four strata of 40 prompts, three blocks, prompt lookup 1.4 times as fast."""
    return simulate(good_world(**changes), np.random.default_rng(seed))


def stochastic_evidence(seed: int = 1, tokens: int = 60_000, shift: float = 0.0) -> Evidence:
    """The same with sampling: champion arms forced, scores by the exact law (or shifted from it)."""
    evidence = good_evidence(seed, plan={"decoding": {"temperature": 0.7}})
    rng = np.random.default_rng(seed)
    mass = rng.beta(2, 3, size=tokens)
    scores = pd.DataFrame({
        "arm": "prompt_lookup", "stratum": "a", "prompt_id": np.arange(tokens) // 200, "excess_mass": mass,
        "in_excess": rng.random(tokens) < np.minimum(1, mass + shift), "pit_ratio": rng.random(tokens),
        "pit_id": rng.random(tokens), "tv": 0.2,
    })  # fmt: skip
    requests = evidence.requests.assign(forced=evidence.requests["arm"] != "prompt_lookup")
    return evidence.replace(scores=scores, requests=requests)


def with_gates(evidence: Evidence, *ids: str) -> Evidence:
    """The same run under a plan that asks only these gates."""
    asked = [g for g in default_gates() if g["id"] in ids]
    return evidence.replace(plan={**evidence.plan, "gates": asked})


def write_run(root: Path, evidence: Evidence, *, close: bool = True) -> Path:
    """A run directory with the plan, the tables and a chained ledger of ``evidence``."""
    root.mkdir(parents=True, exist_ok=True)
    raw = canonical_bytes(dict(evidence.plan))
    (root / "plan.json").write_bytes(raw)
    plan_id = digest(raw)
    (root / "results").mkdir(exist_ok=True)
    import pyarrow.parquet as pq

    records: list[tuple[str, dict[str, Any]]] = [
        (
            "plan",
            {
                "format": "draftgate-ledger/1",
                "plan_id": plan_id,
                "attempt": 1,
                "environment": dict(evidence.environment),
            },
        )
    ]
    records += [("audit", dict(body)) for bodies in evidence.audits.values() for body in bodies]
    records += [("canary", dict(body)) for body in evidence.canaries]
    records += [("deviation", dict(body)) for body in evidence.deviations]
    for name in TABLES:
        frame = getattr(evidence, name, pd.DataFrame())
        path = root / "results" / f"{name}.parquet"
        pq.write_table(build(name, _rows(name, frame), plan_id), path)
        records.append(("table", {"name": name, "sha256": sha256(path.read_bytes()).hexdigest()}))
    if close:
        records.append(("close", {"requests": len(evidence.requests)}))
    prev, lines = "0" * 64, []
    for seq, (kind, body) in enumerate(records):
        line = json.dumps({"seq": seq, "prev": prev, "kind": kind, "body": body}, separators=(",", ":")).encode()
        prev = sha256(line).hexdigest()
        lines.append(line + b"\n")
    (root / "ledger.jsonl").write_bytes(b"".join(lines))
    return root


def _rows(name: str, frame: pd.DataFrame) -> list[dict[str, Any]]:
    empty = {"string": "", "int64": 0, "double": 0.0, "bool": False}
    columns = TABLES[name]
    listed = frame.to_dict("records")
    return [
        {c.name: row.get(c.name, None if c.nullable else empty.get(str(c.type), [])) for c in columns} for row in listed
    ]


def bind(run: Path) -> None:
    """A last record of the ledger that binds verdict.json, as a run leaves it."""
    lines = (run / "ledger.jsonl").read_bytes().splitlines()
    sha = sha256((run / "verdict.json").read_bytes()).hexdigest()
    record = {"seq": len(lines), "prev": sha256(lines[-1]).hexdigest(), "kind": "verdict"}
    body = {"verdict": "GO", "sha256": sha}
    lines.append(json.dumps({**record, "body": body}, separators=(",", ":")).encode())
    (run / "ledger.jsonl").write_bytes(b"\n".join(lines) + b"\n")


__all__ = [
    "ARMS",
    "Truth",
    "World",
    "bind",
    "good_evidence",
    "good_world",
    "plan_of",
    "stochastic_evidence",
    "with_gates",
    "write_run",
]
