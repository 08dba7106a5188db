"""A new plan that names its parent, what changed and why, and whether results had been seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .compare import json_differences
from .errors import PlanError
from .freeze import FreezeOptions, FrozenPlan, freeze, load_plan, plan_id
from .plan import ComposedPlan
from .rundir import RunDir


def results_seen(run_dir: RunDir) -> bool:
    """Whether any request of the parent was recorded: then somebody may have looked."""
    from .ledger import read_ledger

    if not run_dir.ledger.exists():
        return False
    return next(read_ledger(run_dir).records.of_kind("request"), None) is not None


def amend(
    parent_dir: RunDir,
    composed: ComposedPlan,
    out: Path,
    reason: str,
    services: Any,
    options: FreezeOptions | None = None,
) -> FrozenPlan:
    """Freeze ``composed`` into a new directory as an amendment of the plan in ``parent_dir``.

    Results count as seen when the parent has any request on record; nobody can declare otherwise. Raises PlanError
    for an empty reason, the parent's own directory, or no change at all.
    """
    if not reason.strip():
        raise PlanError("--reason is empty: say why the plan changes")
    if out.resolve() == parent_dir.path.resolve():
        raise PlanError(f"{out}: an amendment is a plan of its own; give another folder, the parent stays as it is")
    parent = load_plan(parent_dir)
    seen = results_seen(parent_dir)
    options = options or FreezeOptions()
    said: dict[str, Any] = {
        "plan_id": plan_id(parent), "reason": reason.strip(), "changes": [], "results_seen": seen,
        "parent_exploratory": bool((parent.get("parent") or {}).get("results_seen")),
    }  # fmt: skip
    said["results_seen"] = seen or said["parent_exploratory"]
    trial = FreezeOptions(options.backend, options.executor, said, with_card=False)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as scratch:
        draft = freeze(composed, Path(scratch) / "trial", services, trial).plan
    said["changes"] = changes(parent, draft)
    if not said["changes"]:
        raise PlanError("nothing changes: the amended plan equals its parent")
    return freeze(composed, out, services, FreezeOptions(options.backend, options.executor, said, options.with_card))


def changes(parent: dict[str, Any], amended: dict[str, Any]) -> list[str]:
    """One line per field that differs, the parent reference and the decision card's hash aside."""
    aside = ("parent", "decision_card_sha256")
    return json_differences(
        {k: v for k, v in parent.items() if k not in aside}, {k: v for k, v in amended.items() if k not in aside}
    )
