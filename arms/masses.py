"""The declared law `masses/1`: processed logits to unsigned integers that sum to exactly 2**48, and their uses.

For float32 logits x (edits applied; -inf is a masked token, mass 0), temperature T, m = max x, all in float32, every
operation rounded separately (no fused multiply-add), c = float32(log2(e) / T):

1. t_i = max((x_i - m) * c, -64);  w_i = 2**t_i by our own polynomial (`native/law.inc`: nearest integer plus fraction)
2. E_i = w_i * 2**42 rounded to an integer, ties to even;  S = sum of E_i
3. mass_i = floor(E_i * 2**48 / S);  the remainder goes to the largest mass, lowest id

Truncations work on the masses, in the order top-k, top-p, min-p, typical-p, each followed by
mass_i = floor(mass_i * 2**48 / kept) and the remainder to the largest mass, lowest id. Ties: mass descending, id
ascending; the token that crosses the boundary is kept. Sums are of integers, so no result depends on an instruction set
or a number of lanes. `masses_definition.py` says the same slowly and independently.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from . import _sampling
from .errors import ArmError

LAW: Final = "masses/1"
MASS_BITS: Final = 48
TOTAL: Final = 1 << MASS_BITS

Masses = npt.NDArray[np.uint64]
"""uint64, shape [V]; a law row sums to exactly TOTAL."""

_OFF: Final = TOTAL


class RowError(ValueError):
    """A row that has no distribution."""


class NonFiniteRow(RowError):
    """NaN or +Inf among the logits."""


class NoValidToken(RowError):
    """Every token is masked."""


@dataclass(frozen=True)
class Truncation:
    """What is cut from a row, as integers; the neutral values keep everything."""

    top_k: int = 0
    top_p: int = _OFF
    min_p: int = 0
    typical_p: int = _OFF

    @classmethod
    def of(cls, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, typical_p: float = 1.0) -> Truncation:
        """Thresholds in units of 2**-48, rounded up, from the plan's decimals (their exact binary values)."""
        return cls(top_k, _ceiling(top_p), _ceiling(min_p), _ceiling(typical_p))


def _ceiling(share: float) -> int:
    return math.ceil(Fraction(share) * TOTAL)


KEEP_ALL: Final = Truncation()


def scale_of(temperature: float) -> float:
    """float32(log2(e) / T): what differences of logits are multiplied by."""
    return float(np.float32(math.log2(math.e) / temperature))


Edits = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""(ids, logits): the processed logits that replace the row's at these ids; each id at most once."""


def row(
    logits: npt.NDArray[np.float32],
    scale: float,
    truncation: Truncation = KEEP_ALL,
    out: Masses | None = None,
    edits: Edits | None = None,
    mask: npt.NDArray[np.uint32] | None = None,
    entropy: bool = True,
) -> tuple[Masses, float]:
    """One row of the law: (masses, entropy in nats; 0 unless asked for).

    ``mask``: bit i of word i // 32 says that token i is allowed. ``out`` is written and returned when given.
    Raises NonFiniteRow, NoValidToken. The entropy is a diagnostic: no draw depends on it.
    """
    if out is None:
        out = np.empty(logits.shape[0], np.uint64)
    ids, values = edits if edits is not None else (None, None)
    status, nats = _sampling.row(
        logits,
        scale,
        truncation.top_k,
        truncation.top_p,
        truncation.min_p,
        truncation.typical_p,
        out,
        ids,
        values,
        mask,
        entropy,
    )
    if status:
        raise _error(status)
    return out, nats


def argmax(
    logits: npt.NDArray[np.float32], edits: Edits | None = None, mask: npt.NDArray[np.uint32] | None = None
) -> int:
    """Lowest id of the largest processed logit. Raises NonFiniteRow, NoValidToken."""
    ids, values = edits if edits is not None else (None, None)
    status, token = _sampling.argmax(logits, ids, values, mask)
    if status:
        raise _error(status)
    return int(token)


def peak(
    logits: npt.NDArray[np.float32],
    scale: float,
    edits: Edits | None = None,
    mask: npt.NDArray[np.uint32] | None = None,
) -> tuple[int, float, float]:
    """(argmax, entropy in nats, probability of the argmax) under a temperature: for greedy drafts."""
    ids, values = edits if edits is not None else (None, None)
    status, token, entropy, top = _sampling.peak(logits, scale, ids, values, mask)
    if status:
        raise _error(status)
    return token, entropy, top


def _error(status: int) -> RowError:
    return NonFiniteRow("a logit is NaN or +Inf") if status == 1 else NoValidToken("every token is masked")


def widen(
    masses: Masses, ids: npt.NDArray[np.int64], wide: Masses, written: npt.NDArray[np.int64], count: int
) -> tuple[int, int]:
    """The masses of a short row into ``wide`` at ``ids``; (how many are not 0, the largest).

    ``written``: int64, as long as the short row; its first ``count`` places are zeroed first, and it names the new ones
    afterwards. Raises ValueError for places outside the wide row.
    """
    kept, largest = _sampling.widen(masses, ids, wide, written, count)
    return int(kept), int(largest)


def pick(masses: Masses, r: int) -> int:
    """Smallest id whose cumulative mass reaches ``r`` (1 <= r <= sum). Raises ValueError when the row ends first."""
    token = _sampling.pick(masses, r)
    if token >= masses.shape[0] or r < 1:
        raise ValueError(f"r = {r} lies outside the row's mass")
    return int(token)


def total(masses: Masses) -> int:
    """Sum of the masses."""
    return int(_sampling.total(masses))


Residual = tuple[npt.NDArray[np.int64], Masses, int]
"""A row without its zeros: ids in ascending order, their masses, and the sum of these."""


def residual(q: Masses, p: Masses) -> Residual:
    """max(q - p, 0). Its sum is the rejected mass: TOTAL - sum(min(p, q)) for law rows."""
    ids, masses, mass = _sampling.residual(q, p)
    return ids, masses, int(mass)


def residual_of_point(q: Masses, token: int) -> Residual:
    """The residual where p is one-hot at ``token``: q without it."""
    ids, masses, mass = _sampling.residual_of_point(q, token)
    return ids, masses, int(mass)


def use_kernel(name: str) -> None:
    """Choose the loops: ``best``, ``portable``, ``avx2`` or ``avx512``. The masses are the same with each."""
    _sampling.use_kernel(name)


def kernel() -> str:
    """Name of the loops in use."""
    return str(_sampling.kernel())


if os.environ.get("DRAFTGATE_KERNEL"):  # the engine's variable: one setting forces both
    try:
        use_kernel(os.environ["DRAFTGATE_KERNEL"])
    except ValueError as error:
        raise ArmError(f"DRAFTGATE_KERNEL: {error}") from None
