"""The declared law once more, for the auditor: draws `rng/1` and rows `masses/1`, written from their descriptions.

Shares no code with `arms`: plain Python integers for the draws, vectors of numpy for the rows. Masses are uint64 arrays
[V] that sum to exactly 2**48. The tests hold it to the shipped code and to the golden vectors, and so the other way.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

ONE = 1 << 48
_WORD = 0xFFFFFFFF
_DOMAIN = {
    "draft_sample": 0,
    "accept_uniform": 1,
    "correction_sample": 2,
    "target_extra": 3,
    "target_baseline": 4,
    "pit": 5,
    "policy": 6,
}

Masses = npt.NDArray[np.uint64]
Logits = npt.NDArray[np.float32]


class LawError(ValueError):
    """A row that has no distribution, or a draw outside one."""


# ---- draws ----------------------------------------------------------------------------------------------------------


def philox(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox-4x32-10 (Salmon et al., SC 2011): a 64-bit key and four 32-bit counter words to four 32-bit words."""
    c = list(counter)
    low, high = key & _WORD, key >> 32
    for step in range(10):
        k0, k1 = (low + step * 0x9E3779B9) & _WORD, (high + step * 0xBB67AE85) & _WORD
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(right >> 32) ^ c[1] ^ k0, right & _WORD, (left >> 32) ^ c[3] ^ k1, left & _WORD]
    return c[0], c[1], c[2], c[3]


class Chance:
    """The draws of one request: a function of (seed, stream) and of (domain, round, position)."""

    def __init__(self, seed: int, stream: str) -> None:
        digest = hashlib.sha256(b"draftgate rng/1\x00" + seed.to_bytes(8, "little") + stream.encode("utf-8")).digest()
        self.key = int.from_bytes(digest[:8], "little")

    def uniform(self, n: int, domain: str, round: int, position: int) -> int:
        """An integer uniform in [1, n]: multiply-shift, the short first interval rejected."""
        attempt = 0
        while True:
            word = philox(self.key, (_DOMAIN[domain], round, position, attempt))
            high, low = divmod((word[1] * 2**32 + word[0]) * n, 2**64)
            if low >= 2**64 % n:
                return high + 1
            attempt += 1


def token_at(masses: Masses, r: int) -> int:
    """The smallest id whose cumulative mass reaches r."""
    reached = np.cumsum(masses, dtype=np.uint64)
    token = int(np.searchsorted(reached, np.uint64(r), side="left"))
    if r < 1 or token >= len(masses):
        raise LawError(f"r = {r} lies outside the row's mass {int(reached[-1])}")
    return token


# ---- rows -----------------------------------------------------------------------------------------------------------

_EXP2 = [
    float.fromhex("0x" + c)
    for c in "1p0 1.62e430p-1 1.ebfbdcp-3 1.c6aee8p-5 1.3b2d4cp-7 1.5f3e54p-10 1.41fbbcp-13".split()
]
"""2**x for x in -1/2…1/2, coefficients of x**0 … x**6."""


def _weights(logits: Logits, temperature: float) -> npt.NDArray[np.uint64]:
    """E_i = 2**t_i in units of 2**-42, ties to even; every float32 operation rounded by itself."""
    f = np.float32
    top = logits.max()
    scale = f(math.log2(math.e) / temperature)
    with np.errstate(over="ignore", invalid="ignore"):
        t = np.maximum((logits - top) * scale, f(-64)).astype(np.float32)
    whole = np.rint(t)
    rest = t - whole
    value = np.full(len(t), f(_EXP2[6]))
    for c in reversed(_EXP2[:6]):
        value = value * rest
        value = value + f(c)
    exact: npt.NDArray[np.float64] = np.ldexp(value.astype(np.float64), whole.astype(np.int64) + 42)
    return np.rint(exact).astype(np.uint64)


def _share(values: npt.NDArray[np.uint64]) -> Masses:
    """floor(v · 2**48 / Σv), the remainder to the largest, lowest id: a float quotient, then made exact."""
    total = int(values.sum(dtype=np.uint64))
    if total == 0:
        raise LawError("every token is masked")
    unit = np.uint64(total)
    guess = np.floor(values.astype(np.float64) / total * ONE).astype(np.uint64)
    left = ((values << np.uint64(48)) - guess * unit).astype(np.int64)  # wraps; the true value is within ±2 total
    guess = np.where(left < 0, guess - np.uint64(1), guess)
    left = np.where(left < 0, left + total, left)
    out: Masses = np.where(left >= total, guess + np.uint64(1), guess)
    out[int(np.argmax(out))] += np.uint64(ONE - int(out.sum(dtype=np.uint64)))
    return out


def _only(masses: Masses, keep: npt.NDArray[Any]) -> Masses:
    out = np.zeros_like(masses)
    out[keep] = masses[keep]
    return _share(out)


def _heaviest(masses: Masses) -> npt.NDArray[np.int64]:
    """Ids by mass descending, id ascending."""
    return np.argsort(-masses.astype(np.int64), kind="stable").astype(np.int64)


def _until(masses: Masses, order: npt.NDArray[np.int64], wanted: int) -> npt.NDArray[np.int64]:
    """The shortest beginning of ``order`` that holds ``wanted``: the token that crosses is kept."""
    reached = np.cumsum(masses[order], dtype=np.uint64)
    return order[: int(np.searchsorted(reached, np.uint64(wanted), side="left")) + 1]


def _surprise(masses: Masses) -> npt.NDArray[np.int64]:
    """-log2(mass / 2**48) in units of 2**-32 by the declared series in float64."""
    m, exponent = np.frexp(masses.astype(np.float64))
    small = m < math.sqrt(0.5)
    m, exponent = np.where(small, m * 2, m), np.where(small, exponent - 1, exponent)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = np.full(len(m), 1.0 / 17.0)
    for odd in (15, 13, 11, 9, 7, 5, 3, 1):
        series = series * z
        series = series + 1.0 / odd
    bits = (48 - exponent).astype(np.float64) - series * s * float.fromhex("0x1.71547652b82fep+1")
    return np.rint(bits * 2.0**32).astype(np.int64)


def _typical(masses: Masses, wanted: int) -> Masses:
    ids = np.flatnonzero(masses)
    bits = _surprise(masses[ids])
    mean = sum(int(m) * int(b) for m, b in zip(masses[ids], bits, strict=True)) >> 48
    distance = np.abs(bits - mean)
    order = ids[np.lexsort((ids, -masses[ids].astype(np.int64), distance))]
    return _only(masses, _until(masses, order, wanted))


def _threshold(share: float) -> int:
    return math.ceil(Fraction(share) * ONE)


def masses_of(logits: Logits, decoding: Mapping[str, Any]) -> Masses:
    """Processed logits (-inf: masked) under a temperature > 0 and the truncations, in their declared order."""
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise LawError("a logit is NaN or +Inf")
    if np.isneginf(logits).all():
        raise LawError("every token is masked")
    weights = _weights(logits, float(decoding.get("temperature", 1.0)))
    weights[np.isneginf(logits)] = 0
    masses = _share(weights)
    if (k := int(decoding.get("top_k", 0))) > 0:
        masses = _only(masses, _heaviest(masses)[:k])
    if (p := float(decoding.get("top_p", 1.0))) < 1:
        masses = _only(masses, _until(masses, _heaviest(masses), _threshold(p)))
    if (p := float(decoding.get("min_p", 0.0))) > 0:
        level = -(-_threshold(p) * int(masses.max()) // ONE)
        masses = _only(masses, masses >= np.uint64(level))
    if (p := float(decoding.get("typical_p", 1.0))) < 1:
        masses = _typical(masses, _threshold(p))
    return masses


def top_share(logits: Logits) -> float:
    """Probability of the most likely token at temperature 1, before any truncation."""
    weights = _weights(logits, 1.0)
    weights[np.isneginf(logits)] = 0
    return float(weights.max()) / float(weights.sum(dtype=np.uint64))


def best(logits: Logits) -> int:
    """Argmax of processed logits, ties to the lowest id."""
    if np.isnan(logits).any() or np.isposinf(logits).any() or np.isneginf(logits).all():
        raise LawError("no valid token")
    return int(np.argmax(logits))
