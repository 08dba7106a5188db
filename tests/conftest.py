"""Fixtures shared by all folders."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real model's GGUF, downloaded once into the user cache; a failure to get it fails the test."""
    from draftgate.arms.models import pull

    return pull("smollm2-135m-instruct")
