"""What one proof or audit found: the body of a ledger record, and a line of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """``n`` counts what was checked (the ``unit`` says of what); a check of nothing is never ok."""

    name: str
    ok: bool
    n: int
    unit: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: what was checked, the first mismatch, powers and levels."""

    def __post_init__(self) -> None:
        if self.ok and self.n <= 0:
            raise ValueError(f"{self.name}: nothing was checked, so nothing was found in order")

    def body(self) -> dict[str, Any]:
        """As the ledger stores it."""
        return {"name": self.name, "ok": self.ok, "n": self.n, "detail": {"unit": self.unit, **self.detail}}
