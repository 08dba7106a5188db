"""Whole numbers on a command line, within what the program can use."""

from __future__ import annotations

import argparse
from collections.abc import Callable

MAX_THREADS = 256
MAX_SEED = 2**64 - 1
MAX_TOKENS = 10**6


def whole(low: int, high: int) -> Callable[[str], int]:
    """A type for `add_argument`: anything else is named with its option and the range."""

    def parsed(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from {low} to {high}")
        return value

    return parsed
