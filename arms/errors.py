"""What the arms raise when the user's input, file or machine is at fault; the command line prints the message alone."""

from __future__ import annotations


class ArmError(Exception):
    """Unusable input: a model, a template, a grammar, an option. The message says what, where and what to do."""

    exit_code = 2


class IntegrityError(ArmError):
    """Bytes that are not the ones that were promised: a hash differs."""

    exit_code = 5


class Unfinished(ArmError):
    """The machine gave out in the middle (disk full): the same command goes on once there is room."""

    exit_code = 6
