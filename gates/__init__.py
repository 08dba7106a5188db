"""Evidence to verdict. The names below are loaded when first used, so that importing this costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    # verdicts
    "judge": "judge",
    "write_verdict": "verdict_file",
    "load_evidence": "evidence",
    "Evidence": "evidence",
    "validate_gates": "registry",
    "default_gates": "registry",
    "GateResult": "result",
    "Verdict": "result",
    "combine": "result",
    # acceptance
    "survival": "acceptance",
    "Survival": "acceptance",
    "entropy_calibration": "entropy",
    # cost and break-even
    "cost_table": "costs",
    "predict": "costs",
    "predicted_and_measured": "costs",
    "fieller": "breakeven",
    "session_lengths": "breakeven",
    "amortising_share": "breakeven",
    "ratio_curve": "breakeven",
    # paired performance
    "paired": "pairs",
    "Paired": "pairs",
    "estimate": "intervals",
    "weighted_share": "weighted_share",
    "drift": "drift",
    "order_effects": "drift",
    "speedup_ecdf": "performance",
    "quantile_ratios": "performance",
    "per_token": "performance",
    "burst_gaps": "performance",
    # distributions
    "g_test": "distribution",
    "exact_multinomial": "distribution",
    "pit_family": "distribution",
    "shift": "distribution",
    "two_sample_counts": "distribution",
    "two_sample_sequences": "distribution",
    "confidence_sequence": "sequential",
    "e_process": "sequential",
    "event_classes": "event_classes",
    # before and after
    "decision_card": "power",
    "holm": "holm",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
