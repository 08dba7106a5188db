"""The shipped sampler held to account while outcomes are enumerated: its own mapping, at the edges of each outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arms.draws import PhiloxDraws
from .choices import Choices
from .law import ONE, Masses


class SamplerMismatch(AssertionError):
    """The shipped mapping from integers to outcomes is not the declared one."""


class _Fixed(PhiloxDraws):
    """The shipped draws with the integer given."""

    def __init__(self, r: int) -> None:
        self.r = r

    def uniform(self, n: int, domain: str, position: int) -> int:
        if not 1 <= self.r <= n:
            raise SamplerMismatch(f"a draw was asked from [1, {n}], which does not hold {self.r}")
        return self.r


@dataclass
class SamplerChoices(Choices):
    """Choices that hold the shipped draws to the same probabilities as they go."""

    checked: set[Any] = field(default_factory=set)
    """Draws already held to account in this enumeration."""

    def categorical(self, masses: Masses, domain: str, position: int, total: int = ONE) -> int:
        key = (masses.tobytes(), total)
        if key not in self.checked:
            self.checked.add(key)
            self._check_categorical(masses, domain, position, total)
        return super().categorical(masses, domain, position)

    def _check_categorical(self, masses: Masses, domain: str, position: int, total: int) -> None:
        if int(masses.sum(dtype=np.uint64)) != total:
            raise SamplerMismatch(f"{domain} at {position}: the masses do not sum to the stated total")
        below = 0
        for token in np.flatnonzero(masses).tolist():
            reached = below + int(masses[token])
            for r in (below + 1, (below + 1 + reached) // 2, reached):
                if _Fixed(r).categorical(masses, domain, position, total) != token:
                    raise SamplerMismatch(f"{domain} at {position}: integer {r} does not fall on token {token}")
            below = reached

    def accept(self, q_y: int, p_y: int, position: int) -> bool:
        if (q_y, p_y) not in self.checked:
            self.checked.add((q_y, p_y))
            for r in {1, min(q_y, p_y), min(q_y + 1, p_y), p_y} - {0}:
                if _Fixed(r).accept(q_y, p_y, position) != (r <= q_y):
                    raise SamplerMismatch(f"accept at {position}: {r} of {p_y} against {q_y} is decided wrongly")
        return super().accept(q_y, p_y, position)
