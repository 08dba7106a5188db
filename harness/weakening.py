"""Which differences between two plans make it easier to pass: those need a written reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import PlanError

RANK = {"required": 2, "if-available": 1, "not-applicable": 0}


STRICTER: Mapping[str, int] = {
    "exact-greedy.mismatches": -1,
    "exact-greedy.occurrences": 1,
    "exact-law.delta": -1,
    "control.aa": -1,
    "control.dummy": -1,
    "control.drift": -1,
    "speedup.minimum": 1,
    "speedup.prompts": 1,
    "speedup.designated_prompts": 1,
    "no-regression.slowdown": -1,
    "no-regression.prompts": 1,
    "no-regression.designated_prompts": 1,
    "tail.slower": -1,
    "tail.share": -1,
    "ttft.ratio": -1,
    "break-even.saving_ns": 1,
    "beats-lookup.ratio": 1,
    "liveness.drop": -1,
    "liveness.floor": 1,
    "memory.ratio": -1,
    "memory.runs": 1,
    "energy.ratio": -1,
    "quality.margin": -1,
}
"""Gate and parameter to +1 where a higher value is stricter, -1 where a lower one is; any change of another
parameter counts."""


def comparable(path: Path) -> dict[str, Any]:
    """A frozen plan (run directory or plan.json) or a plan file, in the shape that is compared. Raises PlanError."""
    if path.suffix in (".yaml", ".yml"):
        return _from_file(path)
    from .freeze import load_plan, plan_id

    folder = path if path.is_dir() else path.parent
    if not path.exists() or (path.is_file() and path.name != "plan.json"):
        raise PlanError(f"{path}: neither a run directory, nor a plan.json, nor a plan file (.yaml)")
    plan = load_plan(folder)
    return plan | {"plan_id": plan_id(plan)}


def _from_file(path: Path) -> dict[str, Any]:
    from .plan import compose_plan

    conf = compose_plan(plan_file=path).confirmatory
    gates = [{"id": k, "requirement": g["requirement"], "params": g["params"]} for k, g in conf["gates"].items()]
    count = conf["strata"]["prompts_per_stratum"] or 10**9
    strata = [
        {"name": name, "designated": s["designated"], "prompts": range(count)}
        for name, s in conf["strata"]["entries"].items()
    ]
    return conf | {"gates": gates, "strata": strata, "parent": None}


def weakened(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """One line per difference that makes it easier to pass."""
    return [*_gates(before, after), *_design(before, after)]


def _gates(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    now = {g["id"]: g for g in after["gates"]}
    for gate in before["gates"]:
        name = gate["id"]
        if name not in now:
            yield f"gate {name} was taken out"
            continue
        if RANK.get(now[name]["requirement"], 0) < RANK.get(gate["requirement"], 0):
            yield f"gate {name}: {gate['requirement']} became {now[name]['requirement']}"
        params = now[name]["params"]
        for key, value in gate["params"].items():
            if key not in params:
                yield f"gate {name}: {key} was taken out"
            elif params[key] != value:
                sense = STRICTER.get(f"{name}.{key}", 0)
                if sense == 0 or _drop(value, params[key], sense):
                    yield f"gate {name}: {key} from {value} to {params[key]}"


def _drop(before: Any, after: Any, sense: int) -> bool:
    if isinstance(before, int | float) and isinstance(after, int | float):
        return (after - before) * sense < 0
    return True


def _design(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if after["alpha"] > before["alpha"]:
        yield f"alpha from {before['alpha']} to {after['alpha']}"
    if after["attempts_budget"] < before["attempts_budget"]:
        said = f"attempts_budget from {before['attempts_budget']} to {after['attempts_budget']}"
        yield f"{said}: each attempt is tested less strictly"
    for key in ("blocks", "warmup_requests", "canaries"):
        if after["schedule"][key] < before["schedule"][key]:
            yield f"schedule.{key} from {before['schedule'][key]} to {after['schedule'][key]}"
    if after["memory_envelope_bytes"] > before["memory_envelope_bytes"]:
        yield f"memory_envelope_bytes from {before['memory_envelope_bytes']} to {after['memory_envelope_bytes']}"
    now = {s["name"]: s for s in after["strata"]}
    for stratum in before["strata"]:
        name = stratum["name"]
        if name not in now:
            yield f"stratum {name} was taken out"
            continue
        if len(now[name]["prompts"]) < len(stratum["prompts"]):
            yield f"stratum {name}: {len(stratum['prompts'])} prompts became {len(now[name]['prompts'])}"
        if stratum["designated"] and not now[name]["designated"]:
            yield f"stratum {name} is no longer designated"
    for exclusion in after["exclusions"]:
        old = [e["limit"] for e in before["exclusions"] if e["rule"] == exclusion["rule"]]
        if not old or exclusion["limit"] < old[0]:
            yield f"exclusion {exclusion['rule']}: drops more pairs than before"
