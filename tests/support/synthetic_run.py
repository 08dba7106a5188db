"""Builds a run directory with plausible made-up data, so that reports can be tested without a model.

The numbers are drawn from a seed; nothing here is a measurement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import rfc8785
from draftgate.gates.result import GateResult, Verdict, combine
from draftgate.harness import tables
from draftgate.harness.rundir import RunDir

STRATA = (
    "casual_chat", "ambiguous", "source_conflict", "current_preference", "memory_distrust", "summaries", "rewrites",
    "structured_json", "extraction", "code", "repetitive", "multilingual", "long_context", "adversarial",
)  # fmt: skip
DESIGNATED = ("casual_chat", "summaries", "structured_json", "code")
ACCEPTANCE = dict(
    zip(STRATA, (0.62, 0.60, 0.57, 0.58, 0.55, 0.66, 0.74, 0.81, 0.84, 0.70, 0.95, 0.46, 0.61, 0.22), strict=True)
)
SPEED = {"champion_alone": 1.0, "champion_again": 1.0, "slowed_dummy": 1.05}
GATES = (
    "identity", "complete", "exact-greedy", "exact-law", "logit-conformance", "control", "speedup", "no-regression",
    "tail", "ttft", "break-even", "beats-lookup", "liveness", "memory", "energy", "reliability", "deletion", "privacy",
    "provenance", "quality",
)  # fmt: skip
_REQUIREMENTS = {"energy": "if-available", "exact-law": "not-applicable"}
MIB = 2**20


@dataclass
class SyntheticRun:
    path: Path
    plan: dict[str, Any]
    plan_id: str
    verdict: Verdict
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def hexdigest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make_plan(
    strata: Sequence[str], prompts: int, blocks: int, tokens: int, arms: Sequence[str], candidate: str
) -> dict[str, Any]:
    def model(name: str, size: int) -> dict[str, Any]:
        return {
            "name": name, "sha256": hexdigest(name), "bytes": size,
            "tokenizer": {"vocabulary": hexdigest("vocabulary")},
            "tokenizer_sha256": hexdigest("tokenizer"), "template_sha256": hexdigest("template"), "context_limit": 8192,
            "position_policy": "rope", "licence": "Apache-2.0",
        }  # fmt: skip

    arm_entries: list[dict[str, Any]] = []
    for name in arms:
        entry: dict[str, Any] = {
            "name": name,
            "kind": name if name in ("prompt_lookup", "neural_draft") else "champion_alone",
        }
        if entry["kind"] != "champion_alone":
            entry["k"] = 4
        if name == "slowed_dummy":
            entry["slowdown"] = 0.05
        arm_entries.append(entry)
    designated = [s for s in strata if s in DESIGNATED] or list(strata[:1])
    return {
        "format": "draftgate-plan/1", "name": "synthetic", "title": "A made-up plan for tests of reports",
        "package_version": "0.1.0",
        "source_digest": hexdigest("source"), "analysis_version": "gates/1", "seed": "0123456789abcdef", "parent": None,
        "hypotheses": ["The draft makes answers at least 15 % faster without changing them."],
        "outcomes": ["end-to-end time per request"], "exclusions": [{"rule": "steal", "limit": 20}],
        "stopping": {"rule": "fixed"}, "sample_size": {"prompts_per_stratum": prompts, "reason": "a test"}, "seen": [],
        "alpha": 0.025, "attempts_budget": 1, "champion": model("toy-champion", 98 * MIB),
        "draft": {**model("toy-draft", 12 * MIB),
        "receipt_sha256": hexdigest("receipt")} if "neural_draft" in arms else None,
        "candidate": candidate, "arms": arm_entries,
        "decoding": {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0,
        "repetition_penalty": 1.0,
                     "frequency_penalty": 0.0, "presence_penalty": 0.0, "logit_bias": {}, "suppress": [],
                     "bad_words": [],
                     "min_new_tokens": 0, "grammar": None, "stop_strings": []},
        "stop_token_ids": [2],
        "strata": [
            {"name": s, "weight": 1 / len(strata), "designated": s in designated, "source": "made for tests",
            "file_sha256": hexdigest(s),
             "prompts": [{"id": f"{s}-{i:02d}", "family_id": f"{s}-{i:02d}", "prompt_tokens": 40,
             "ids_sha256": hexdigest(f"{s}{i}"),
                          "split": "open" if i % 4 else "reserve", "turns": 1} for i in range(prompts)]}
            for s in strata
        ],
        "schedule": {"blocks": blocks, "max_new_tokens": tokens, "warmup_requests": 1, "order": "williams",
        "cold": True,
                     "canaries": 3, "rest_s": 0.0},
        "gates": [{"id": g, "requirement": _REQUIREMENTS.get(g, "required"), "params": {}} for g in GATES],
        "measurement": {"memory_interval_ms": 20, "energy": False, "shadow_k": 8, "shadow_rounds_per_request": 2,
        "score_tokens": 0},
        "session_lengths": {"*": {"kind": "lognormal", "median": 400.0, "sigma": 0.9}},
        "memory_envelope_bytes": 1024 * MIB,
        "arithmetic": {"version": 1, "golden": hexdigest("golden")},
        "hardware_class": {"architecture": "x86_64", "instruction_sets": ["avx512_vnni"], "cores": 2,
        "memory_class": "16 GiB"},
        "decision_card_sha256": hashlib.sha256(rfc8785.dumps(CARD)).hexdigest(), "sealed": None,
    }  # fmt: skip


def make_rows(plan: Mapping[str, Any], seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    rng = np.random.default_rng(seed)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in tables.TABLES}
    step = 7.5e6
    for stratum in plan["strata"]:
        name = stratum["name"]
        for prompt in stratum["prompts"]:
            base = 1 + 0.15 * rng.normal()
            for block in range(plan["schedule"]["blocks"]):
                for order, arm in enumerate(plan["arms"]):
                    for entry in ("warm", "cold") if prompt is stratum["prompts"][0] and block == 0 else ("warm",):
                        _request(rows, rng, plan, name, prompt, block, order, arm, step * max(base, 0.4), entry)
        for block in range(plan["schedule"]["blocks"]):
            for arm in plan["arms"]:
                _memory(rows, rng, name, block, arm)
    return rows


def _request(rows: dict[str, list[dict[str, Any]]], rng: np.random.Generator, plan: Mapping[str, Any], stratum: str,
             prompt: Mapping[str, Any], block: int, order: int, arm: Mapping[str, Any], step: float,
             entry: str) -> None:  # fmt: skip
    name, kind, budget = arm["name"], arm["kind"], plan["schedule"]["max_new_tokens"]
    key = {"request_id": f"{name}/{stratum}/{prompt['id']}/{block}/0/{entry}", "arm": name, "stratum": stratum,
    "prompt_id": prompt["id"],
           "family_id": prompt["family_id"], "block": block, "turn": 0, "entry": entry}  # fmt: skip
    rate = ACCEPTANCE.get(stratum, 0.6) * (0.75 if kind == "prompt_lookup" else 1.0)
    slow = SPEED.get(name, 1.0) * float(np.exp(0.01 * rng.normal()))
    prefill, draft_prefill = step * 2.2 * slow, step * 0.3 if kind == "neural_draft" else 0.0
    emitted, index, total, proposed_sum, accepted_sum = 0, 0, prefill + draft_prefill, 0, 0
    while emitted < budget:
        k = 0 if kind == "champion_alone" else int(arm["k"])
        proposed = min(k, budget - emitted) if kind != "prompt_lookup" or rng.random() < 0.7 else 0
        entropies = rng.gamma(2.0, 0.7, size=proposed) if kind == "neural_draft" else np.empty(0)
        chance = np.clip(rate + 0.12 * (1.4 - entropies), 0.02, 0.99) if len(entropies) else np.full(proposed, rate)
        hits = rng.random(proposed) < chance
        accepted = int(proposed if hits.all() else np.argmin(hits)) if proposed else 0
        got = min(accepted + 1, budget - emitted)
        outcome = "champion_step" if not proposed else "accepted_all" if accepted == proposed else "rejected"
        if emitted + got >= budget and accepted == proposed and proposed:
            outcome = "length"
        times = {"draft_ns": int(step * (0.09 * proposed if kind == "neural_draft" else 0.004)) if k else 0,
                 "verify_ns": int(step * slow * (1 + 0.03 * proposed)), "sample_ns": int(step * 0.02),
                 "rollback_ns": int(step * 0.004) if proposed else 0, "other_ns": int(step * 0.005)}  # fmt: skip
        whole = sum(times.values())
        total += whole
        rows["rounds"].append({
            **key, "round": index, "context_tokens": 40 + emitted, "requested": k, "proposed": proposed,
            "tested": min(accepted + 1, proposed), "accepted": accepted, "emitted": got, "outcome": outcome,
            "censored": "length" if 0 < proposed < k else "none", **times, "total_ns": whole, "forced_tokens": 0,
            "entropy": [float(e) for e in entropies], "probe": False,
        })  # fmt: skip
        if kind == "neural_draft" and index < 2:
            alive = np.cumprod(rng.random(8) < rate)
            rows["shadow"] += [
                {**key, "round": index, "position": i + 1, "survival": float(alive[i])} for i in range(8)
            ]
        emitted, index = emitted + got, index + 1
        proposed_sum, accepted_sum = proposed_sum + proposed, accepted_sum + accepted
    rows["requests"].append({
        **key, "unit": f"{stratum}/{block}", "segment": 0, "order": order, "seed": "00000000000000ff",
        "prompt_tokens": 40, "cached_tokens": 0,
        "new_tokens": budget, "finish_reason": "length", "ttft_ns": int(prefill + draft_prefill + step),
        "total_ns": int(total + 1e5),
        "prefill_ns": int(prefill), "draft_prefill_ns": int(draft_prefill),
        "load_ns": int(2.4e8 if entry == "cold" else 0),
        "draft_load_ns": int(4e7) if kind == "neural_draft" and entry == "cold" else 0, "finalise_ns": 100_000,
        "champion_calls": index, "draft_calls": proposed_sum, "rounds": index, "proposed": proposed_sum,
        "accepted": accepted_sum,
        "forced": False, "output_digest": hexdigest(prompt["id"]),
        "quality_check": "json" if stratum == "structured_json" else "",
        "quality": 1.0 if stratum == "structured_json" else None, "failure": "", "fallback": "", "excluded": "",
        "probe_ns": 1_000_000, "steal_ticks": 0, "started_ns": 0,
    })  # fmt: skip


def _memory(
    rows: dict[str, list[dict[str, Any]]], rng: np.random.Generator, stratum: str, block: int, arm: Mapping[str, Any]
) -> None:
    extra = 26 * MIB if arm["kind"] == "neural_draft" else 0
    levels = [
        ("start", 40),
        ("load_champion", 165),
        *([("load_draft", 192)] if extra else []),
        ("request", 182),
        ("end", 181),
    ]
    peak = 0
    for sample, (phase, level) in enumerate(levels):
        resident = int(level * MIB + (extra if phase in ("request", "end") else 0) + rng.integers(0, MIB))
        peak = max(peak, resident)
        rows["memory"].append({
            "unit": f"{stratum}/{block}", "arm": arm["name"], "block": block, "sample": sample,
            "elapsed_ns": sample * 20_000_000,
            "phase": phase, "resident_bytes": resident, "peak_resident_bytes": peak, "kv_bytes": 12 * MIB,
        })  # fmt: skip


def write_ledger(run_dir: Path, records: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    prev, lines = "0" * 64, []
    for seq, (kind, body) in enumerate(records):
        line = json.dumps({"seq": seq, "prev": prev, "kind": kind, "body": dict(body)}, separators=(",", ":")).encode()
        prev = hashlib.sha256(line).hexdigest()
        lines.append(line)
    (run_dir / "ledger.jsonl").write_bytes(b"\n".join(lines) + b"\n")


MEMORY_DETAIL = {
    "tokens": 512, "champion": {"artifact_bytes": 98 * MIB, "weight_bytes": 97 * MIB, "kv_formula_bytes": 11 * MIB},
    "draft": {"artifact_bytes": 12 * MIB, "weight_bytes": 12 * MIB, "kv_formula_bytes": MIB},
    "logical_bytes": 110 * MIB,
    "physical_bytes": 109 * MIB, "incremental_bytes": 11 * MIB, "resident_bytes": 190 * MIB,
}  # fmt: skip
AUDITS = (
    "replay",
    "conformance",
    "fresh_state",
    "causality",
    "greedy_battery",
    "contention",
    "deletion",
    "privacy",
)


def synthetic_run(
    path: Path, *, strata: Sequence[str] = STRATA, prompts: int = 6, blocks: int = 2, tokens: int = 24,
    arms: Sequence[str] = ("champion_alone", "prompt_lookup", "neural_draft", "champion_again", "slowed_dummy"),
    candidate: str = "neural_draft", statuses: Mapping[str, str] | None = None, deviations: Sequence[Mapping[str,
    Any]] = (),
    exploratory: bool = False, seed: int = 0, deficits: Mapping[str, Any] | None = None,
) -> SyntheticRun:  # fmt: skip
    """A finished run under ``path``; ``statuses`` overrides gate statuses by id, ``deficits`` replaces plan fields."""
    path.mkdir(parents=True, exist_ok=True)
    plan = {**make_plan(strata, prompts, blocks, tokens, arms, candidate), **(deficits or {})}
    stored = rfc8785.dumps(plan)
    plan_id = hashlib.sha256(stored).hexdigest()
    (path / "plan.json").write_bytes(stored)
    (path / "decision_card.json").write_text(json.dumps(CARD, indent=1) + "\n")
    rows = make_rows(plan, seed)
    (path / "results").mkdir(exist_ok=True)
    for table, listed in rows.items():
        pq.write_table(tables.build(table, listed, plan_id), RunDir(path).table(table))
    environment = {
        "python": "3.11",
        "platform": "Linux",
        "hardware_class": plan["hardware_class"],
        "cpu": "a made-up processor",
    }
    ledger: list[tuple[str, Mapping[str, Any]]] = [
        ("plan", {"format": "draftgate-ledger/1", "plan_id": plan_id, "environment": environment})
    ]
    ledger += [("deviation", d) for d in deviations]
    ledger += [("audit", {"name": a, "ok": True, "n": 64, "detail": {}}) for a in AUDITS]
    ledger.append(("audit", {"name": "memory_formula", "ok": True, "n": 1, "detail": MEMORY_DETAIL}))
    loads = [4e7 + 1e5 * i for i in range(12)]
    ledger.append(("audit", {"name": "cold_loads", "ok": True, "n": 12, "detail": {"draft_load_ns": loads}}))
    ledger += [
        ("table", {"name": t, "sha256": hashlib.sha256(RunDir(path).table(t).read_bytes()).hexdigest()}) for t in rows
    ]
    ledger.append(("close", {"requests": len(rows["requests"])}))
    write_ledger(path, ledger)
    return SyntheticRun(path, plan, plan_id, make_verdict(plan, plan_id, statuses or {}, deviations, exploratory), rows)


CARD: dict[str, Any] = {
    "format": "draftgate-card/1", "replicates": 100, "seed": 7, "note": "GO is likelier than not from 1.3",
    "variation": {"prompt_sd": 0.15, "noise_sd": 0.02, "block_sd": 0.01, "source": "assumed: no pilot"},
    "simulated": ["speedup", "tail"], "assumed": ["identity"], "can_go": True,
    "truths": [
        {"speedup": t, "replicates": 100, "GO": g, "NO-GO": n, "INCONCLUSIVE": round(1 - g - n, 2), "INVALID": 0.0}
        for t, g, n in ((1.0, 0.0, 0.62), (1.15, 0.02, 0.02), (1.3, 0.81, 0.0), (1.5, 0.97, 0.0))
    ],
}  # fmt: skip


_NUMBERS: Mapping[str, tuple[float, tuple[float, float], float, str]] = {
    "speedup": (1.42, (1.33, 1.52), 1.15, "ratio"),
    "no-regression": (1.02, (0.985, 1.06), 1 / 1.05, "ratio"),
    "tail": (0.012, (0.0, 0.031), 0.05, "probability"),
    "ttft": (1.03, (1.01, 1.05), 1.10, "ratio"),
    "break-even": (0.81, (0.52, 1.13), 0.0, "s"),
    "beats-lookup": (1.19, (1.11, 1.27), 1.05, "ratio"),
    "memory": (218.4 * MIB, (216.0 * MIB, 220.9 * MIB), 1024.0 * MIB, "bytes"),
    "control": (1.001, (0.994, 1.008), 1.01, "ratio"),
}


def make_verdict(plan: Mapping[str, Any], plan_id: str, statuses: Mapping[str, str], deviations: Sequence[Mapping[str,
Any]] = (),
                 exploratory: bool = False) -> Verdict:  # fmt: skip
    rng = np.random.default_rng(5)
    results = []
    for gate in plan["gates"]:
        id_, requirement = gate["id"], gate["requirement"]
        default = {"energy": "not-measured", "exact-law": "not-applicable"}.get(id_, "pass")
        estimate, interval, threshold, unit = _NUMBERS.get(id_, (0.0 if default == "pass" else None, None, None, ""))
        per = ()
        if id_ in ("speedup", "no-regression", "quality"):
            per = tuple(
                {"stratum": s["name"], "status": statuses.get(id_, "pass"), "estimate": float(e),
                "interval": [float(e / 1.07), float(e * 1.07)],
                 "n": len(s["prompts"]), "reason": "made up"}
                for s in plan["strata"] for e in [float(np.exp(0.2 + 0.2 * rng.normal()))]
            )  # fmt: skip
        status = statuses.get(id_, default)
        results.append(GateResult(
            id=id_, status=status, reason=f"made-up evidence for {id_}: {status}",  # type: ignore[arg-type]
            estimate=estimate, interval=interval, threshold=threshold, n=plan["schedule"]["blocks"] * 20,
            requirement=requirement,
            unit=unit, per_stratum=per,
        ))  # fmt: skip
    name, reasons = combine(results)
    extra = {
        "deviations": [dict(d) for d in deviations],
        "decision_card": CARD,
        "multiverse": [
            {"gate": "speedup", "variant": v, "status": statuses.get("speedup", "pass"), "estimate": 1.41,
             "interval": [1.3, 1.53], "flips": False}
            for v in ("equal weights", "plain-t interval", "median, percentile interval")
        ],
        "self_check": [{"gate": "speedup", "status": "fail", "held": True, "reason": ""}],
        "splits": [
            {"split": s, "gate": "speedup", "status": "pass", "estimate": 1.4, "interval": [1.25, 1.57], "n": 60}
            for s in ("open", "reserve")
        ],
        "not_shown": ["Energy: it was not measured."],
    }  # fmt: skip
    return Verdict(name, plan_id, tuple(results), reasons, exploratory, extra)
