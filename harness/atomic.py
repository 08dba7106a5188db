"""Files that are either the old bytes or the new ones, and errors of the disk as sentences."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from ..strata.files import replacing as replacing  # reports write with it too
from .errors import DraftgateError, IncompleteRun

FULL = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns "disk full" into IncompleteRun (exit 6) and "not writable" into DraftgateError (exit 2)."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise IncompleteRun(
                f"the disk is full at {path}; everything recorded is whole: free space and run the same command"
            ) from None
        if error.errno in READ_ONLY:
            raise DraftgateError(f"{path} is not writable ({os.strerror(error.errno)}); nothing was changed") from None
        raise


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


PRIVATE = 0o600
"""Mode of a file that only its owner may read."""


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> Path:
    """Durably: the bytes before the name, the name before this returns. Creates parent folders.

    ``mode``: the file's permissions, less the user's umask.
    """
    with disk_errors(path):
        with replacing(path, mode) as file:
            file.write(data)
        sync_folder(path.parent)
    return path


def append_durably(handle: int, data: bytes, path: Path) -> None:
    """Append ``data`` to an open descriptor and fsync; on any error cut the file back to what it was."""
    before = os.lseek(handle, 0, os.SEEK_END)
    with disk_errors(path):
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, before)
                os.fsync(handle)
            raise
