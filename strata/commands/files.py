"""Files that commands write: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import StrataError


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A text handle whose file takes the place of ``path`` when the block ends well, and vanishes when it does not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", dir=path.parent, delete=False)
    except OSError as error:
        raise StrataError(f"{path}: cannot be written ({error.strerror or error})") from None
    try:
        with handle:
            yield handle.file
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(handle.name, path)
    except BaseException:
        Path(handle.name).unlink(missing_ok=True)
        raise
