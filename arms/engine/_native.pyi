"""Types of the extension module (native/module.cpp)."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

class KeyValues:
    def __init__(self, layers: int, heads: int, dims: int, capacity: int) -> None: ...
    @property
    def bytes(self) -> int: ...
    def read(self, length: int, out: npt.NDArray[np.uint16]) -> None: ...
    def copy(self, other: KeyValues, length: int) -> None: ...

class Engine:
    def __init__(
        self,
        file: npt.NDArray[np.uint8],
        sizes: Mapping[str, float],
        tensors: Mapping[str, tuple[str, int, int, int]],
        threads: int,
        kernel: str,
        mapped: bool,
        champion: Engine | None = None,
    ) -> None: ...
    @property
    def kernel(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def scratch_bytes(self) -> int: ...
    def forward(
        self,
        segments: Sequence[tuple[KeyValues, int, npt.NDArray[np.int64]]],
        rows: int,
        logits: npt.NDArray[np.float32],
        hidden: npt.NDArray[np.float32],
        layers: Sequence[int] = ...,
    ) -> bool: ...
    def forward_features(
        self,
        cache: KeyValues,
        start: int,
        tokens: npt.NDArray[np.int64],
        features: npt.NDArray[np.float32],
        rows: int,
        logits: npt.NDArray[np.float32],
        hidden: npt.NDArray[np.float32],
    ) -> bool: ...

def bandwidth(bytes: int, threads: int) -> float: ...
def exchange_ns() -> float: ...
def rows(rows: int, width: int) -> npt.NDArray[np.float32]: ...
def check_kernel(name: str) -> str: ...
