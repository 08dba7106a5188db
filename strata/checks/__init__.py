"""Task checks: how well one answer did what its prompt asked, from 0 to 1.

A check is a JSON object with a ``kind`` and that kind's parameters (table in `strata/README.md`). ``turn`` may say
which answer of a conversation it is about; without it that is the last one.
"""

from .registry import KINDS, run_check, validate_check

__all__ = ["KINDS", "run_check", "validate_check"]
