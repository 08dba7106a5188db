"""A bar with the time left, on stderr, only on a terminal."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, Protocol

from .schedule import Item


class Progress(Protocol):
    def begin(self, total: int, done: int) -> None: ...

    def advance(self, item: Item) -> None: ...

    def note(self, text: str) -> None:
        """What is being done now."""


class Silent:
    def begin(self, total: int, done: int) -> None: ...

    def advance(self, item: Item) -> None: ...

    def note(self, text: str) -> None: ...


class Bar:
    """`rich`'s bar; use as a context manager."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(file=sys.stderr, no_color="NO_COLOR" in os.environ or None)
        self._bar = RichProgress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
        )
        self._task: Any = None

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, total: int, done: int) -> None:
        self._task = self._bar.add_task("requests", total=total, completed=done)

    def advance(self, item: Item) -> None:
        self._bar.update(self._task, advance=1, description=f"{item.stratum} · {item.arm}")

    def note(self, text: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, description=text)
