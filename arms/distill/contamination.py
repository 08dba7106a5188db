"""No training text may come from the workload strata: overlap is found through hashes of word n-grams alone.

The hashes are made and shipped by `strata/contamination.py`, so a sealed prompt is never read here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...strata.contamination import Grams, is_contaminated, shipped_hashes
from ...strata.load import data_folder
from ..errors import ArmError
from .prompts import TrainingPrompt

MAX_DROPPED_SHARE = 0.01
FEW = 20
"""So many may be dropped whatever their share: short everyday sentences collide."""


@dataclass
class Filter:
    """Drops prompts and sequences that repeat the strata; too many of them is a refusal, not a filter."""

    hashes: Grams
    sha256: str
    """Identity of the hash set, for the receipt."""
    seen: int = field(default=0)
    dropped: int = field(default=0)

    @classmethod
    def shipped(cls) -> Filter:
        """The strata as shipped. Raises StrataError when their hashes are missing."""
        grams = shipped_hashes()
        return cls(grams, hashlib.sha256((data_folder() / "ngram_hashes.bin").read_bytes()).hexdigest())

    def overlaps(self, text: str) -> bool:
        """Raises ArmError once more than MAX_DROPPED_SHARE of all texts overlap."""
        self.seen += 1
        if not is_contaminated(text, self.hashes):
            return False
        self.dropped += 1
        if self.dropped > FEW and self.dropped > MAX_DROPPED_SHARE * self.seen:
            raise ArmError(
                f"{self.dropped} of {self.seen} training texts overlap the workload strata; they must not train a "
                "draft that will be judged there. Use prompts of your own"
            )
        return True

    def keep(self, prompts: Iterable[TrainingPrompt]) -> Iterator[TrainingPrompt]:
        return (prompt for prompt in prompts if not self.overlaps(prompt.text))

    def clean(self, texts: Sequence[str]) -> list[int]:
        """Indices of the texts that overlap nothing."""
        return [index for index, text in enumerate(texts) if not self.overlaps(text)]
