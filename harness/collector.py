"""Work that makes millions of objects and no garbage, without Python looking for some meanwhile."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """For rows of a run, which hold no cycles (a quarter of the time), and for drawings, whose cycles stay until they
    are done (a tenth)."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
