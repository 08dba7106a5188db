"""The child of `sandbox.py`: limits itself, runs one job, answers with the nonce. Imports nothing of the package."""

from __future__ import annotations

import builtins
import json
import os
import resource
import sys
import types
from typing import Any

REFUSED = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.kill",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.chown",
    "os.truncate",
    "os.putenv",
    "os.listdir",
    "os.scandir",
    "shutil.",
    "ctypes.",
    "signal.",
    "pty.",
    "webbrowser.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "sqlite3.enable_load_extension",
    "sqlite3.load_extension",
)


def limit(seconds: float, memory: int) -> None:
    whole = max(1, int(seconds + 0.999))
    for name, value in (
        (resource.RLIMIT_CPU, whole),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
        (resource.RLIMIT_NPROC, 0),
    ):
        try:
            resource.setrlimit(name, (value, value))
        except (ValueError, OSError):
            continue  # a limit already lower, or unknown here; the others hold
    sys.setrecursionlimit(2000)


def leave_network() -> None:
    """A namespace without interfaces, where the kernel lets an ordinary user have one (Python 3.12 and newer)."""
    unshare = getattr(os, "unshare", None)
    if unshare is None:
        return
    try:
        unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return


def fence() -> None:
    readable = tuple({os.path.realpath(part) + os.sep for part in (sys.prefix, sys.base_prefix, os.__file__[:-5])})

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(REFUSED):
            raise PermissionError(f"{event} is not allowed in a check")
        if event == "sqlite3.connect" and args[0] not in (":memory:", b":memory:"):
            raise PermissionError("only a database in memory")
        if event == "open":
            path, mode, flags = args[0], args[1], args[2] if len(args) > 2 else 0
            writes = isinstance(mode, str) and bool(set(mode) & set("wax+"))
            writes |= isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if isinstance(path, int) or writes or not _inside(path, readable):
                raise PermissionError("files are not open to a check")

    sys.addaudithook(hook)


def _inside(path: Any, readable: tuple[str, ...]) -> bool:
    """Only the standard library may be read: importing from it is what an answer's code needs."""
    try:
        return os.path.realpath(os.fsdecode(path)).startswith(readable)
    except (TypeError, ValueError):
        return False


def run_python(code: str, tests: list[str]) -> int:
    module = sys.modules["answer"] = types.ModuleType("answer")  # dataclasses look their module up
    space = module.__dict__
    exec(compile(code, "<answer>", "exec"), space)
    passed = 0
    for test in tests:
        try:
            exec(compile(test, "<test>", "exec"), space)
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException:
            continue
        passed += 1
    return passed


def run_sql(setup: str, query: str) -> list[list[Any]] | None:
    """Rows of the last statement that gives any; None when none does."""
    import sqlite3

    def allow(action: int, *_: Any) -> int:
        """Other databases are opened by SQLite itself, out of the audit hook's sight."""
        return sqlite3.SQLITE_DENY if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH) else sqlite3.SQLITE_OK

    with sqlite3.connect(":memory:") as database:
        database.executescript(setup)
        database.set_authorizer(allow)
        rows: list[list[Any]] | None = None
        for statement in _statements(query):
            cursor = database.execute(statement)
            if cursor.description is not None:
                rows = [list(row) for row in cursor.fetchmany(1000)]
        return rows


def _statements(query: str) -> list[str]:
    import sqlite3

    found, start = [], 0
    for end, character in enumerate(query, 1):
        if character == ";" and sqlite3.complete_statement(query[start:end]):
            found.append(query[start:end])
            start = end
    return [part for part in [*found, query[start:]] if part.strip()]


def main() -> None:
    job = json.loads(sys.stdin.buffer.readline())
    nonce_source, out = sys.stdin.buffer, os.dup(1)
    if job["kind"] == "sql":
        import sqlite3  # noqa: F401  before the fence: its shared library lies outside what may be opened later
    leave_network()
    limit(job["seconds"], job["memory"])
    sys.stdout = sys.stderr = open(os.devnull, "w")
    builtins.input = lambda *_: ""
    fence()
    if job["kind"] == "python":
        result: Any = run_python(job["code"], job["tests"])
    else:
        result = run_sql(job["setup"], job["query"])
    nonce = nonce_source.readline().decode().strip()
    os.write(out, json.dumps({"nonce": nonce, "result": result}).encode())


if __name__ == "__main__":
    main()
