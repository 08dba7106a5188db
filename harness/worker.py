"""The worker process: one arm on one unit. Reads JSON lines, writes JSON lines, and exits when its parent is gone.

Imports only what a request needs (numpy, tokenizers, engine, arms): a unit starts one process per arm.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import Any, BinaryIO

from .session import WorkerSession

MAX_LINE_BYTES = 256 * 2**20
"""Longest message: a prompt of a million tokens is below a tenth of it."""


def read_line(stream: BinaryIO) -> bytes:
    """One message; empty at the end of the stream. Raises ValueError for one that is too long."""
    line = stream.readline(MAX_LINE_BYTES + 1)
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a message of more than {MAX_LINE_BYTES} bytes")
    return line


def _listen(stream: BinaryIO, messages: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Runs in a thread, so that a parent that dies in the middle of a request ends this process at once."""
    while line := read_line(stream):
        messages.put(json.loads(line))
    os._exit(0)


def main() -> int:
    """Serve messages until the pipe closes or ``end`` was answered."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # a stray print must not end up in the protocol
    messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, messages), daemon=True).start()
    session = WorkerSession()
    while True:
        message = messages.get()
        try:
            reply = session.handle(message)
        except Exception as error:
            reply = {
                "error": str(error) or type(error).__name__,
                "kind": type(error).__name__,
                "exit_code": getattr(error, "exit_code", None),
                "trace": traceback.format_exc(limit=-4),
            }
        sink.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
        sink.flush()
        if message["type"] == "end":
            return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # daemon threads hold nothing worth a slow shutdown
