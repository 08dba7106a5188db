"""A run reads and writes plain files of its own folder only: a link would carry an edit to somebody else's file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import IntegrityError, PlanError
from .rundir import RunDir


def foreign_files(run_dir: RunDir, *, links: bool = False) -> list[str]:
    """One line for every entry of the run's folders that is neither a plain file nor a folder.

    A link counts as what it leads to where ``links`` are allowed: harmless to a reader.
    """
    folders = (run_dir.parts, run_dir.private, run_dir.torn, run_dir.results)
    found = list(_odd(run_dir.path, links))
    for folder in folders:
        if folder.is_dir() and (links or not folder.is_symlink()):
            found += _odd(folder, links)
    return found


def require_own_files(run_dir: RunDir) -> None:
    """Raises IntegrityError before anything is opened for writing."""
    problems = foreign_files(run_dir)
    if problems:
        raise IntegrityError(f"{problems[0]}; put a copy of the file there, nothing was changed")


def require_run_folder(run_dir: RunDir) -> None:
    """Raises PlanError where a plan would be frozen among somebody else's files.

    Free are: no folder yet, an empty one, one with a plan or a ledger (whose plan is compared later), and what a freeze
    leaves that was killed before its last file.
    """
    folder = run_dir.path
    if not folder.exists():
        return
    if not folder.is_dir():
        raise PlanError(f"{folder}: is a file; name a folder that does not exist yet")
    if run_dir.plan.exists() or run_dir.ledger.exists():
        return
    mine = {run_dir.card, run_dir.operational, run_dir.seal}
    there = [p for top in folder.iterdir() for p in (top.iterdir() if top == run_dir.private else [top])]
    foreign = sorted(str(p.relative_to(folder)) for p in there if p not in mine and not _half_written(p.name))
    if foreign:
        shown = ", ".join(foreign[:3]) + (" and more" if len(foreign) > 3 else "")
        raise PlanError(
            f"{folder}: holds files that are not a run's ({shown}); name a folder that is new, empty, or a run of this "
            "plan to go on with"
        )


def _half_written(name: str) -> bool:
    """A temporary of `replacing`, left by a process that was killed."""
    return name.startswith(".") and name.endswith(".part")


def _odd(folder: Path, links: bool) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            mode = entry.stat(follow_symlinks=links and os.path.exists(entry)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and not (links and stat.S_ISLNK(mode)):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a plain file"
                yield f"{folder / entry.name} is {kind}"
