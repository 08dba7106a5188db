"""Names of the stored formats. Each reader refuses another name by name; history is one line per version."""

from __future__ import annotations

from .errors import PlanError

PLAN_FORMAT = "draftgate-plan/1"
"""1: first."""
LEDGER_FORMAT = "draftgate-ledger/1"
"""1: first."""
OPERATIONAL_FORMAT = "draftgate-operational/1"
"""1: first."""
HEAD_FORMAT = "draftgate-ledger-head/1"
"""1: first."""
SALT_FORMAT = "draftgate-salt/1"
"""1: first."""
SEAL_FORMAT = "draftgate-seal/1"
"""1: first."""
ATTEMPTS_FORMAT = "draftgate-attempts/1"
"""1: first."""
ANALYSIS_VERSION = "gates/1"
"""The gates' own version, bound in the plan."""


def check_format(found: object, expected: str, where: str) -> None:
    """Raises PlanError naming the format found and the one this version reads."""
    if found != expected:
        raise PlanError(f"{where}: format {found!r}, this version reads {expected}")
