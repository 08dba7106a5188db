"""Which account of a proposer the auditor uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arms.engine.feature import FeatureEngine
from ...arms.kinds import BASELINE
from .guessers import DraftGuesser, LookupGuesser
from .interpreter import Case
from .shipped_guesser import ShippedGuesser
from .trace import Trace


def is_plain(draft: Any | None) -> bool:
    """A draft that needs nothing but tokens: not one that feeds on the champion's hidden states."""
    return draft is not None and not isinstance(draft.engine, FeatureEngine)


def guesser_of(
    spec: Mapping[str, Any],
    champion: Any,
    draft: Any | None,
    decoding: Mapping[str, Any],
    case: Case,
    trace: Trace,
    grammar: Any | None,
) -> Any:
    """The proposer of one request, derived again where the auditor has its own account of the kind; None for none."""
    if spec["kind"] == BASELINE:
        return None
    if spec["kind"] == "prompt_lookup":
        return LookupGuesser(spec, case.stop_ids)
    if spec["kind"] == "neural_draft" and is_plain(draft):
        assert draft is not None
        ids = getattr(draft.engine, "output_ids", None)
        return DraftGuesser(draft.engine, spec, case, champion.engine.vocabulary, grammar, ids)
    return ShippedGuesser(spec, champion, draft, decoding, trace)
