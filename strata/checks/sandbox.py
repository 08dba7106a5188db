"""Runs an answer's code in a child process that can do little: no files, no network, bounded time and memory.

A fence against accidents of a language model's code, not a wall against an attacker: resource limits, an empty
environment, an isolated interpreter in an empty folder, a network namespace of its own where the kernel grants one, and
an audit hook that refuses sockets, processes, foreign libraries and files. The result counts only with a nonce that the
child receives after the answer's code has run, so an early exit passes nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MEMORY_BYTES = 512 * 1024 * 1024
MAX_OUTPUT_BYTES = 1 << 20
GRACE_SECONDS = 1.0
"""Wall-clock time beyond the CPU limit for starting the interpreter on a busy machine."""

_CHILD = Path(__file__).with_name("child.py")


def run_python(code: str, tests: list[str], *, seconds: float) -> int:
    """How many of the tests pass after the code has run. 0 when it raises, hangs, exits or is killed."""
    result = _run({"kind": "python", "code": code, "tests": tests}, seconds)
    if not isinstance(result, int) or isinstance(result, bool):
        return 0
    return min(max(result, 0), len(tests))


def run_sql(setup: str, query: str, *, seconds: float) -> list[list[Any]] | None:
    """Rows of the last statement that gives any, on an in-memory SQLite after ``setup``; None when none does."""
    result = _run({"kind": "sql", "setup": setup, "query": query}, seconds)
    return result if isinstance(result, list) else None


def _run(job: dict[str, Any], seconds: float) -> Any:
    nonce = secrets.token_hex(16)
    job |= {"seconds": seconds, "memory": MEMORY_BYTES}
    wire = json.dumps(job).encode() + b"\n" + nonce.encode() + b"\n"
    with tempfile.TemporaryDirectory(prefix="draftgate-check-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": "/nonexistent", "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(wire, timeout=2 * seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            out = b""
        finally:
            _end(process)
    return _verdict(out, nonce)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and whatever it started: it leads a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.kill()
    process.communicate()


def _verdict(out: bytes, nonce: str) -> Any:
    try:
        answer = json.loads(out[:MAX_OUTPUT_BYTES])
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.get("nonce") != nonce:
        return None
    return answer.get("result")
