"""Draws, rows and rounds are what they were when the versions were named."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms import masses as law

SPEC = importlib.util.spec_from_file_location("golden_arms", Path(__file__).with_name("golden_arms.py"))
assert SPEC is not None and SPEC.loader is not None
golden: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(golden)


@pytest.fixture(params=["portable", "avx2", "avx512"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    try:
        law.use_kernel(request.param)
    except ValueError:
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    law.use_kernel("best")


@pytest.mark.parametrize("file", list(golden.FILES))
def test_golden_vectors(file: str, kernel: str) -> None:
    stored = json.loads((golden.FOLDER / file).read_text())
    assert json.loads(json.dumps(golden.FILES[file]())) == stored
