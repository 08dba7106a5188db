"""What a run directory holds, as tests ask for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftgate.harness.freeze import load_plan
from draftgate.harness.journal import live_records
from draftgate.harness.ledger import read_ledger
from draftgate.harness.schedule import Schedule


def keys(folder: Path) -> list[str]:
    """Keys of the live request records, in no order."""
    return sorted(b["request_id"] for _, b in live_records(read_ledger(folder).records, "request"))


def scheduled(folder: Path) -> list[str]:
    return sorted(i.request_id for i in Schedule(load_plan(folder)).requests())


def verdict(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "verdict.json").read_bytes())
    return value


def deviations(folder: Path) -> list[str]:
    return [r.body["kind"] for r in read_ledger(folder).records.of_kind("deviation")]
