"""Every path of a run directory, in one class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """A run directory. Files inside are named by stable names; nothing here touches the disk."""

    path: Path

    def __init__(self, path: Path | str | RunDir) -> None:
        object.__setattr__(self, "path", path.path if isinstance(path, RunDir) else Path(path))

    @property
    def plan(self) -> Path:
        """The frozen plan, RFC 8785 bytes; its sha256 is the plan id."""
        return self.path / "plan.json"

    @property
    def card(self) -> Path:
        """The decision card whose hash is in the plan; absent when none was computed."""
        return self.path / "decision_card.json"

    @property
    def operational(self) -> Path:
        """Local paths and workers: not hashed, not published."""
        return self.path / "operational.json"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def head(self) -> Path:
        """Length and last hash of a closed ledger: what makes a dropped last record visible."""
        return self.path / "ledger.head.json"

    @property
    def lock(self) -> Path:
        return self.path / "run.lock"

    @property
    def parts(self) -> Path:
        """Rounds and memory samples, one append-only file per unit."""
        return self.path / "parts"

    @property
    def private(self) -> Path:
        """Token ids and salts, bound by hash; may be withheld or deleted after the run."""
        return self.path / "private"

    def part(self, unit_index: int) -> Path:
        return self.parts / f"{unit_index:05d}.jsonl"

    def private_part(self, unit_index: int) -> Path:
        return self.private / f"{unit_index:05d}.jsonl"

    @property
    def extra_part(self) -> Path:
        """Rows of shadow and scores, written after the requests."""
        return self.parts / "extra.jsonl"

    @property
    def salt(self) -> Path:
        return self.private / "salt.json"

    @property
    def seal(self) -> Path:
        """Salts of sealed prompts, revealed when the run starts."""
        return self.private / "seal.json"

    @property
    def torn(self) -> Path:
        """Bytes cut from the end of files after a crash are kept here."""
        return self.path / "torn"

    @property
    def results(self) -> Path:
        return self.path / "results"

    def table(self, name: str) -> Path:
        return self.results / f"{name}.parquet"

    @property
    def verdict(self) -> Path:
        return self.path / "verdict.json"

    @property
    def signature(self) -> Path:
        return self.path / "plan.json.sig"

    @property
    def envelope(self) -> Path:
        return self.path / "plan.dsse.json"
