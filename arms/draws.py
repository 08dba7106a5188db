"""Every random decision of an arm goes through the `Draws` protocol; `PhiloxDraws` ships.

Mapping `rng/1`: Philox-4x32-10; key = the first eight bytes, little-endian, of
sha256("draftgate rng/1\\0" + seed as 8 bytes little-endian + stream as UTF-8); counter = (domain, round, position,
try); x = word 1 * 2**32 + word 0; an integer uniform in [1, n] is 1 + floor(x * n / 2**64), and x is rejected (try + 1)
while x * n mod 2**64 < 2**64 mod n. So no draw depends on how many others were made before it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final, Protocol

from . import _sampling
from .masses import TOTAL, Masses, pick

MAPPING: Final = "rng/1"
DOMAINS: Final = {
    "draft_sample": 0,
    "accept_uniform": 1,
    "correction_sample": 2,
    "target_extra": 3,
    "target_baseline": 4,
    "pit": 5,
    "policy": 6,
}
"""Domain to number. ``policy`` decides randomised probe rounds; it touches no token."""


class Draws(Protocol):
    """The chance in one round. Positions count from 0 within the round."""

    def categorical(self, masses: Masses, domain: str, position: int, total: int = TOTAL) -> int:
        """An index with probability masses[index] / total; ``total`` is the sum of the masses. In a whole row it is the
        token, in a residual or a short row the place of one."""

    def accept(self, q_y: int, p_y: int, position: int) -> bool:
        """True with probability min(1, q_y / p_y); p_y >= 1."""


class CounterReused(AssertionError):
    """Two draws of one key came from the same counter: they would be the same number."""


@lru_cache(maxsize=256)
def key_of(seed: int, stream: str) -> int:
    """The 64-bit Philox key of a request's draws."""
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed is an unsigned 64-bit number, not {seed}")
    text = b"draftgate rng/1\0" + seed.to_bytes(8, "little") + stream.encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


class PhiloxDraws:
    """Draws of one round of one request, by counters alone: the same arguments give the same draws, in any order."""

    used: set[tuple[int, int, int, int]] | None = None
    """Assertion mode: put a set here (on the class, in tests) and a counter used twice raises CounterReused."""

    def __init__(self, seed: int, stream: str, round: int) -> None:
        self.key, self.round = key_of(seed, stream), round

    def uniform(self, n: int, domain: str, position: int) -> int:
        """An integer uniform in [1, n], 1 <= n < 2**64."""
        number = DOMAINS[domain]
        if self.used is not None:
            counter = (self.key, number, self.round, position)
            if counter in self.used:
                raise CounterReused(f"{domain}, round {self.round}, position {position} was drawn twice")
            self.used.add(counter)
        return int(_sampling.bounded(self.key, number, self.round, position, n)[0])

    def categorical(self, masses: Masses, domain: str, position: int, total: int = TOTAL) -> int:
        return pick(masses, self.uniform(total, domain, position))

    def accept(self, q_y: int, p_y: int, position: int) -> bool:
        return self.uniform(p_y, "accept_uniform", position) <= q_y


_M0, _M1, _W0, _W1, _WORD = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF


def philox_reference(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox-4x32-10 in plain Python: the definition the native one is tested against."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & _WORD, key >> 32
    for _ in range(10):
        a, b = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & _WORD, (a >> 32) ^ c3 ^ k1, a & _WORD
        k0, k1 = (k0 + _W0) & _WORD, (k1 + _W1) & _WORD
    return c0, c1, c2, c3


def bounded_reference(key: int, domain: int, round: int, position: int, n: int) -> tuple[int, int]:
    """(integer uniform in [1, n], tries) in plain Python."""
    attempt = 0
    while True:
        words = philox_reference(key, (domain, round, position, attempt))
        product = (words[1] << 32 | words[0]) * n
        attempt += 1
        if product % (1 << 64) >= (1 << 64) % n:
            return (product >> 64) + 1, attempt
