"""Errors a user can act on. The message says what, where and what to do; the command line prints it and no
traceback."""

from __future__ import annotations


class DraftgateError(Exception):
    """Base; exit code 2: bad usage or unreadable input."""

    exit_code = 2


class PlanError(DraftgateError):
    """A plan that cannot be frozen or read."""


class IntegrityError(DraftgateError):
    """A hash, identity or chain that does not hold."""

    exit_code = 5


class IncompleteRun(DraftgateError):
    """Interrupted, disk full, or asked for a verdict before the end."""

    exit_code = 6
