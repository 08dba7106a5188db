"""Where an answer ends: stop tokens at once, stop strings wherever they straddle tokens and rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from .errors import ArmError
from .request import StopPolicy


class TextDecoder(Protocol):
    """Text of ids as they come (`engine.tokenizer.StreamDecoder`)."""

    def push(self, ids: Iterable[int]) -> str: ...

    def finish(self) -> str: ...


class StopWatcher:
    """Takes the authoritative tokens of one answer, each once, in order.

    The token that completes a stop string is the last one emitted; the text ends before the string.
    """

    def __init__(self, policy: StopPolicy, decoder: Callable[[], TextDecoder] | None = None) -> None:
        """``decoder`` makes a fresh text decoder; needed when the policy has strings. Raises ArmError."""
        if policy.strings and decoder is None:
            raise ArmError("stop strings need a tokenizer to read the text with")
        if any(not isinstance(string, str) or not string for string in policy.strings):
            raise ArmError("a stop string is empty or not text; remove it")
        self.policy, self._decoder_of = policy, decoder if policy.strings else None
        self.ids = frozenset(policy.token_ids)
        self._longest = max((len(string) for string in policy.strings), default=0)
        self._begin()

    def _begin(self) -> None:
        self.reason: Literal["stop", "stop_string"] | None = None
        self.text = ""
        """What has been read so far, cut before a stop string; kept only when the policy has strings."""
        self._decoder = self._decoder_of() if self._decoder_of is not None else None

    def rewind(self, tokens: Iterable[int]) -> None:
        """Back to the state after these tokens and no others: a round that had been read was aborted."""
        self._begin()
        for token in tokens:
            self.ends(token)

    def ends(self, token: int) -> bool:
        """Take the next authoritative token; True when the answer ends with it."""
        if token in self.ids:
            self.reason = "stop"
            return True
        if self._decoder is None:
            return False
        piece = self._decoder.push([token])
        if not piece:
            return False
        start = max(0, len(self.text) - self._longest + 1)
        self.text += piece
        at = self._first(start)
        if at is None:
            return False
        self.text = self.text[:at]
        self.reason = "stop_string"
        return True

    def _first(self, start: int) -> int | None:
        found = [at for at in (self.text.find(string, start) for string in self.policy.strings) if at >= 0]
        return min(found, default=None)

    def visible(self) -> str:
        """The text that can be shown already: nothing that may turn out to begin a stop string."""
        if self.reason == "stop_string":
            return self.text
        for size in range(min(self._longest - 1, len(self.text)), 0, -1):
            tail = self.text[-size:]
            if any(string.startswith(tail) for string in self.policy.strings):
                return self.text[:-size]
        return self.text

    def state(self) -> tuple[str | None, str]:
        """Equal for equal states."""
        return self.reason, self.text
