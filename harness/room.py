"""Memory for the processes of a unit that live side by side (`schedule.order: interleaved`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from ..arms.kinds import WITH_DRAFT
from .errors import PlanError
from .schedule import Schedule

PROCESS_BYTES = 150 * 2**20
"""Of a worker without its models; keys and values of a small model's request included, of a large one's not."""
CGROUP = Path("/sys/fs/cgroup")
"""Where a container's own limit stands, in bytes, beside what it uses."""
LOADED = 1.2
"""Bytes a loaded model takes for each of its file."""


def needed_bytes(plan: Mapping[str, Any], paths: Mapping[str, Path | None]) -> int:
    """What all arms of a unit take at once, models loaded in every one of them."""
    sizes = {which: path.stat().st_size if path is not None else 0 for which, path in paths.items()}
    total = 0.0
    for arm in plan["arms"]:
        drafts = sizes.get("draft", 0) if arm["kind"] in WITH_DRAFT else 0
        total += PROCESS_BYTES + LOADED * (sizes["champion"] + drafts)
    return int(total)


def available_bytes() -> int:
    """Memory that new processes can take: the machine's, or what a container's limit leaves of it."""
    there = int(psutil.virtual_memory().available)
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return min(there, max(int(limit) - int(used), 0))
    except (OSError, ValueError):  # no such files, or "max": no limit
        return there


def require_room(plan: Mapping[str, Any], paths: Mapping[str, Path | None]) -> None:
    """Raises PlanError, before a unit starts, where an interleaved one would not fit."""
    needed, there = needed_bytes(plan, paths), available_bytes()
    if Schedule(plan).interleaved and needed > there:
        raise PlanError(
            f"the {len(plan['arms'])} processes of an interleaved unit need about {needed / 1e9:.1f} GB of memory at "
            f"once, {there / 1e9:.1f} GB are available: free some, or freeze the plan with schedule.order=williams, "
            "where one process follows the other"
        )
