"""What a user can get wrong in a workload."""

from __future__ import annotations


class StrataError(Exception):
    """A prompt, a prompt file, a check or an importer's input that cannot be used. The message says which and where."""

    exit_code = 2
