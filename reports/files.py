"""Writing so that a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class ReportError(Exception):
    """A report that cannot be read or written; the message says what, where and what to do."""

    exit_code = 2


class Damaged(ReportError):
    """A stored file that contradicts its plan or its hash."""

    exit_code = 5


def write_text(path: Path, text: str) -> Path:
    """Writes UTF-8 under a temporary name beside ``path`` and replaces it. Raises ReportError when it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ReportError(
            f"cannot write {path}: {error.strerror or error}; make the folder writable or free space"
        ) from error
    return path
