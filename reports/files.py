"""Writing so that a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

from pathlib import Path

from ..harness.atomic import replacing


class ReportError(Exception):
    """A report that cannot be read or written; the message says what, where and what to do."""

    exit_code = 2


class Damaged(ReportError):
    """A stored file that contradicts its plan or its hash."""

    exit_code = 5


def write_text(path: Path, text: str) -> Path:
    """Writes UTF-8. Raises ReportError when it cannot."""
    try:
        with replacing(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise ReportError(
            f"cannot write {path}: {error.strerror or error}; make the folder writable or free space"
        ) from error
    return path
