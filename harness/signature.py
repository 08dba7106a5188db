"""An SSH signature over plan.json: made and checked by `ssh-keygen -Y`, so that the key people already have is
enough."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .errors import DraftgateError, IntegrityError, PlanError
from .rundir import RunDir

NAMESPACE = "draftgate-plan"
"""Keeps a signature made for something else from counting as one."""
SECONDS = 60


def _ssh_keygen(arguments: list[str], data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    tool = shutil.which("ssh-keygen")
    if tool is None:
        raise DraftgateError("ssh-keygen is not installed; it signs and checks plans")
    return subprocess.run(
        [tool, *arguments], input=data, stdin=subprocess.DEVNULL if data is None else None, capture_output=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip


def sign_plan(run_dir: RunDir, key: Path) -> Path:
    """Sign with a private key, or with a public one whose private half an agent holds. Raises PlanError."""
    if not key.is_file():
        raise PlanError(f"{key}: no such key")
    run_dir.signature.unlink(missing_ok=True)  # ssh-keygen asks before it overwrites
    done = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(run_dir.plan)])
    if done.returncode != 0 or not run_dir.signature.is_file():
        raise PlanError(f"{key}: ssh-keygen could not sign: {done.stderr.decode(errors='replace').strip()}")
    return run_dir.signature


def check_signature(run_dir: RunDir, allowed_signers: Path) -> str:
    """Who signed plan.json, by an allowed-signers file. Raises IntegrityError when nobody in it did."""
    if not allowed_signers.is_file():
        raise PlanError(f"{allowed_signers}: no such allowed-signers file")
    if not run_dir.signature.is_file():
        raise IntegrityError(f"{run_dir.signature}: the plan is not signed")
    where = ["-s", str(run_dir.signature), "-f", str(allowed_signers)]
    found = _ssh_keygen(["-Y", "find-principals", *where])
    names = found.stdout.decode(errors="replace").split("\n")
    for name in filter(None, (n.strip() for n in names)):
        done = _ssh_keygen(["-Y", "verify", *where, "-I", name, "-n", NAMESPACE], run_dir.plan.read_bytes())
        if done.returncode == 0:
            return name
    raise IntegrityError(f"{run_dir.signature}: not a signature of this plan by anyone in {allowed_signers.name}")
