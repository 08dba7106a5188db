"""Memory of one process over time, sampled by a thread and labelled with what the process was doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .machine import peak_resident_bytes, resident_bytes

PHASES = ("start", "load_champion", "load_draft", "warmup", "request", "idle", "end")


class Timeline:
    """Samples ``[elapsed_ns, phase, resident_bytes, peak_resident_bytes, kv_bytes]``.

    One sample per interval and one at every change of phase, so that no phase is without one. An idle process is left
    alone: another may be timed meanwhile. ``interval_ms`` 0 samples at changes of phase only.
    """

    def __init__(self, interval_ms: int, kv_bytes: Callable[[], int]) -> None:
        self._started = time.monotonic_ns()
        self._kv_bytes = kv_bytes
        self._lock = threading.Lock()
        self._phase, self._peak = PHASES[0], 0
        self.samples: list[list[Any]] = []
        self._stop = threading.Event()
        self._sample()
        self._thread: threading.Thread | None = None
        if interval_ms > 0:
            self._thread = threading.Thread(target=self._loop, args=(interval_ms / 1000,), daemon=True)
            self._thread.start()

    def enter(self, phase: str) -> None:
        """Change the label; sampled before and after, so that both phases end and begin with a value."""
        if phase == self._phase:
            return
        self._sample()
        self._phase = phase
        self._sample()

    def end(self) -> list[list[Any]]:
        self.enter("end")
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        return self.samples

    def _sample(self) -> None:
        with self._lock:
            elapsed = time.monotonic_ns() - self._started
            self._peak = max(
                self._peak, peak_resident_bytes()
            )  # the kernel counts in batches, and may step back a little
            self.samples.append([elapsed, self._phase, resident_bytes(), self._peak, self._kv_bytes()])

    def _loop(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            if self._phase != "idle":
                self._sample()
