"""Receipts hold exactly the allowed fields and nothing private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms.receipt import FIELDS, receipt_problems
from support.arms_kit import Kit


def receipt() -> dict[str, Any]:
    completion = (
        Kit({"temperature": 1.0})
        .neural(identities={"champion_artifact_hash": "ab" * 32})
        .generate(Kit().request(n=20, stream="secret stream"))
    )
    assert completion.receipt is not None
    return completion.receipt


def test_a_receipt_has_exactly_the_allowed_fields() -> None:
    made = receipt()
    assert list(made) == list(FIELDS) and receipt_problems(made) == []
    assert len(FIELDS) == 23


@pytest.mark.parametrize("name", ["prompt", "text", "tokens", "path", "hostname"])
def test_any_other_field_is_refused(name: str) -> None:
    assert receipt_problems({**receipt(), name: "x"}) == [f"field {name} is not allowed"]


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_field_is_needed_and_typed(name: str) -> None:
    made = receipt()
    assert receipt_problems({k: v for k, v in made.items() if k != name}) == [f"field {name} is missing"]
    assert receipt_problems({**made, name: None})
    assert receipt_problems({**made, name: ["a list"]})


@pytest.mark.parametrize(
    "change",
    [
        {"failure_code": "x" * 65},
        {"timing_ns": {"prompt": 1}},
        {"accepted_histogram": {"hello world": 1}},
        {"numeric_errors": {"target_numeric": "text"}},
    ],
)
def test_nothing_private_fits_inside_an_allowed_field(change: dict[str, Any]) -> None:
    assert receipt_problems({**receipt(), **change})


def test_a_receipt_is_json_and_says_nothing_of_seed_prompt_or_place() -> None:
    text = json.dumps(receipt())
    for private in ("secret stream", str(Path.cwd()), "(1, 2, 3)", "[1, 2, 3]"):
        assert private not in text


def test_histograms_add_up() -> None:
    completion = Kit({"temperature": 1.0}).neural().generate(Kit().request(n=40))
    made = completion.receipt
    assert made is not None
    assert sum(made["accepted_histogram"].values()) == sum(1 for r in completion.rounds if r.proposed)
    assert sum(made["rejection_position_histogram"].values()) == sum(r.outcome == "rejected" for r in completion.rounds)
    assert made["proposals"] == sum(r.proposed for r in completion.rounds)
