"""Measurements that are not part of any request's time, run in a worker by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import WorkerSession

Measurement = Callable[["WorkerSession", dict[str, Any]], dict[str, Any]]


def build_arms(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """Build every arm once, so that a plan with an impossible arm does not freeze."""
    for entry in message["arms"]:
        session.backend.build_arm(entry, session.champion, session.draft, message["decoding"])
    return {"arms": len(message["arms"])}


MEASUREMENTS: dict[str, Measurement] = {"build_arms": build_arms}
