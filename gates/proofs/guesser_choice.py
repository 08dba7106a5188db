"""Which account of a proposer the auditor uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .guessers import DraftGuesser, LookupGuesser
from .interpreter import Case
from .shipped_guesser import ShippedGuesser
from .trace import Trace


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
    if spec["kind"] == "champion_alone":
        return None
    if spec["kind"] == "prompt_lookup":
        return LookupGuesser(spec, case.stop_ids)
    if spec["kind"] == "neural_draft" and draft is not None and not getattr(draft.engine, "feature_draft", False):
        ids = getattr(draft.engine, "output_ids", None)
        return DraftGuesser(draft.engine, spec, case, champion.engine.vocabulary, grammar, ids)
    return ShippedGuesser(spec, champion, draft, decoding, trace)
