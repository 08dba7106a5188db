"""Judging one candidate in a pipeline: a committed plan with only the draft open, frozen, run, judged and reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..gates.checks.speed import WITHOUT_DRAFT
from ..gates.registry import checks
from ..gates.result import Verdict
from ..harness.errors import PlanError
from ..harness.plan import ComposedPlan, compose_plan
from .baseline import differences, read_baseline, render_differences
from .files import Damaged, ReportError
from .gate_texts import gate_text

QUICK_PROMPTS, QUICK_TOKENS = 3, 48
QUICK_TITLE = " (quick: timing and memory asked only where available; the full run decides)"


@dataclass(frozen=True)
class Job:
    plan: Path
    candidate: Path
    out: Path
    baseline: Path | None = None
    hardware_class: Path | None = None
    quick: bool = False
    reason: str = ""
    """Why the plan asks less than the baseline's did; empty when it does not."""


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    reports: tuple[Path, ...]
    comparison: str
    """Markdown against the baseline; empty without one."""
    notes: tuple[str, ...]


def judge_candidate(job: Job, services: Any, progress: Any) -> Judged:
    """Everything is checked before the first token; reports are written before anything is said about the verdict.

    Raises ReportError and PlanError for unusable input, IncompleteRun and IntegrityError as the run does.
    """
    from ..harness.execute import Execution
    from ..harness.freeze import FreezeOptions, freeze
    from ..harness.rundir import RunDir
    from ..harness.runner import RunOptions

    baseline = read_baseline(job.baseline) if job.baseline is not None else None
    declared = read_hardware_class(job.hardware_class)
    composed = open_plan(job)
    frozen = freeze(composed, job.out, services, FreezeOptions(hardware_class=declared))
    if job.baseline is not None:
        refuse_weaker(job.baseline, frozen.plan, job.reason, job.quick)
    outcome = Execution(RunDir(job.out), services, RunOptions(progress=progress)).go()
    if outcome.verdict is None:
        raise ReportError(f"{job.out}: the run ended without a verdict: {'; '.join(outcome.notes)}")
    verdict: Verdict = outcome.verdict
    written = tuple(services.write_reports(job.out, verdict))
    compared = render_differences(differences(baseline, verdict), baseline) if baseline is not None else ""
    return Judged(verdict, written, compared, (*frozen.notes, *outcome.notes))


def open_plan(job: Job) -> ComposedPlan:
    """The template with the candidate in its open place. Raises PlanError or ReportError where there is none."""
    if not job.candidate.is_file():
        raise ReportError(f"{job.candidate}: no such candidate file; give the GGUF of the draft to judge")
    try:
        closed = compose_plan(plan_file=job.plan)
    except PlanError:
        closed = None  # `draft: ???` leaves it open: then it composes only with the candidate
    if closed is not None and closed.confirmatory["draft"] is not None:
        named = closed.confirmatory["draft"].get("name")
        raise ReportError(f"{job.plan}: already names the draft {named!r}; a template leaves it open (draft: null)")
    composed = compose_plan(plan_file=job.plan, draft=str(job.candidate))
    arms = composed.confirmatory["arms"]
    kind = (arms["entries"].get(arms["candidate"]) or {}).get("kind")
    if kind is None or kind in WITHOUT_DRAFT:
        raise ReportError(
            f"{job.plan}: its candidate arm {arms['candidate']!r} uses no draft, so {job.candidate.name} would not be "
            "judged; set arms.candidate to the arm of the draft"
        )
    return quickened(composed) if job.quick else composed


def quickened(composed: ComposedPlan) -> ComposedPlan:
    """A small plan for pull requests: fewer prompts and tokens, one block; timing and memory only where available.

    It is another plan with another id, and its title says what it leaves to the full run.
    """
    plan = json.loads(json.dumps(composed.confirmatory))
    asked = plan["strata"]["prompts_per_stratum"] or QUICK_PROMPTS
    plan["strata"]["prompts_per_stratum"] = min(asked, QUICK_PROMPTS)
    plan["schedule"]["max_new_tokens"] = min(plan["schedule"]["max_new_tokens"], QUICK_TOKENS)
    plan["schedule"]["blocks"] = 1
    plan["measurement"]["cold_loads"] = 0
    plan["sample_size"] |= {"prompts_per_stratum": plan["strata"]["prompts_per_stratum"], "blocks": 1}
    plan["title"] += QUICK_TITLE
    plan["name"] += "-quick"
    left = {id for id, check in checks().items() if check.timing or gate_text(id).group == "resources"}
    for id, gate in plan["gates"].items():
        if id in left and gate["requirement"] == "required":
            gate["requirement"] = "if-available"
    return ComposedPlan(plan, composed.operational)


def read_hardware_class(path: Path | None) -> Mapping[str, Any] | None:
    """The class on which times count, from a JSON file such as a frozen plan or its ``hardware_class`` alone."""
    if path is None:
        return None
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ReportError(f"{path}: not readable as a hardware class ({error})") from error
    found = value.get("hardware_class", value) if isinstance(value, dict) else None
    if not isinstance(found, dict) or "architecture" not in found:
        raise ReportError(f"{path}: holds no hardware class; give a frozen plan.json, or its hardware_class part")
    return found


def refuse_weaker(baseline: Path, plan: Mapping[str, Any], reason: str, quick: bool) -> None:
    """A plan that asks less than the adopted one needs a written reason. Raises Damaged with what is weaker.

    Compared only where the adopted plan lies beside its verdict, and never in quick mode, which is weaker by design.
    """
    from ..harness.weakening import comparable, weakened

    adopted = (baseline if baseline.is_dir() else baseline.parent) / "plan.json"
    if quick or not adopted.is_file():
        return
    found = weakened(comparable(adopted), plan)
    if found and not reason.strip():
        raise Damaged(f"the plan asks less than the adopted one, without a reason (--reason): {'; '.join(found)}")
