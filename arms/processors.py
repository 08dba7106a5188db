"""Processors: a model's logits to the distribution that is declared, in one fixed order, the same code for p and q.

Order: suppress, bad words, minimum new tokens, repetition, frequency and presence penalties, logit bias, grammar mask,
temperature, top-k, top-p, min-p, typical-p. Penalties count the prompt too. A row is processed with the history it is
conditioned on: push the tokens it follows, process it, roll back what was not kept. Arithmetic on logits is float32,
each operation rounded. Temperature 0 is greedy: the argmax before the temperature, lowest id at ties.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from . import masses as law
from .errors import ArmError
from .masses import Edits, Masses

if TYPE_CHECKING:
    from .grammar import Grammar

ORDER: Final = (
    "suppress", "bad_words", "min_new_tokens", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "logit_bias", "grammar", "temperature", "top_k", "top_p", "min_p", "typical_p",
)  # fmt: skip
DEFAULTS: Final[Mapping[str, Any]] = {
    "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0,
    "frequency_penalty": 0.0, "presence_penalty": 0.0, "logit_bias": {}, "suppress": [], "bad_words": [],
    "min_new_tokens": 0, "grammar": None, "stop_strings": [],
}  # fmt: skip
COLDEST: Final = 1e-6
"""Least positive temperature; below it differences of logits overflow, and 0 says greedy exactly."""


def _number(decoding: Mapping[str, Any], name: str, low: float, high: float, open_low: bool = False) -> float:
    value = decoding[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArmError(f"decoding.{name} must be a finite number, not {value!r}")
    if not low <= value <= high or (open_low and value == low):
        span = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        raise ArmError(f"decoding.{name} = {value:g} lies outside {span}")
    return float(value)


def _count(decoding: Mapping[str, Any], name: str) -> int:
    value = decoding[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ArmError(f"decoding.{name} must be a whole number, 0 or more, not {value!r}")
    return value


def checked(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """The decoding section, defaults filled in. Raises ArmError naming an unknown processor or a value out of range."""
    unknown = sorted(set(decoding) - set(DEFAULTS))
    if unknown:
        raise ArmError(f"unknown processor {unknown[0]!r} in decoding; known: {', '.join(DEFAULTS)}")
    merged = {**DEFAULTS, **decoding}
    _number(merged, "temperature", 0.0, 1e6)
    if 0 < merged["temperature"] < COLDEST:
        raise ArmError(f"decoding.temperature = {merged['temperature']:g} is below {COLDEST:g}; 0 is greedy")
    for name in ("top_p", "typical_p"):
        _number(merged, name, 0.0, 1.0, open_low=True)
    _number(merged, "min_p", 0.0, 1.0)
    _number(merged, "repetition_penalty", 0.0, 1e6, open_low=True)
    for name in ("frequency_penalty", "presence_penalty"):
        _number(merged, name, -1e6, 1e6)
    for name in ("top_k", "min_new_tokens"):
        _count(merged, name)
    return merged


def _ids(values: Any, vocabulary: int, name: str) -> tuple[int, ...]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < vocabulary:
            raise ArmError(f"decoding.{name}: {value!r} is not a token id below {vocabulary}")
    return tuple(values)


class ProcessorChain:
    """The declared processors of one side, compiled once; `open` gives the state of one request."""

    def __init__(
        self,
        decoding: Mapping[str, Any],
        vocabulary: int,
        stop_ids: Sequence[int] = (),
        grammar: Grammar | None = None,
    ) -> None:
        """``grammar`` must be given when ``decoding`` names one. Raises ArmError."""
        settings = checked(decoding)
        if (settings["grammar"] is None) != (grammar is None):
            raise ArmError("decoding.grammar and the compiled grammar must be given together")
        self.settings, self.vocabulary, self.grammar = settings, vocabulary, grammar
        self.stop_ids = _ids(stop_ids, vocabulary, "stop token ids")
        self.temperature = float(settings["temperature"])
        self.greedy = self.temperature == 0
        self.scale = law.scale_of(self.temperature or 1.0)
        self.truncation = law.Truncation.of(
            settings["top_k"], settings["top_p"], settings["min_p"], settings["typical_p"]
        )
        self.min_new_tokens = int(settings["min_new_tokens"])
        self.repetition = np.float32(settings["repetition_penalty"])
        self.frequency = np.float32(settings["frequency_penalty"])
        self.presence = np.float32(settings["presence_penalty"])
        self.penalised = bool(self.repetition != 1 or self.frequency != 0 or self.presence != 0)
        self.suppressed = _ids(settings["suppress"], vocabulary, "suppress")
        self.bad_words = [_ids(word, vocabulary, "bad_words") for word in settings["bad_words"]]
        if any(not word for word in self.bad_words):
            raise ArmError("decoding.bad_words holds an empty word")
        self.bias = self._checked_bias(settings["logit_bias"])

    def _checked_bias(self, bias: Mapping[Any, Any]) -> dict[int, float]:
        out = {}
        for key, value in bias.items():
            try:
                token, amount = int(key), float(value)
            except (TypeError, ValueError):
                raise ArmError(f"decoding.logit_bias: {key!r}: {value!r} is not a token id and a number") from None
            _ids([token], self.vocabulary, "logit_bias")
            if not math.isfinite(amount):
                raise ArmError(f"decoding.logit_bias of token {token} is not finite; use suppress to forbid a token")
            out[token] = amount
        return out

    @property
    def plain(self) -> bool:
        """No processor depends on the history or edits a logit."""
        return not (
            self.penalised or self.suppressed or self.bad_words or self.bias or self.min_new_tokens or self.grammar
        )

    def policy_text(self) -> str:
        """Canonical text of the whole policy, processors in order; its hash goes into receipts."""
        return json.dumps([[name, self.settings[name]] for name in ORDER], sort_keys=True)

    def open(self, prompt: Sequence[int]) -> ChainState:
        return ChainState(self, prompt)


class ChainState:
    """What depends on the history, for one side of one request. Transactional: `push`, and `rollback` to a `mark`."""

    def __init__(self, chain: ProcessorChain, prompt: Sequence[int]) -> None:
        self.chain = chain
        self.history: list[int] = list(prompt)
        self.prompt_tokens = len(self.history)
        self._plain = chain.plain
        self.entropy = 0.0
        """Of the last row processed by `masses` with entropy, nats."""
        self.grammar = chain.grammar.open() if chain.grammar is not None else None
        self._table = _EditTable(chain) if chain.penalised or chain.suppressed or chain.bias else None
        if self._table is not None:
            self._table.count(self.history)

    # -- history -----------------------------------------------------------------------------------------------------

    def push(self, token: int) -> None:
        """The history grows by one token. Raises GrammarError when the grammar forbids it."""
        if self.grammar is not None and token not in self.chain.stop_ids:
            self.grammar.push(token)
        self.history.append(token)
        if self._table is not None:
            self._table.push(token)

    def mark(self) -> int:
        return len(self.history)

    def rollback(self, mark: int) -> None:
        """Forget every token pushed since the mark, in all processors."""
        dropped = self.history[mark:]
        if not dropped:
            return
        del self.history[mark:]
        if self._table is not None:
            for token in reversed(dropped):
                self._table.pop(token)
        if self.grammar is not None:
            self.grammar.rollback(sum(token not in self.chain.stop_ids for token in dropped))

    @property
    def new_tokens(self) -> int:
        return len(self.history) - self.prompt_tokens

    # -- rows --------------------------------------------------------------------------------------------------------

    def masses(self, logits: npt.NDArray[np.float32], out: Masses | None = None, entropy: bool = False) -> Masses:
        """The row's distribution after the history so far: integer masses. Raises RowError.

        At temperature 0 it is one-hot at the argmax. ``entropy`` is computed, into the attribute, only when asked for.
        """
        if self.chain.greedy:
            return self._one_hot(self.argmax(logits), out)
        edits, mask = (None, None) if self._plain else self.edits(logits)
        row, self.entropy = law.row(logits, self.chain.scale, self.chain.truncation, out, edits, mask, entropy)
        return row

    def argmax(self, logits: npt.NDArray[np.float32]) -> int:
        """The greedy choice after the history so far. Raises RowError."""
        if self._plain:
            return law.argmax(logits)
        edits, mask = self.edits(logits)
        return law.argmax(logits, edits, mask)

    def peak(self, logits: npt.NDArray[np.float32]) -> tuple[int, float, float]:
        """(argmax, entropy in nats, probability of the argmax); at temperature 0 the latter two are those at 1."""
        if self._plain:
            return law.peak(logits, self.chain.scale)
        edits, mask = self.edits(logits)
        return law.peak(logits, self.chain.scale, edits, mask)

    def _one_hot(self, token: int, out: Masses | None) -> Masses:
        row = np.zeros(self.chain.vocabulary, np.uint64) if out is None else out
        row.fill(0)
        row[token] = law.TOTAL
        self.entropy = 0.0
        return row

    def edits(self, logits: npt.NDArray[np.float32]) -> tuple[Edits | None, npt.NDArray[np.uint32] | None]:
        """What replaces logits at this point of the history, and the grammar's mask."""
        banned = self.banned()
        edits: Edits | None = None
        if self._table is not None:
            edits = self._table.edits(logits, banned)
        elif banned:
            edits = np.array(sorted(banned), np.int32), np.full(len(banned), -np.inf, np.float32)
        return edits, self.grammar.mask() if self.grammar is not None else None

    def banned(self) -> set[int]:
        """Tokens that bad words or the minimum length forbid at this point of the history."""
        chain = self.chain
        out: set[int] = set()
        if self.new_tokens < chain.min_new_tokens:
            out.update(chain.stop_ids)
        for *head, last in chain.bad_words:
            if not head or self.history[-len(head) :] == head:
                out.add(last)
        return out

    def forced(self) -> int | None:
        """The one token left by the final mask, or None. Only a grammar forces tokens."""
        if self.grammar is None:
            return None
        allowed = self.grammar.allowed(limit=64)
        if allowed is None:
            return None
        left = [t for t in allowed if t not in self.chain.suppressed and t not in self.banned()]
        return left[0] if len(left) == 1 else None

    def fingerprint(self) -> str:
        """sha256 over everything that later rows depend on: equal to a fresh state's after the same tokens."""
        parts = [
            repr((self.history, self.prompt_tokens)),
            self._table.state() if self._table is not None else "",
            self.grammar.state() if self.grammar is not None else "",
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class _EditTable:
    """The tokens whose logits are edited, one slot each: a row costs the tokens edited, not the vocabulary."""

    def __init__(self, chain: ProcessorChain) -> None:
        self.chain = chain
        self.slot: dict[int, int] = {}
        room = 256
        self.ids = np.zeros(room, np.int32)
        self.counts = np.zeros(room, np.int32)
        self.bias = np.zeros(room, np.float32)
        self.suppressed = np.zeros(room, bool)
        for token in chain.suppressed:
            self.suppressed[self._slot(token)] = True
        for token, amount in chain.bias.items():
            at = self._slot(token)  # may grow the arrays
            self.bias[at] = amount
        self.fixed = len(self.slot)

    def _slot(self, token: int) -> int:
        at = self.slot.get(token)
        if at is None:
            at = self.slot[token] = len(self.slot)
            if at == self.ids.shape[0]:
                for name in ("ids", "counts", "bias", "suppressed"):
                    old = getattr(self, name)
                    setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
            self.ids[at] = token
        return at

    def count(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.push(token)

    def push(self, token: int) -> None:
        if self.chain.penalised:
            at = self._slot(token)  # may grow the arrays
            self.counts[at] += 1

    def pop(self, token: int) -> None:
        if self.chain.penalised:
            at = self.slot[token]
            self.counts[at] -= 1
            if self.counts[at] == 0 and at >= self.fixed:
                del self.slot[token]  # pops mirror pushes, so it is the last slot

    def edits(self, logits: npt.NDArray[np.float32], banned: set[int]) -> Edits:
        n, chain = len(self.slot), self.chain
        ids = self.ids[:n]
        values = logits[ids]
        if chain.penalised:
            counts = self.counts[:n]
            seen = counts > 0
            if chain.repetition != 1:
                penalised = np.where(values > 0, values / chain.repetition, values * chain.repetition)
                values = np.where(seen, penalised, values)
            if chain.frequency != 0:
                values = values - chain.frequency * counts.astype(np.float32)
            if chain.presence != 0:
                values = np.where(seen, values - chain.presence, values)
        if chain.bias:
            values = values + self.bias[:n]
        if chain.suppressed:
            values[self.suppressed[:n]] = -np.inf
        if banned:
            extra = [t for t in sorted(banned) if t not in self.slot]
            values[[self.slot[t] for t in banned if t in self.slot]] = -np.inf
            ids = np.concatenate([ids, np.array(extra, np.int32)])
            values = np.concatenate([values, np.full(len(extra), -np.inf, np.float32)])
        return ids, values

    def state(self) -> str:
        return repr(sorted((t, int(self.counts[at])) for t, at in self.slot.items() if self.counts[at]))
