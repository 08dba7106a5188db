"""After the requests: what is measured off the clock, each result an audit record."""

from __future__ import annotations

from .runner import Runner


def off_clock(runner: Runner) -> None:
    """Runs what is not recorded yet."""
