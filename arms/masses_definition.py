"""The law `masses/1` once more, slowly and sharing no code with the native loops: what the tests hold them to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MASS_BITS, WEIGHT_BITS = 48, 42
_COEFFICIENTS = (
    "0x1.41fbbcp-13", "0x1.5f3e54p-10", "0x1.3b2d4cp-7", "0x1.c6aee8p-5", "0x1.ebfbdcp-3", "0x1.62e430p-1", "0x1p0",
)  # fmt: skip


def weights(logits: npt.NDArray[np.float32], scale: float) -> list[int]:
    """E_i of every token, as Python integers."""
    x = np.asarray(logits, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        t = ((x - x.max()) * np.float32(scale)).astype(np.float32)
    t = np.where(t > np.float32(-64), t, np.float32(-64)).astype(np.float32)
    whole = np.rint(t)
    fraction = t - whole
    value = np.full_like(t, np.float32(float.fromhex(_COEFFICIENTS[0])))
    for c in _COEFFICIENTS[1:]:
        value = value * fraction + np.float32(float.fromhex(c))
    power = np.ldexp(value.astype(np.float64), whole.astype(np.int64) + WEIGHT_BITS)
    return [int(v) for v in np.rint(power)]


def to_total(values: Sequence[int]) -> list[int]:
    """floor(v * 2**48 / sum), the remainder to the largest, lowest id."""
    whole = sum(values)
    masses = [(v << MASS_BITS) // whole for v in values]
    masses[masses.index(max(masses))] += (1 << MASS_BITS) - sum(masses)
    return masses


def row(logits: npt.NDArray[np.float32], scale: float) -> list[int]:
    """Masses of one row before any truncation."""
    return to_total(weights(logits, scale))


def _keep(masses: Sequence[int], kept: set[int]) -> list[int]:
    return to_total([m if i in kept else 0 for i, m in enumerate(masses)])


def _prefix(masses: Sequence[int], order: Sequence[int], wanted: int) -> set[int]:
    kept: set[int] = set()
    reached = 0
    for i in order:
        kept.add(i)
        reached += masses[i]
        if reached >= wanted:
            break
    return kept


def top_k(masses: Sequence[int], k: int) -> list[int]:
    order = sorted(range(len(masses)), key=lambda i: (-masses[i], i))
    return _keep(masses, set(order[:k]))


def top_p(masses: Sequence[int], wanted: int) -> list[int]:
    order = sorted(range(len(masses)), key=lambda i: (-masses[i], i))
    return _keep(masses, _prefix(masses, order, wanted))


def min_p(masses: Sequence[int], share: int) -> list[int]:
    level = -(-share * max(masses) // (1 << MASS_BITS))
    return _keep(masses, {i for i, m in enumerate(masses) if m >= level})


def surprise(mass: int) -> int:
    """-log2(mass / 2**48) in units of 2**-32: the declared series in float64, each operation rounded."""
    m, exponent = math.frexp(float(mass))
    if m < math.sqrt(0.5):
        m, exponent = m * 2.0, exponent - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1.0 / 17.0
    for odd in range(15, 0, -2):
        series = series * z + 1.0 / odd
    return round((float(MASS_BITS - exponent) - series * s * float.fromhex("0x1.71547652b82fep+1")) * 2.0**32)


def typical_p(masses: Sequence[int], wanted: int) -> list[int]:
    bits = {i: surprise(m) for i, m in enumerate(masses) if m}
    mean = sum(masses[i] * b for i, b in bits.items()) >> MASS_BITS
    order = sorted(bits, key=lambda i: (abs(bits[i] - mean), -masses[i], i))
    return _keep(masses, _prefix(masses, order, wanted))


def truncated(masses: Sequence[int], k: int, p: int, minimum: int, typical: int) -> list[int]:
    """All four in the declared order; neutral values (0, 2**48) skip one."""
    out = list(masses)
    if k:
        out = top_k(out, k)
    if p < 1 << MASS_BITS:
        out = top_p(out, p)
    if minimum:
        out = min_p(out, minimum)
    if typical < 1 << MASS_BITS:
        out = typical_p(out, typical)
    return out
