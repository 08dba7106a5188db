"""What a report reads from a run directory: the evidence, as the gates read it. No model, nothing private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..gates.evidence import Evidence, load_evidence
from ..gates.result import Verdict
from .stated import stated


@dataclass(frozen=True)
class RunRecords:
    path: Path
    evidence: Evidence

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        """The plan in the shape that reports print, whatever it left out; the gates read ``evidence.plan``."""
        return stated(self.evidence.plan)

    @property
    def plan_id(self) -> str:
        return self.evidence.plan_id

    @property
    def candidate(self) -> str:
        return str(self.plan["candidate"])

    @property
    def strata(self) -> list[str]:
        return [str(s["name"]) for s in self.plan["strata"]]

    @property
    def arms(self) -> list[str]:
        return [str(a["name"]) for a in self.plan["arms"]]

    @property
    def complete(self) -> bool:
        return any(record.get("kind") == "close" for record in self.evidence.ledger.records)

    def table(self, name: str) -> pd.DataFrame:
        """One stored table (`harness/tables.py`); no rows where nothing was stored."""
        frame: pd.DataFrame = getattr(self.evidence, name)
        return frame


def load_records(run_dir: Path, verdict: Verdict | None = None) -> RunRecords:
    """Reads a run directory, unless ``verdict`` was reached on just that directory and brings what it was reached on.

    Raises EvidenceError (2) for what is not one, IncompleteRun (6) before its end.
    """
    path = Path(run_dir)
    seen = verdict.evidence if verdict is not None else None
    if isinstance(seen, Evidence) and seen.root is not None and seen.root == path.resolve():
        return RunRecords(path, seen)
    return RunRecords(path, load_evidence(path))
