"""Files that arms read besides models: a plan holds their name and sha256, this machine's paths stay outside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .canonical import digest_file
from .errors import PlanError
from .rundir import RunDir

FIELD = "cache"
"""Of an arm entry: the file's path as composed, its name as frozen."""

Entry = Mapping[str, Any]


def bound_entry(entry: Entry) -> tuple[dict[str, Any], Path | None]:
    """An entry as frozen, its file by name and hash, and where that file lies. Raises PlanError."""
    said = entry.get(FIELD)
    if not isinstance(said, str):
        return dict(entry), None
    path = Path(said).expanduser().resolve()
    if not path.is_file():
        raise PlanError(f"arm {entry['name']}: {said}: no such file")
    return {**entry, FIELD: path.name, "sha256": entry.get("sha256") or digest_file(path)}, path


def located(entry: Entry, run_dir: RunDir, operational: Mapping[str, Any]) -> dict[str, Any]:
    """A frozen entry with its file's path: as noted at freeze, else beside `plan.json`. Raises PlanError."""
    if FIELD not in entry:
        return dict(entry)
    noted = operational.get("arm_paths", {}).get(entry["name"])
    places = [*([Path(noted)] if noted else []), run_dir.path / Path(entry[FIELD]).name]
    for path in places:
        if path.is_file():
            return {**entry, FIELD: str(path)}
    raise PlanError(f"arm {entry['name']}: its file {entry[FIELD]} is not here; put it beside plan.json")


def located_arms(run_dir: RunDir, plan: Mapping[str, Any], operational: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The plan's arms as they can be built here."""
    return [located(entry, run_dir, operational) for entry in plan["arms"]]


def file_changes(arms: list[dict[str, Any]]) -> list[str]:
    """Files of located arms that are not what was frozen, one line each."""
    found = []
    for arm in arms:
        if FIELD in arm and (sha := digest_file(Path(arm[FIELD]))) != arm["sha256"]:
            name = Path(arm[FIELD]).name
            found.append(f"arms.{arm['name']}.sha256: frozen {str(arm['sha256'])[:12]}…, {name} has {sha[:12]}…")
    return found
