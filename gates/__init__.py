"""Evidence to verdict. The names below are loaded when first used, so that importing this costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "judge": "judge",
    "write_verdict": "judge",
    "load_evidence": "evidence",
    "Evidence": "evidence",
    "validate_gates": "registry",
    "default_gates": "registry",
    "estimate": "intervals",
    "paired": "pairs",
    "GateResult": "result",
    "Verdict": "result",
    "combine": "result",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
