"""How many candidates have been tried on these prompts: alpha is spent per prompt set.

The file lies beside the run directories, so it knows the runs of one folder and no more: it is a reminder with a
number, not a guard against somebody who starts a new folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .canonical import digest_value
from .clock import Clock, iso
from .formats import ATTEMPTS_FORMAT
from .rundir import RunDir


def attempts_file(run_dir: RunDir) -> Path:
    """`attempts.jsonl` beside the run directories of one experiment."""
    return run_dir.path.resolve().parent / "attempts.jsonl"


def candidate_key(plan: Mapping[str, Any]) -> str:
    """What makes two candidates the same: arm entry, draft, decoding."""
    arm = next(a for a in plan["arms"] if a["name"] == plan["candidate"])
    return digest_value({"arm": arm, "draft": plan["draft"] and plan["draft"]["sha256"], "decoding": plan["decoding"]})


def prompt_set_key(plan: Mapping[str, Any]) -> str:
    """What alpha is spent on: this champion and these prompts."""
    prompts = sorted(p["ids_sha256"] for s in plan["strata"] for p in s["prompts"])
    return digest_value({"champion": plan["champion"]["sha256"], "prompts": prompts})


def _tried(plan: Mapping[str, Any], path: Path) -> list[str]:
    """Keys of the distinct candidates tried on the plan's prompts; a line that cannot be read counts as nothing."""
    key = prompt_set_key(plan)
    seen: list[str] = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("format") == ATTEMPTS_FORMAT and entry.get("prompts") == key:
            tried = str(entry.get("candidate"))
            seen += [tried] if tried not in seen else []
    return seen


def attempt_number(plan: Mapping[str, Any], path: Path) -> int:
    """What `count_attempt` would return; nothing is noted."""
    candidate, seen = candidate_key(plan), _tried(plan, path)
    return (seen.index(candidate) if candidate in seen else len(seen)) + 1


def count_attempt(plan: Mapping[str, Any], plan_id: str, clock: Clock, path: Path) -> int:
    """Note this candidate and return its number among the distinct ones tried on this prompt set, from 1.

    A file that cannot be written leaves the count as read.
    """
    candidate, seen = candidate_key(plan), _tried(plan, path)
    if candidate in seen:
        return seen.index(candidate) + 1
    entry = {
        "format": ATTEMPTS_FORMAT, "prompts": prompt_set_key(plan), "candidate": candidate, "plan_id": plan_id,
        "at": iso(clock.wall_ns()),
    }  # fmt: skip
    try:
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
    except OSError:
        pass
    return len(seen) + 1


def attempt_notes(plan: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """A warning where this candidate would be one more than the plan allows: better before the run than after it."""
    number, budget = attempt_number(plan, path), int(plan["attempts_budget"])
    if number <= budget:
        return ()
    return (
        f"this is candidate {number} on these prompts ({path.name} beside the run counts them) and the plan allows "
        f"{budget}: its verdict will be INVALID, whatever is measured; take new prompts, or raise attempts_budget, "
        "which makes every gate stricter",
    )
