"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import StrataError


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A handle whose file takes the place of ``path`` when the block ends well, and vanishes when it does not.

    ``mode``: its permissions, less the user's umask. Creates parent folders. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.unlink(missing_ok=True)  # what a killed process of this number left
    handle = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def output(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """`replacing` for a file that a user named. Raises StrataError where it cannot be written."""
    try:
        with replacing(path, mode) as handle:
            yield handle
    except OSError as error:
        raise StrataError(f"{path}: cannot be written ({error.strerror or error})") from None
