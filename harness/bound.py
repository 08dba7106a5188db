"""Before the first token: is everything what was frozen? Each difference is named, and any one stops the run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..strata.schema import Prompt
from .arm_files import file_changes, located_arms
from .canonical import digest_file, digest_ids
from .errors import IntegrityError, PlanError
from .freeze import load_message
from .identity import differences, package_version, source_digest
from .process import Executor
from .prompts import load_source, render_message
from .rundir import RunDir
from .seal import Seal, commitment


@dataclass(frozen=True)
class Bound:
    """What the plan names, found on this machine and checked."""

    paths: dict[str, Path | None]
    prompts: dict[tuple[str, str], Prompt]
    """By stratum and id."""
    ids: dict[tuple[str, str], list[int]]
    """Rendered first requests."""
    salts: dict[str, str]
    """Revealed commitments by ``stratum/prompt``; empty without a seal."""
    load_ns: int
    """One load of the champion, for estimates."""
    arms: dict[str, dict[str, Any]]
    """By name, as they can be built here."""


def model_paths(plan: Mapping[str, Any], operational: Mapping[str, Any], backend: str) -> dict[str, Path | None]:
    """Files of champion and draft: the path noted at freeze, else the registered name. Raises PlanError when neither is
    there; nothing is downloaded."""
    module = importlib.import_module(backend)
    paths: dict[str, Path | None] = {"champion": None, "draft": None}
    for which in paths:
        if plan[which] is None:
            continue
        said = operational.get(f"{which}_path")
        if said is not None and Path(said).is_file():
            paths[which] = Path(said)
            continue
        try:
            paths[which] = Path(module.resolve(plan[which]["name"]))
        except Exception as error:
            if getattr(error, "exit_code", None) is None:
                raise
            raise PlanError(
                f"the plan's {which} {plan[which]['name']} is not here: {error}; or give --{which} PATH"
            ) from None
    return paths


def file_differences(plan: Mapping[str, Any], paths: Mapping[str, Path | None]) -> list[str]:
    """What can be checked without loading a model: package, source, model files."""
    found = []
    if package_version() != plan["package_version"]:
        found.append(f"package_version: frozen {plan['package_version']}, found {package_version()}")
    elif source_digest() != plan["source_digest"]:
        found.append("source_digest: the package's source is not what was frozen")
    for which, path in paths.items():
        if path is not None:
            sha = digest_file(path)
            if sha != plan[which]["sha256"]:
                found.append(f"{which}.sha256: frozen {plan[which]['sha256'][:12]}…, {path.name} has {sha[:12]}…")
    return found


def bind(
    run_dir: RunDir, plan: Mapping[str, Any], operational: Mapping[str, Any], backend: str, executor: Executor
) -> Bound:
    """Check every bound identity and render the prompts. Raises IntegrityError naming all that differ."""
    paths = model_paths(plan, operational, backend)
    arms = located_arms(run_dir, plan, operational)
    found = file_differences(plan, paths) + file_changes(arms)
    salts = Seal.read(run_dir).salts if plan["sealed"] is not None else {}
    prompts: dict[tuple[str, str], Prompt] = {}
    for stratum in plan["strata"]:
        source = stratum["source"]
        if source.startswith("file:"):
            source = operational.get("strata_paths", {}).get(stratum["name"])
            if source is None:
                raise PlanError(f"stratum {stratum['name']}: this directory does not say where its file lies")
        loaded, _, sha = load_source(stratum["name"], source)
        if sha != stratum["file_sha256"]:
            found.append(
                f"strata.{stratum['name']}.file_sha256: frozen {stratum['file_sha256'][:12]}…, found {sha[:12]}…"
            )
        by_id = {p.id: p for p in loaded}
        for prompt in stratum["prompts"]:
            if prompt["id"] in by_id:
                prompts[stratum["name"], prompt["id"]] = by_id[prompt["id"]]
            else:
                found.append(f"strata.{stratum['name']}: prompt {prompt['id']} is not in the file")
    if found:
        raise mismatch(found)
    with executor.start() as worker:
        loaded_in = worker.ask(load_message(backend, paths, plan["schedule"]["threads"], operational.get("kernel")))
        facts = worker.ask({
            "type": "describe",
            "champion_name": plan["champion"]["name"],
            "draft_name": plan["draft"] and plan["draft"]["name"],
        })  # fmt: skip
        keys = list(prompts)
        rendered = worker.ask(render_message([prompts[k] for k in keys]))["ids"]
    ids = dict(zip(keys, rendered, strict=True))
    for which in ("champion", "draft"):
        if plan[which] is not None:
            found += differences(plan[which], facts[which], which)
    found += differences(dict(plan["arithmetic"]), facts["arithmetic"], "arithmetic")
    if facts["stop_token_ids"] != plan["stop_token_ids"]:
        found.append("stop_token_ids: not what was frozen")
    if facts["preamble_tokens"] != plan["schedule"]["preamble_tokens"]:
        found.append("schedule.preamble_tokens: not what the chat template gives")
    found += _prompt_differences(plan, ids, salts)
    if found:
        raise mismatch(found)
    return Bound(paths, prompts, ids, salts, loaded_in["load_ns"], {arm["name"]: arm for arm in arms})


def _prompt_differences(
    plan: Mapping[str, Any], ids: Mapping[tuple[str, str], list[int]], salts: Mapping[str, str]
) -> list[str]:
    found = []
    for stratum in plan["strata"]:
        for prompt in stratum["prompts"]:
            sha = digest_ids(ids[stratum["name"], prompt["id"]])
            if prompt.get("sealed"):
                name = f"{stratum['name']}/{prompt['id']}"
                sha = commitment(salts.get(name, ""), stratum["name"], prompt["id"], sha)
            if sha != prompt["ids_sha256"]:
                found.append(f"strata.{stratum['name']}.{prompt['id']}: renders to other token ids than frozen")
    return found


def mismatch(found: list[str]) -> IntegrityError:
    return IntegrityError("INVALID: not what was frozen, nothing was run:\n  - " + "\n  - ".join(found))
