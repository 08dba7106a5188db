"""From a composed plan to `plan.json`: every artifact replaced by its identity, canonical bytes, their sha256."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import atomic
from .arm_files import FIELD, bound_entry
from .attempts import attempt_notes, attempts_file
from .backend import DEFAULT_BACKEND
from .canonical import canonical_bytes, digest, digest_ids, digest_value
from .errors import IntegrityError, PlanError
from .formats import ANALYSIS_VERSION, OPERATIONAL_FORMAT, PLAN_FORMAT, check_format
from .hardware import cores, hardware_class
from .identity import package_version, source_digest
from .own_files import require_run_folder
from .plan import ComposedPlan
from .plan_checks import plan_problems
from .process import Executor, SubprocessExecutor, Worker
from .prompts import StratumPrompts, chosen_strata, render_message, turns
from .provenance import provenance_notes
from .rundir import RunDir
from .seal import Seal

COPIED = (
    "name", "title", "seed", "hypotheses", "outcomes", "exclusions", "stopping", "sample_size", "seen", "alpha",
    "attempts_budget", "decoding", "measurement", "session_lengths", "memory_envelope_bytes",
)  # fmt: skip
"""Sections of the composed plan that are frozen as they stand."""


@dataclass(frozen=True)
class FrozenPlan:
    run_dir: RunDir
    plan: dict[str, Any]
    plan_id: str
    card: dict[str, Any] | None
    """The decision card; None when the gates that compute it are not installed."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FreezeOptions:
    """How to reach models and prompts; none of it is frozen."""

    backend: str = DEFAULT_BACKEND
    executor: Executor = field(default_factory=SubprocessExecutor)
    parent: Mapping[str, Any] | None = None
    """Of an amendment: plan_id, reason, changes, results_seen."""
    with_card: bool = True
    hardware_class: Mapping[str, Any] | None = None
    """The class on which times count; None is this machine's. On another class the timing gates are not measured."""


def plan_id(plan: Mapping[str, Any]) -> str:
    """sha256 of the plan's canonical bytes."""
    return digest_value(dict(plan))


def load_plan(run_dir: RunDir | Path | str) -> dict[str, Any]:
    """`plan.json` of a run directory. Raises PlanError when it is missing, not a plan, or of another format, and
    IntegrityError when its bytes are not canonical."""
    path = RunDir(run_dir).plan
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise PlanError(f"{path}: not a plain file")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise PlanError(f"{path}: no plan; `draftgate freeze` writes one") from None
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}") from None
    try:
        plan = json.loads(raw)
    except (ValueError, RecursionError):
        raise IntegrityError(f"{path}: not JSON; it was damaged or edited") from None
    if not isinstance(plan, dict):
        raise PlanError(f"{path}: a plan is a JSON object")
    check_format(plan.get("format"), PLAN_FORMAT, str(path))
    try:
        canonical = canonical_bytes(plan) == raw
    except ValueError:
        canonical = False
    if not canonical:
        raise IntegrityError(f"{path}: not the canonical bytes of a frozen plan; it was edited")
    return plan


def load_operational(run_dir: RunDir) -> dict[str, Any]:
    """Local paths of a run directory; empty when there are none or they were damaged (names are resolved instead).

    Raises PlanError for whole paths of another format.
    """
    try:
        found = json.loads(run_dir.operational.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    check_format(found.get("format"), OPERATIONAL_FORMAT, str(run_dir.operational))
    return found


def freeze(composed: ComposedPlan, out: Path | str, services: Any, options: FreezeOptions | None = None) -> FrozenPlan:
    """Freeze into a run directory. The same plan again is no change; another plan there is refused.

    Raises PlanError listing everything that is missing or wrong, and whatever models, strata and arms raise.
    """
    options = options or FreezeOptions()
    run_dir, conf = RunDir(out), composed.confirmatory
    require_run_folder(run_dir)
    problems = plan_problems(conf) + list(services.validate_gates(_gates(conf)))
    if problems:
        raise PlanError("the plan cannot be frozen:\n  - " + "\n  - ".join(problems))
    strata = chosen_strata(conf["strata"])
    paths = _model_paths(composed, options.backend)
    arms, arm_paths = _arms(conf)
    here = [arm | ({FIELD: arm_paths[arm["name"]]} if arm["name"] in arm_paths else {}) for arm in arms]
    with options.executor.start() as worker:
        facts, ids = _examine(worker, conf, here, composed.operational, paths, strata, options.backend)
    seal = Seal.for_plan(conf, strata, run_dir)
    plan = _plan(conf, arms, facts, ids, strata, seal, options.parent)
    if options.hardware_class is not None:
        plan["hardware_class"] = dict(options.hardware_class)
    _require_context(plan)
    card, notes = _decision_card(plan, services) if options.with_card else (None, ())
    if card is not None:
        plan["decision_card_sha256"] = digest_value(card)
    operational = {
        "format": OPERATIONAL_FORMAT,
        "champion_path": str(paths["champion"]),
        "draft_path": None if paths["draft"] is None else str(paths["draft"]),
        "arm_paths": arm_paths,
        "strata_paths": {s.name: str(s.path) for s in strata if s.path is not None},
        "kernel": composed.operational["kernel"],
    }
    _write(run_dir, plan, operational, card, seal)
    said = (*notes, *provenance_notes(plan, paths["draft"]), *attempt_notes(plan, attempts_file(run_dir)))
    return FrozenPlan(run_dir, plan, plan_id(plan), card, said)


def _gates(conf: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": name, "requirement": gate["requirement"], "params": gate["params"]}
        for name, gate in conf["gates"].items()
    ]


def _model_paths(composed: ComposedPlan, backend_name: str) -> dict[str, Path | None]:
    import importlib

    backend = importlib.import_module(backend_name)
    paths: dict[str, Path | None] = {"champion": None, "draft": None}
    for which in paths:
        conf = composed.confirmatory[which]
        if conf is not None:
            said = composed.operational[f"{which}_path"] or conf["name"]
            paths[which] = Path(said).resolve() if Path(said).is_file() else Path(backend.pull(said)).resolve()
    return paths


def load_message(
    backend: str, paths: Mapping[str, Path | str | None], threads: int, kernel: str | None, **more: Any
) -> dict[str, Any]:
    """The worker's first message."""
    return {
        "type": "load",
        "backend": backend,
        "champion": None if paths["champion"] is None else str(paths["champion"]),
        "draft": None if paths["draft"] is None else str(paths["draft"]),
        "threads": threads,
        "kernel": kernel,
        "arm": None,
        "decoding": {},
        "preamble_tokens": None,
        "memory_interval_ms": 0,
        "energy": False,
    } | more


def _examine(
    worker: Worker,
    conf: dict[str, Any],
    arms: list[dict[str, Any]],
    operational: dict[str, Any],
    paths: dict[str, Path | None],
    strata: list[StratumPrompts],
    backend: str,
) -> tuple[dict[str, Any], dict[str, list[list[int]]]]:
    """Identities and rendered prompts, from one worker with both models loaded. ``arms``: with their files' paths."""
    names = {w: None if paths[w] is None else public_name(conf[w]["name"]) for w in paths}
    threads = conf["schedule"]["threads"] or cores()
    worker.ask(load_message(backend, paths, threads, operational["kernel"]))
    facts = worker.ask({"type": "describe", "champion_name": names["champion"], "draft_name": names["draft"]})
    if facts["tokenizer_difference"] is not None:
        raise PlanError(f"the draft's tokenizer is not the champion's: {facts['tokenizer_difference']}")
    worker.ask({"type": "call", "name": "build_arms", "arms": arms, "decoding": conf["decoding"]})
    return facts, {s.name: worker.ask(render_message(s.prompts))["ids"] for s in strata}


def public_name(name: str) -> str:
    """A model's label in the plan: a registered name, or a file's name without its folder."""
    return Path(name).name if ("/" in name or name.endswith(".gguf")) else name


def arm_entry(name: str, arm: Mapping[str, Any]) -> dict[str, Any]:
    """One arm as frozen: nulls left out, options merged in."""
    fields = {k: v for k, v in arm.items() if v is not None and k != "options"}
    return {"name": name} | fields | dict(arm["options"] or {})


def _arms(conf: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The arms as frozen, and where the files lie that they read, by arm."""
    frozen, paths = [], {}
    for name, arm in conf["arms"]["entries"].items():
        entry, path = bound_entry(arm_entry(name, arm))
        frozen.append(entry)
        if path is not None:
            paths[name] = str(path)
    return frozen, paths


def _plan(
    conf: dict[str, Any],
    arms: list[dict[str, Any]],
    facts: dict[str, Any],
    ids: dict[str, list[list[int]]],
    strata: list[StratumPrompts],
    seal: Seal | None,
    parent: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        **{key: conf[key] for key in COPIED},
        "format": PLAN_FORMAT,
        "package_version": package_version(),
        "source_digest": source_digest(),
        "analysis_version": ANALYSIS_VERSION,
        "parent": dict(parent) if parent is not None else None,
        "champion": facts["champion"],
        "draft": facts["draft"],
        "candidate": conf["arms"]["candidate"],
        "arms": arms,
        "stop_token_ids": facts["stop_token_ids"],
        "strata": [_stratum(s, conf["strata"]["entries"][s.name], ids[s.name], seal) for s in strata],
        "schedule": conf["schedule"]
        | {"threads": conf["schedule"]["threads"] or cores(), "preamble_tokens": facts["preamble_tokens"]},
        "gates": _gates(conf),
        "arithmetic": facts["arithmetic"],
        "hardware_class": hardware_class(),
        "decision_card_sha256": None,
        "sealed": None if seal is None else seal.public(),
    }


def _stratum(s: StratumPrompts, entry: Mapping[str, Any], ids: list[list[int]], seal: Seal | None) -> dict[str, Any]:
    prompts = []
    for prompt, row in zip(s.prompts, ids, strict=True):
        item: dict[str, Any] = {
            "id": prompt.id,
            "family_id": prompt.family_id,
            "prompt_tokens": len(row),
            "ids_sha256": digest_ids(row),
            "split": prompt.split,
            "turns": turns(prompt),
        }
        if prompt.max_new_tokens is not None:
            item["max_new_tokens"] = prompt.max_new_tokens
        if seal is not None and prompt.split == "reserve":
            item = seal.close(s.name, item)
        prompts.append(item)
    return {
        "name": s.name,
        "weight": entry["weight"],
        "designated": entry["designated"],
        "source": s.source,
        "file_sha256": s.file_sha256,
        "prompts": prompts,
    }


def _require_context(plan: dict[str, Any]) -> None:
    limits = [m["context_limit"] for m in (plan["champion"],) if m is not None]
    for stratum in plan["strata"]:
        if not stratum["prompts"]:
            raise PlanError(f"stratum {stratum['name']}: no prompts in the split asked for")
        for prompt in stratum["prompts"]:
            if prompt["prompt_tokens"] + 1 > min(limits):
                raise PlanError(
                    f"stratum {stratum['name']}, prompt {prompt['id']}: {prompt['prompt_tokens']} tokens leave no "
                    f"room for "
                    f"an answer in the context of {min(limits)}; shorten it or take a champion with a longer context"
                )


def _decision_card(plan: dict[str, Any], services: Any) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    try:
        card = services.decision_card(plan)
    except ModuleNotFoundError as error:
        return None, (f"no decision card: {error.name} is not installed",)
    return json.loads(json.dumps(card)), ()


def _write(
    run_dir: RunDir, plan: dict[str, Any], operational: dict[str, Any], card: dict[str, Any] | None, seal: Seal | None
) -> None:
    data = canonical_bytes(plan)
    if run_dir.plan.exists():
        there = run_dir.plan.read_bytes()
        if there != data:
            raise PlanError(
                f"{run_dir.plan.parent} holds another frozen plan ({digest(there)[:12]}, this one is "
                f"{digest(data)[:12]}); "
                "choose another folder, or `draftgate amend` that one"
            )
    if card is not None:
        atomic.write_bytes(run_dir.card, json.dumps(card, indent=1).encode() + b"\n")
    if seal is not None:
        seal.write(run_dir)
    atomic.write_bytes(run_dir.operational, json.dumps(operational, indent=1).encode() + b"\n")
    atomic.write_bytes(run_dir.plan, data)
