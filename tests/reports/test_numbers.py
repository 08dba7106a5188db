"""Numbers for people: never a NaN, always a unit, one sign."""

from __future__ import annotations

import math

import pytest
from draftgate.reports.numbers import NONE, bound, count, interval, quantity
from hypothesis import given
from hypothesis import strategies as st

UNITS = ["ratio", "probability", "bytes", "s", "ns", "tokens", ""]


@given(st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf, -math.inf]), st.sampled_from(UNITS))
def test_no_number_reads_as_nan_or_with_a_hyphen_for_a_minus(value: float, unit: str) -> None:
    text = quantity(value, unit)
    assert "nan" not in text and "inf" not in text and text
    assert not text.startswith("-")
    if math.isnan(value):
        assert text == NONE


@given(st.floats(0.01, 99.0))
def test_a_ratio_is_readable_back_to_three_decimals(value: float) -> None:
    text = quantity(value, "ratio")
    assert text.endswith("×")
    assert float(text[:-1]) == pytest.approx(value, abs=0.05 if value >= 10 else 0.0005 + 1e-12)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.42, "ratio", "1.420×"), (0.05, "probability", "5 %"), (1024**2 * 218.4, "bytes", "218.4 MiB"), (1.5e6, "ns",
    "1.5 ms"),
     (-0.014, "s", "−14 ms"), (0.0, "s", "0 s"), (1234567, "tokens", "1,234,567 tokens"), (math.inf, "tokens",
     "never")],
)  # fmt: skip
def test_units(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_missing_parts_are_dashes() -> None:
    assert interval(None, "ratio") == NONE and quantity(None) == NONE and bound(">=", None) == NONE
    assert interval([None, 1.0], "ratio") == f"[{NONE}, 1.000×]"
    assert interval([math.nan, math.nan], "ratio") == NONE
    assert bound(">=", 1.15, "ratio") == "≥ 1.150×" and bound("within", 1.01, "ratio") == "within ±1 %"
    assert count(0, "stratum", "strata") == "no strata" and count(1, "prompt") == "1 prompt"
