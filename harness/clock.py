"""Time, injectable: everything the harness itself reads a clock for goes through here."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def wall_ns(self) -> int:
        """Nanoseconds since 1970, UTC; may step."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start; never steps back."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


def iso(wall_ns: int) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
