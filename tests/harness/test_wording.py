"""Counts and times as a person would say them."""

from __future__ import annotations

import pytest
from draftgate.harness.wording import counted, spoken


def test_one_of_a_kind_has_no_plural() -> None:
    assert [counted(n, "prompt") for n in (0, 1, 2, 1200)] == ["0 prompts", "1 prompt", "2 prompts", "1,200 prompts"]
    assert counted(1, "stratum", "strata") == "1 stratum" and counted(3, "stratum", "strata") == "3 strata"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (8.4, "8 s"), (95, "95 s"), (240, "4 min"), (3600, "60 min"), (9000, "2.5 h")],
)
def test_a_short_time_is_never_told_as_no_minutes(seconds: float, said: str) -> None:
    assert spoken(seconds) == said
