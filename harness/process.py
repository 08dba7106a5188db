"""Starting workers: each in a fresh subprocess, or (for tests) inside this process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Protocol

from .errors import DraftgateError, IncompleteRun
from .identity import PACKAGE
from .worker import read_line


class WorkerDied(IncompleteRun):
    """The worker's process ended without an answer."""


class WorkerFailed(DraftgateError):
    """The worker answered with an error; ``kind`` is its class, ``exit_code`` the code that class carries."""

    def __init__(self, message: str, kind: str, exit_code: int | None) -> None:
        super().__init__(message)
        self.kind = kind
        self.user_error = exit_code is not None
        self.exit_code = exit_code if exit_code is not None else 1


class Worker(Protocol):
    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """One message, one answer. Raises WorkerDied or WorkerFailed."""


class Executor(Protocol):
    """How workers come to be; several may live at once."""

    def start(self) -> contextlib.AbstractContextManager[Worker]: ...


class SubprocessWorker:
    def __init__(self, process: subprocess.Popen[bytes], log: Any) -> None:
        self._process, self._log = process, log

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()
            line = read_line(self._process.stdout)  # type: ignore[arg-type]
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if not line.endswith(b"\n"):
            code = self._process.wait()
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip().splitlines()
            last = f": {said[-1][:300]}" if said else ""
            raise WorkerDied(f"a worker process ended with status {code} during {message['type']!r}{last}")
        return _checked(json.loads(line))


def _checked(reply: dict[str, Any]) -> dict[str, Any]:
    if "error" in reply:
        text = str(reply["error"])
        if reply.get("exit_code") is None:
            text = f"{reply.get('kind')}: {text}\n{reply.get('trace', '')}".rstrip()
        raise WorkerFailed(text, str(reply.get("kind")), reply.get("exit_code"))
    return reply


class SubprocessExecutor:
    """A fresh Python per worker, started without a shell."""

    @contextlib.contextmanager
    def start(self) -> Iterator[Worker]:
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{PACKAGE}.harness.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which decides
            )
            try:
                yield SubprocessWorker(process, log)
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=30)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with contextlib.suppress(OSError):
                            pipe.close()


class InlineWorker:
    """The session in this process, through the same JSON: for tests, where a subprocess per arm would dominate."""

    def __init__(self) -> None:
        from .session import WorkerSession

        self._session = WorkerSession()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = self._session.handle(json.loads(json.dumps(message)))
        except Exception as error:
            code = getattr(error, "exit_code", None)
            reply = {"error": str(error), "kind": type(error).__name__, "exit_code": code}
        checked: dict[str, Any] = json.loads(json.dumps(_checked(reply)))
        return checked


class InlineExecutor:
    @contextlib.contextmanager
    def start(self) -> Iterator[Worker]:
        yield InlineWorker()
