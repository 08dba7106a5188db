"""Where a run directory is in git: was the plan committed before the run's records?"""

from __future__ import annotations

import shutil
import subprocess

from .rundir import RunDir

SECONDS = 30


def _git(run_dir: RunDir, *arguments: str) -> str | None:
    tool = shutil.which("git")
    if tool is None:
        return None
    done = subprocess.run(
        [tool, "-C", str(run_dir.path), *arguments], capture_output=True, timeout=SECONDS, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def _first_commit(run_dir: RunDir, name: str) -> str | None:
    """The commit that added a file."""
    said = _git(run_dir, "log", "--diff-filter=A", "--format=%H", "--", name)
    return said.splitlines()[-1] if said else None


def plan_precedes_run(run_dir: RunDir) -> tuple[bool | None, str]:
    """True: the plan's commit is a proper ancestor of the ledger's. False: it is not, or the plan changed after
    it. None: not in git, or not both committed. With a sentence."""
    if _git(run_dir, "rev-parse", "--is-inside-work-tree") != "true":
        return None, "git: the run directory is not in a repository"
    plan, ledger = _first_commit(run_dir, "plan.json"), _first_commit(run_dir, "ledger.jsonl")
    if plan is None or ledger is None:
        return None, f"git: {'plan.json' if plan is None else 'ledger.jsonl'} is not committed"
    if plan == ledger:
        return False, f"git: plan and run entered in one commit, {plan[:12]}: the order is not shown"
    if _git(run_dir, "merge-base", "--is-ancestor", plan, ledger) is None:
        return False, f"git: the plan's commit {plan[:12]} does not precede the run's {ledger[:12]}"
    changes = _git(run_dir, "log", "--format=%H", "--", "plan.json") or ""
    if len(changes.splitlines()) != 1:
        return False, "git: plan.json was changed after it was first committed"
    return True, f"git: the plan's commit {plan[:12]} precedes the run's {ledger[:12]}"
