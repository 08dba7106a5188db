"""No training text may come from the workload strata: overlap is found through hashes of word n-grams alone.

The hashes are made by `strata/sealing.py`, so a sealed prompt is never read here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ..errors import ArmError
from .prompts import TrainingPrompt

MAX_DROPPED_SHARE = 0.01


@dataclass
class Filter:
    """Drops prompts that share an n-gram with the strata; too many of them is a refusal, not a filter."""

    hashes: Collection[int]
    sha256: str
    """Identity of the hash set, for the receipt."""
    words: int
    seen: int = field(default=0)
    dropped: int = field(default=0)

    def overlaps(self, text: str) -> bool:
        from ...strata.sealing import ngram_hashes

        return not self.hashes_of(ngram_hashes([text], self.words)).isdisjoint(self.hashes)

    @staticmethod
    def hashes_of(values: Iterable[int]) -> set[int]:
        return set(values)

    def keep(self, prompts: Iterable[TrainingPrompt]) -> Iterator[TrainingPrompt]:
        for prompt in prompts:
            self.seen += 1
            if self.overlaps(prompt.text):
                self.dropped += 1
                if self.dropped > 20 and self.dropped > MAX_DROPPED_SHARE * self.seen:
                    raise ArmError(
                        f"{self.dropped} of {self.seen} training prompts overlap the workload strata; these prompts "
                        "must not train a draft that will be judged on them"
                    )
                continue
            yield prompt
