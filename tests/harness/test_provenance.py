"""Provenance: a receipt is about this file, this champion and these strata, or the gate that asks for it fails."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms.training_receipt import TrainingReceipt, receipt_path
from draftgate.harness.provenance import provenance_audit, provenance_notes
from draftgate.strata.load import data_folder

DRAFT, CHAMPION = "d" * 64, "c" * 64


def plan(requirement: str = "required") -> dict[str, Any]:
    return {
        "draft": {"sha256": DRAFT}, "champion": {"sha256": CHAMPION},
        "gates": [{"id": "provenance", "requirement": requirement, "params": {}}],
        "strata": [{"name": "mine", "source": "file:mine.jsonl"}, {"name": "code", "source": "code"}],
    }  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    shipped = hashlib.sha256((data_folder() / "ngram_hashes.bin").read_bytes()).hexdigest()
    receipt = TrainingReceipt(
        "feature", DRAFT, 10, "Apache-2.0", "t", "p", shipped, 3, "k", "s", 1, 10, 2, 1.0, 1.0, 0.5, CHAMPION,
        "Apache-2.0",
    )  # fmt: skip
    draft = folder / "draft.gguf"
    receipt_path(draft).write_text(json.dumps(dataclasses.asdict(dataclasses.replace(receipt, **changes))))
    return draft


def test_a_receipt_that_fits_is_in_order_and_says_what_it_does_not_cover(tmp_path: Path) -> None:
    body = provenance_audit(plan(), written(tmp_path))
    assert body is not None and body["ok"] and body["detail"]["not_covered"] == ["mine"]
    assert provenance_audit(plan(), None) is None, "no draft, nothing to say"
    assert provenance_notes(plan(), written(tmp_path)) == provenance_notes(plan(), None) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"file_sha256": "0" * 64}, "about another file"),
        ({"champion_sha256": "0" * 64}, "another champion"),
        ({"contamination_sha256": "0" * 64}, "not filtered against these strata"),
    ],
)
def test_a_receipt_about_something_else_is_not(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    body = provenance_audit(plan(), written(tmp_path, **changes))
    assert body is not None and not body["ok"] and problem in body["detail"]["reason"]
    assert problem in provenance_notes(plan(), written(tmp_path, **changes))[0], "said at freeze, not after the run"


def test_a_missing_receipt_fails_where_it_is_required_and_is_a_gap_elsewhere(tmp_path: Path) -> None:
    draft = tmp_path / "draft.gguf"
    body = provenance_audit(plan(), draft)
    assert body is not None and not body["ok"] and "draft.receipt.json is missing" in body["detail"]["reason"]
    assert str(tmp_path) not in json.dumps(body), "no local path in the record"
    assert provenance_audit(plan("if-available"), draft) is None
