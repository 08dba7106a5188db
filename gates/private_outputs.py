"""Token ids of single answers, from the private folder of a run, for the message that names a first difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..harness.journal import live_records, read_line
from ..harness.ledger import read_ledger
from ..harness.rundir import RunDir


@dataclass(frozen=True)
class PrivateOutputs:
    """Reads answers on demand; those that were withheld, deleted or changed are simply not there."""

    run_dir: Path

    def __call__(self, request_ids: Iterable[str]) -> dict[str, list[int]]:
        wanted, found = set(request_ids), {}
        run_dir = RunDir(self.run_dir)
        if not wanted or not run_dir.private.is_dir():
            return {}
        for _, body in live_records(read_ledger(run_dir).records, "request"):
            name = str(body.get("request_id"))
            if name in wanted:
                try:
                    found[name] = [int(t) for t in read_line(run_dir, body, private=True)["output"]]
                except (OSError, ValueError, KeyError, TypeError):
                    continue
        return found


def first_difference(arm: list[int], champion: list[int]) -> dict[str, Any]:
    """Position of the first difference and both tokens there; None for a token where one answer had ended."""
    at = next((i for i, (a, b) in enumerate(zip(arm, champion, strict=False)) if a != b), min(len(arm), len(champion)))
    return {
        "position": at,
        "arm_token": arm[at] if at < len(arm) else None,
        "champion_token": champion[at] if at < len(champion) else None,
    }
