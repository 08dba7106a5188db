"""One runner per run directory. The kernel drops the lock when its holder dies, so a stale one cannot exist."""

from __future__ import annotations

import fcntl
import json
import os
from types import TracebackType

from .atomic import disk_errors
from .errors import DraftgateError
from .rundir import RunDir


class RunLock:
    """Context manager. Raises DraftgateError when another process holds the directory."""

    def __init__(self, run_dir: RunDir) -> None:
        self.path = run_dir.lock
        self._handle = -1

    def __enter__(self) -> RunLock:
        with disk_errors(self.path):
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._owner()
            os.close(self._handle)
            raise DraftgateError(
                f"{self.path.parent} is being run by process {owner}; wait for it or stop it, nothing was changed"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps({"pid": os.getpid()}).encode(), 0)
        return self

    def _owner(self) -> str:
        try:
            return str(json.loads(os.pread(self._handle, 200, 0))["pid"])
        except (ValueError, KeyError, TypeError):
            return "unknown"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)
