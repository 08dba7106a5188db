"""A model's chat template: messages to the text the model was trained on, in a sandbox.

Templates are untrusted and messages are too. ``mark_specials`` keeps a message from spelling a special token: a
character that occurs nowhere is put inside each such spelling before rendering, and the tokenizer takes it out again
after special tokens have been looked for.
"""

from __future__ import annotations

import datetime
import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Template
from jinja2.exceptions import TemplateError as JinjaError

from ..errors import ArmError
from .template_sandbox import LimitExceeded, MeteredEnvironment, RaisedByTemplate

MAX_SOURCE = 256 << 10
"""Characters of a template."""
MAX_OUTPUT = 8 << 20
"""Characters of one rendering."""
RENDER_DAY = datetime.datetime(2025, 1, 1, 12, 0, 0)
"""What ``strftime_now`` sees: one fixed day, so that a frozen plan renders the same token ids whenever it is run."""

MARKS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
"""Noncharacters that Unicode reserves for a program's own use."""


class TemplateError(ArmError):
    """A template that cannot be used, or messages it refuses."""


class ChatTemplate:
    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        """``bos`` and ``eos`` are the texts of those tokens, which templates may print.

        Raises TemplateError for a template that does not compile in the sandbox.
        """
        self.source = source
        self._variables = {"bos_token": bos, "eos_token": eos}
        self._lock = threading.Lock()
        if len(source) > MAX_SOURCE:
            raise TemplateError(f"the chat template has {len(source)} characters; the limit is {MAX_SOURCE}")
        self._environment = MeteredEnvironment(RENDER_DAY.strftime)
        self._compiled: Template = self._guarded(lambda: self._environment.from_string(source))

    @property
    def sha256(self) -> str:
        """Hash of the template's bytes."""
        return hashlib.sha256(self.source.encode("utf-8")).hexdigest()

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
        """The text of a conversation. Raises TemplateError: the template refuses, fails, or exceeds a limit."""
        plain = [{str(key): str(value) for key, value in message.items()} for message in messages]

        def run() -> str:
            pieces: list[str] = []
            length = 0
            context = {**self._variables, "messages": plain, "add_generation_prompt": add_generation_prompt}
            for piece in self._compiled.generate(context):
                length += len(piece)
                if length > MAX_OUTPUT:
                    raise LimitExceeded(f"more than {MAX_OUTPUT} characters of output")
                pieces.append(piece)
            return "".join(pieces)

        text: str = self._guarded(run)
        return text

    def _guarded(self, work: Any) -> Any:
        try:
            with self._lock:
                self._environment.meter.reset()
                return work()
        except RaisedByTemplate as error:
            raise TemplateError(f"the chat template refuses these messages: {error}") from error
        except LimitExceeded as error:
            raise TemplateError(f"the chat template goes past what the sandbox allows: {error}") from error
        except JinjaError as error:
            raise TemplateError(f"the chat template fails: {_line(error)}") from error
        except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError) as error:
            raise TemplateError(f"the chat template fails: {type(error).__name__}: {_line(error)}") from error
        except (TypeError, ValueError, AssertionError) as error:
            raise TemplateError(f"the chat template fails: {type(error).__name__}: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def choose_mark(texts: Iterable[str]) -> str:
    """A noncharacter that none of ``texts`` holds. Raises TemplateError when all are taken."""
    used = set().union(*(set(text) for text in texts))
    for mark in MARKS:
        if mark not in used:
            return mark
    raise TemplateError("the messages use every Unicode noncharacter; remove them")


def mark_specials(text: str, specials: Iterable[str], mark: str) -> str:
    """``text`` with ``mark`` inside every spelling of a special token, whole or cut off at either end.

    A cut-off spelling counts because the template's own text beside it could complete it.
    """
    names = sorted((name for name in specials if len(name) > 1), key=len, reverse=True)
    for name in names:
        while name in text:  # a replacement can complete another occurrence only of another name
            text = text.replace(name, name[0] + mark + name[1:])
    core = text.strip()
    start = text.find(core)
    end = start + len(core)
    for name in names:
        tail = next((n for n in range(len(name) - 1, 0, -1) if text.endswith(name[:n], start, end)), 0)
        if tail:
            text = text[: end - tail + 1] + mark + text[end - tail + 1 :]
            end += 1
        head = next((n for n in range(len(name) - 1, 0, -1) if text.startswith(name[-n:], start, end)), 0)
        if head:
            text = text[: start + head - 1] + mark + text[start + head - 1 :]
            end += 1
    return text
