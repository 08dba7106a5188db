"""Which kinds of arm there are, what each may set, and which need a draft: the one place that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BASELINE: Final = "champion_alone"
_DRAFTING: Final = frozenset({"k", "policy", "probe_rate", "truncation", "draft_decoding"})
KINDS: Final[Mapping[str, frozenset[str]]] = {
    BASELINE: frozenset({"slowdown"}),
    "prompt_lookup": frozenset({"k", "min_ngram", "max_ngram", "probe_rate"}),
    "suffix_automaton": frozenset({"k", "min_match", "probe_rate"}),
    "ngram_cache": frozenset({"k", "cache", "sha256", "probe_rate"}),
    "neural_draft": _DRAFTING,
    "hybrid": _DRAFTING | {"copy_k", "min_match"},
}
"""Kind of arm -> the fields its entry may have besides name and kind."""
WITH_DRAFT: Final = frozenset({"neural_draft", "hybrid"})
"""Kinds that need a draft model."""
DRAFT_ALONE: Final = frozenset({"neural_draft"})
"""Kinds whose every proposal is a step of the draft; the others may copy."""
