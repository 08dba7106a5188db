"""The training loop by itself; needs the extra `train`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.train


def test_a_short_fit_exports_what_it_learned_and_not_where_it_began(tmp_path: Path) -> None:
    import torch
    from draftgate.arms.distill.fit import Settings, fit

    class Slope(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((1,), -50.0))

    class Line:
        """y = 3 x, fitted from w = -50."""

        module = Slope()

        def batches(self, rng: np.random.Generator, skip: int = 0) -> Iterator[Any]:
            # Passes of different length, as sequences packed by length give them.
            for batch in [rng.normal(size=(16, 1)) for _ in range(int(rng.integers(30, 60)))][skip:]:
                yield torch.tensor(batch, dtype=torch.float32)

        def loss(self, batch: Any, progress: float) -> Any:
            return ((self.module.weight * batch - 3 * batch) ** 2).mean()

        def evaluate(self) -> dict[str, Any]:
            return {"weight": float(self.module.weight)}

    fitted = fit(Line(), Settings(passes=4, learning_rate=2.0, warmup_steps=5), tmp_path / "c.pt", lambda line: None)
    assert fitted.steps >= 120 and abs(fitted.figures["weight"] - 3) < 0.5
