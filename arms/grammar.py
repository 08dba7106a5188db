"""Grammars (JSON schema, regular expression, Lark) as token masks, through `llguidance`, with our own rollback rule.

Stop tokens are never given to the library: it stops by itself when nothing can follow, counts its own stop token
differently when rolled back, and would leak that into the state. Here a stop token ends the answer and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from .errors import ArmError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

KINDS: Final = ("json_schema", "regex", "lark")


class TokenTexts(Protocol):
    """What a grammar needs of a tokenizer."""

    @property
    def stop_ids(self) -> tuple[int, ...]: ...

    def token_bytes(self, token: int, /) -> bytes: ...

    def encode(self, text: str, special: bool = False) -> list[int]: ...


class GrammarError(ArmError):
    """A grammar that does not compile, a token it forbids, or a state from which nothing can follow."""


class _Words:
    """A tokenizer in the shape the library asks for."""

    def __init__(self, texts: TokenTexts, vocabulary: int, stop_ids: Sequence[int]) -> None:
        self.tokens = [texts.token_bytes(i) for i in range(vocabulary)]
        named = {*stop_ids, *getattr(texts, "special_ids", ())}
        special = [i for i in range(vocabulary) if i in named or not self.tokens[i]]
        for i in special:  # a special token's name is no text a grammar may spell
            self.tokens[i] = b"\xff[%d]" % i
        self.eos_token_id, self.bos_token_id = stop_ids[0], None
        self.special_token_ids = special
        self._texts = texts

    def __call__(self, text: str | bytes) -> list[int]:
        return self._texts.encode(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


_TOKENIZERS: dict[tuple[int, int, tuple[int, ...]], tuple[TokenTexts, LLTokenizer]] = {}


def _tokenizer(texts: TokenTexts, vocabulary: int, stop_ids: tuple[int, ...]) -> LLTokenizer:
    from llguidance import LLTokenizer, TokenizerWrapper

    key = (id(texts), vocabulary, stop_ids)
    if key not in _TOKENIZERS:
        wrapper = TokenizerWrapper(_Words(texts, vocabulary, stop_ids))
        _TOKENIZERS[key] = texts, LLTokenizer(wrapper, n_vocab=vocabulary, eos_token=list(stop_ids))
    return _TOKENIZERS[key][1]


_OPTIONS: Final = '%llguidance {"no_forcing": true}\n'
"""Without it the library narrows a mask to one spelling wherever the next bytes are certain: forced bytes are no forced
token, and which spelling is likelier is the champion's to say."""


def _source(kind: str, text: Any) -> str:
    """The grammar in the library's Lark dialect. Raises ValueError, GrammarError."""
    from llguidance import LLMatcher

    if kind == "json_schema":
        schema = json.loads(text) if isinstance(text, str) else text
        return f"{_OPTIONS}start: %json {json.dumps(schema)}"
    if kind == "regex":
        whole = json.loads(LLMatcher.grammar_from_regex(str(text)))
        return _OPTIONS + str(whole["grammars"][0]["lark_grammar"])
    if "%llguidance" in str(text):
        raise GrammarError("the lark grammar sets %llguidance options; remove them")
    return _OPTIONS + str(text)


class Grammar:
    """A compiled grammar over one tokenizer; `open` gives the state of one request."""

    def __init__(self, spec: Mapping[str, Any], texts: TokenTexts, vocabulary: int, stop_ids: Sequence[int]) -> None:
        """``spec``: ``{"kind": "json_schema" | "regex" | "lark", "text": …}``. Raises GrammarError."""
        from llguidance import LLMatcher

        unknown = sorted(set(spec) - {"kind", "text"})
        kind, text = spec.get("kind"), spec.get("text")
        if unknown or kind not in KINDS or text is None:
            raise GrammarError(f"decoding.grammar needs kind ({', '.join(KINDS)}) and text, and nothing else")
        if not stop_ids:
            raise GrammarError("a grammar needs at least one stop token: without one its end cannot be said")
        self.kind, self.vocabulary, self.stop_ids = str(kind), vocabulary, tuple(stop_ids)
        tokenizer = _tokenizer(texts, vocabulary, self.stop_ids)
        try:
            source = _source(str(kind), text)
            problem = LLMatcher.validate_grammar(source, tokenizer)
        except ValueError as error:
            problem = str(error)
        if problem and not problem.startswith("WARNING"):
            raise GrammarError(f"the {kind} grammar does not compile: {problem.strip().splitlines()[0]}")
        self._root = LLMatcher(tokenizer, source, log_level=0)
        if self._root.is_error():
            raise GrammarError(f"the {kind} grammar does not compile: {self._root.get_error().splitlines()[0]}")

    def open(self) -> GrammarState:
        return GrammarState(self, self._root.deep_copy())


class GrammarState:
    """Where one sequence stands in the grammar."""

    def __init__(self, grammar: Grammar, matcher: LLMatcher) -> None:
        self.grammar, self._matcher = grammar, matcher
        self.tokens: list[int] = []
        self._mask: npt.NDArray[np.uint32] | None = None

    def mask(self) -> npt.NDArray[np.uint32]:
        """Allowed tokens, bit i of word i // 32. Raises GrammarError (a dead end) when there are none."""
        if self._mask is None:
            mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)
            if self._matcher.is_error():
                raise GrammarError(f"the grammar failed: {self._matcher.get_error().splitlines()[0]}")
            if not mask.any():
                raise GrammarError("the grammar is at a dead end: no token of the vocabulary can follow")
            self._mask = mask
        return self._mask

    def allowed(self, limit: int) -> list[int] | None:
        """Allowed tokens in order, or None when there are more than ``limit``."""
        mask = self.mask()
        words = np.flatnonzero(mask)
        if words.shape[0] > limit:
            return None
        found = [int(w) * 32 + bit for w in words for bit in range(32) if int(mask[w]) >> bit & 1]
        return found if len(found) <= limit else None

    def push(self, token: int) -> None:
        """Raises GrammarError, leaving the state as it was, when the grammar forbids the token."""
        mask = self.mask()
        if not int(mask[token >> 5]) >> (token & 31) & 1 or token in self.grammar.stop_ids:
            raise GrammarError(f"the grammar forbids token {token} here")
        if not self._matcher.consume_token(token):
            raise GrammarError(f"the grammar failed: {self._matcher.get_error().splitlines()[0]}")
        self.tokens.append(token)
        self._mask = None

    def rollback(self, n: int) -> None:
        """Forget the last ``n`` tokens."""
        if n == 0:
            return
        del self.tokens[len(self.tokens) - n :]
        self._mask = None
        if not self._matcher.rollback(n):
            raise GrammarError(f"the grammar could not be rolled back: {self._matcher.get_error()}")

    def state(self) -> str:
        """Text that is equal for equal states: the tokens, and the mask they lead to."""
        try:
            mask = self.mask().tobytes().hex()
        except GrammarError:
            mask = "dead"
        return f"{self.tokens} {mask}"
