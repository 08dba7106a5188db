"""What proposers without a model share: always the same k, no forward calls, nothing provisional to undo."""

from __future__ import annotations

from collections.abc import Sequence

from .proposer import Hidden, Proposer


class ModelFree:
    """A `proposer.Proposer` but for `prefill`, `propose`, `fingerprint` and `twin`, which are its subclasses' own."""

    state_layers: Sequence[int] | None = None
    calls = 0
    forward_ns = 0

    def __init__(self, k: int, stop_ids: frozenset[int]) -> None:
        self.maximum, self.stop_ids = k, stop_ids

    def take_over(self, previous: Proposer | None, n: int) -> bool:
        return True

    def requested(self) -> int:
        return self.maximum

    def settle(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        return None

    def observe(self, tokens: Sequence[int], hidden: Hidden) -> None:
        return None

    def abandon(self) -> None:
        return None

    def close(self) -> None:
        return None
