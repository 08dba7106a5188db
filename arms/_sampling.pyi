"""Types of the native extension (`native/module.cpp`)."""

import numpy as np
import numpy.typing as npt

_F32 = npt.NDArray[np.float32]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]
_U32 = npt.NDArray[np.uint32]
_U64 = npt.NDArray[np.uint64]

MASS_BITS: int
WEIGHT_BITS: int

def kernel() -> str: ...
def use_kernel(name: str) -> None: ...
def row(
    logits: _F32,
    scale: float,
    top_k: int,
    top_p: int,
    min_p: int,
    typical_p: int,
    out: _U64,
    ids: _I32 | None = None,
    values: _F32 | None = None,
    mask: _U32 | None = None,
    entropy: bool = True,
) -> tuple[int, float]: ...
def argmax(
    logits: _F32, ids: _I32 | None = None, values: _F32 | None = None, mask: _U32 | None = None
) -> tuple[int, int]: ...
def peak(
    logits: _F32, scale: float, ids: _I32 | None = None, values: _F32 | None = None, mask: _U32 | None = None
) -> tuple[int, int, float, float]: ...
def widen(masses: _U64, ids: _I64, wide: _U64, written: _I64, count: int) -> tuple[int, int]: ...
def pick(masses: _U64, r: int) -> int: ...
def total(masses: _U64) -> int: ...
def residual(q: _U64, p: _U64, out: _U64) -> int: ...
def surprise(mass: int) -> int: ...
def philox(key: int, a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]: ...
def bounded(key: int, domain: int, round: int, position: int, n: int) -> tuple[int, int]: ...
