"""The fresh-state invariant: after a round, everything the next one depends on equals a fresh session's.

Caches (bytes of keys and values), penalties, grammar, stops and the proposer's state are compared with those of a
session that never speculated and was fed the same tokens. It is what catches draft-cache rot at n = 1: output stays
exact while acceptance decays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...arms.request import Request
from .finding import Finding


def state_difference(session: Any) -> str | None:
    """The first part of the session's state that a fresh one does not share; None when they are equal."""
    twin = session.twin()
    try:
        ours, fresh = session.state_fingerprint(), twin.state_fingerprint()
    finally:
        twin.close()
    return next((name for name in {**ours, **fresh} if ours.get(name) != fresh.get(name)), None)


def check_session(session: Any, every: int = 1) -> tuple[int, dict[str, Any] | None]:
    """Run a session to its end, comparing after every ``every``-th round: (states compared, first difference)."""
    compared = 0
    found: dict[str, Any] | None = None
    try:
        session.prefill()
        while not session.finished():
            record = session.step()
            last = session.finished() or session.failure is not None
            if session.failure is None and (record.round % every == 0 or last):
                compared += 1
                part = state_difference(session)
                if part is not None and found is None:
                    found = {
                        "request_id": session.request.request_id,
                        "round": record.round,
                        "outcome": record.outcome,
                        "position": len(session.emitted),
                        "reason": f"{part} is not a fresh session's",
                    }
    finally:
        session.close()
    return compared, found


def check_fresh_state(arm: Any, requests: Iterable[Request], every: int = 1) -> Finding:
    """Every request once more on ``arm``, its state compared as it goes."""
    compared, mismatches, count = 0, [], 0
    for request in requests:
        count += 1
        n, found = check_session(arm.open(request), every)
        compared += n
        if found is not None:
            mismatches.append(found)
    detail = {"arm": arm.name, "requests": count, "mismatches": mismatches[:20], "mismatch_count": len(mismatches)}
    return Finding("fresh_state", not mismatches and compared > 0, compared, "states compared", detail)
