"""Where a worker gets models and arms from. A test names another module with the same five functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT_BACKEND = __name__


def resolve(name_or_path: str) -> Path:
    """Path of a registered model that is already here, or of a file. Never downloads."""
    from ..arms.models import resolve as find

    return Path(find(name_or_path))


def pull(name: str) -> Path:
    """Download a registered model if it is not here. `freeze` and `sweep` may; `run` never does."""
    from ..arms.models import pull as fetch

    return Path(fetch(name))


def load_model(path: str, *, threads: int | None, kernel: str | None) -> Any:
    """Engine, tokenizer and template of one GGUF file (`arms.models.Model`)."""
    from ..arms.models import load_model as load

    return load(path, threads=threads, kernel=kernel)


def load_draft(path: str, champion: Any, *, threads: int | None, kernel: str | None) -> Any:
    """A draft for a loaded champion: a model of its own, or one that feeds on the champion's hidden states."""
    from ..arms.models import load_draft as load

    return load(path, champion, threads=threads, kernel=kernel)


def build_arm(
    spec: Mapping[str, Any], champion: Any, draft: Any, decoding: Mapping[str, Any], prefix_cache: Any = None
) -> Any:
    """The arm of one plan entry; ``prefix_cache``: `arms.prefix_cache.PrefixCache`, or None."""
    from ..arms.build import build_arm as build

    return build(dict(spec), champion, draft, decoding, prefix_cache)
