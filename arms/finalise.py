"""What is done once after the last token: the text, cut where the answer ends, and the receipt."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from .receipt import make_receipt
from .request import Completion
from .session import Session


def finalised(session: Session, completion: Completion, identities: Mapping[str, Any]) -> Completion:
    """The completion with text and receipt; the time it took is in ``finalise_ns`` and in ``total_ns``."""
    started = perf_counter_ns()
    if session.finish == "stop_string":
        completion.text = session.stops.text
    elif session.champion.decoder is not None:
        decoder = session.champion.decoder()
        completion.text = decoder.push(completion.tokens) + decoder.finish()
    completion.receipt = make_receipt(session.request, completion, identities)
    completion.finalise_ns = perf_counter_ns() - started
    completion.total_ns += completion.finalise_ns
    return completion
