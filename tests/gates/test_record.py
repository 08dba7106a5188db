"""Judging a finished run again gives the same bytes: the verdict's own record is not counted."""

from __future__ import annotations

import pytest
from draftgate.gates.checks.record import _judged


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        ((), 0),
        (("plan", "request", "close"), 3),
        (("plan", "close", "verdict"), 2),
        (("plan", "close", "verdict", "verdict"), 2),
        (("plan", "close", "verdict", "deviation", "close", "verdict"), 5),
    ],
)
def test_verdicts_at_the_end_are_not_counted(kinds: tuple[str, ...], count: int) -> None:
    assert _judged([{"kind": kind} for kind in kinds]) == count
