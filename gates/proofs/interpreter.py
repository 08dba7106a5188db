"""The auditor's own account of a request: every decision again, from logits read afresh, the tokens and the seed.

Shares nothing with the round, the session or the incremental state: each row is recomputed from the token ids before
it. Where it and the record disagree, one of the two is wrong; there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .history import allowed, is_greedy, law_after, only_token, processed
from .law import ONE, Chance, LawError, Logits, Masses, best, token_at

Decode = Callable[[Sequence[int]], str]


class Reader(Protocol):
    """The champion's logits, read one token at a time."""

    def after(self, tokens: Sequence[int]) -> Logits:
        """Raw logits [V] after all of ``tokens``; each call's tokens extend the ones before."""


@dataclass
class Guess:
    """What a proposer should have proposed."""

    tokens: list[int]
    rows: list[Masses] | None
    """None: deterministic."""
    numeric: bool = False


class Guesser(Protocol):
    """The proposer, re-derived."""

    maximum: int

    def requested(self) -> int: ...

    def propose(self, context: Sequence[int], k: int, chance: Chance | None, round: int) -> Guess: ...

    def learn(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        """After each round: the whole context, and what became of the proposals."""


@dataclass
class Step:
    """One round as it should have been."""

    context_tokens: int
    requested: int = 0
    proposals: list[int] = field(default_factory=list)
    tested: int = 0
    accepted: int = 0
    tokens: list[int] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)
    outcome: str = "champion_step"
    censored: str = "none"
    probe: bool = False
    decisions: int = 0
    """Random or argmax decisions re-derived."""
    margin: float = float("nan")
    """Greedy: the champion's lead over its second choice at the last token."""


@dataclass(frozen=True)
class Case:
    """What a request asked for; nothing of what it answered."""

    prompt: Sequence[int]
    max_new_tokens: int
    context_limit: int
    stop_ids: Sequence[int] = ()
    stop_strings: Sequence[str] = ()
    decoding: Mapping[str, Any] = field(default_factory=dict)
    probe_rate: float = 0.0
    method: str = "residual"
    """``sampler-match``: the champion draws at every row, and a proposal is kept when it is that token."""


class Interpreter:
    """Re-derives one request round by round: `steps` yields what should have been, `finish` says how it ended."""

    def __init__(
        self,
        case: Case,
        chance: Chance,
        champion: Reader,
        guesser: Guesser | None = None,
        decode: Decode | None = None,
        grammar: Any | None = None,
    ) -> None:
        self.case, self.chance, self.champion, self.guesser = case, chance, champion, guesser
        self.decode, self.grammar = decode, grammar
        self.greedy = is_greedy(case.decoding)
        self.new: list[int] = []
        self.finish = ""
        self.rounds = self.proposed = self.accepted = 0

    @property
    def context(self) -> list[int]:
        return [*self.case.prompt, *self.new]

    @property
    def capacity(self) -> int:
        return min(self.case.context_limit, len(self.case.prompt) + self.case.max_new_tokens)

    def steps(self) -> Iterator[Step]:
        while not self._over():
            step = self._step(self.rounds)
            self.new += step.tokens
            self.rounds += 1
            self.proposed += len(step.proposals)
            self.accepted += step.accepted
            if self.guesser is not None:
                self.guesser.learn(self.context, len(step.proposals), step.tested, step.accepted)
            yield step

    def _over(self) -> bool:
        if not self.finish:
            if len(self.new) >= self.case.max_new_tokens:
                self.finish = "length"
            elif len(self.context) > self.capacity:
                self.finish = "context"
        return bool(self.finish)

    def _ends(self, more: Sequence[int]) -> bool:
        """Whether the answer ends with the last of ``more`` tokens after the ones emitted."""
        new = [*self.new, *more]
        if new[-1] in self.case.stop_ids:
            self.finish = "stop"
        elif self.case.stop_strings and self.decode is not None:
            text = self.decode(new)
            if any(s in text for s in self.case.stop_strings):
                self.finish = "stop_string"
        return bool(self.finish)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _raw(self, more: Sequence[int]) -> Logits:
        return self.champion.after([*self.context, *more])

    def _law(self, more: Sequence[int]) -> Masses:
        new = [*self.new, *more]
        return law_after(
            self._raw(more), self.case.decoding, self.case.prompt, new, self.case.stop_ids, self.grammar
        )  # fmt: skip

    def _best(self, more: Sequence[int], step: Step) -> int:
        new = [*self.new, *more]
        ready = processed(
            self._raw(more), self.case.decoding, self.case.prompt, new, self.case.stop_ids, self.grammar
        )  # fmt: skip
        token = best(ready)
        others = np.delete(ready, token)
        step.margin = float(ready[token] - others.max()) if len(others) else float("inf")
        step.decisions += 1
        return token

    # -- one round ----------------------------------------------------------------------------------------------------

    def _step(self, number: int) -> Step:
        step = Step(len(self.context))
        self._force(step)
        left = self.case.max_new_tokens - len(self.new) - len(step.forced)
        if self.finish or left <= 0 or len(self.context) + len(step.forced) > self.capacity:
            return step
        guess = self._guess(step, number, left)
        if not guess.tokens:
            step.tokens.append(self._champion(step, number))
            self._ends(step.tokens)
            return step
        step.proposals = guess.tokens
        for i, proposed in enumerate(guess.tokens):
            token = self._decide(step, guess, i, number)
            step.tested = i + 1
            step.tokens.append(token)
            if self._rejected:
                step.outcome = "rejected"
                self._ends(step.tokens)
                return step
            step.accepted = i + 1
            assert token == proposed
            if self._ends(step.tokens):
                step.outcome = "stop"
                return step
            if i + 1 == left:
                step.outcome = step.censored = "length"
                return step
        step.outcome = "accepted_all"
        step.tokens.append(self._bonus(step, number))
        self._ends(step.tokens)
        return step

    def _guess(self, step: Step, number: int, left: int) -> Guess:
        if self.guesser is None:
            return Guess([], None)
        step.probe = self._probe(number)
        step.requested = self.guesser.maximum if step.probe else self.guesser.requested()
        context = [*self.context, *step.forced]
        room = self.capacity - len(context)
        k = min(step.requested, left, room)
        if k < 1:
            step.censored = "context" if k < step.requested else "none"
            return Guess([], None)
        guess = self.guesser.propose(context, k, None if self.greedy else self.chance, number)
        if guess.rows is None and self.grammar is not None:
            guess.tokens = self._before_forced(step, guess.tokens)
        step.decisions += len(guess.tokens)
        if k < step.requested and len(guess.tokens) == k:
            step.censored = "length" if k == left else "context"
        return guess

    def _probe(self, number: int) -> bool:
        rate = self.case.probe_rate
        return bool(rate) and self.chance.uniform(1 << 32, "policy", number, 0) <= rate * (1 << 32)

    _rejected = False

    def _decide(self, step: Step, guess: Guess, i: int, number: int) -> int:
        """The authoritative token at position i of a block: the proposal, or its replacement."""
        proposed = guess.tokens[i]
        if self.greedy:
            token = self._best(step.tokens, step)
            self._rejected = token != proposed
            return token
        q = self._law(step.tokens)
        if self.case.method == "sampler-match":
            step.decisions += 1
            token = token_at(q, self.chance.uniform(ONE, "target_baseline", number, i))
            self._rejected = token != proposed
            return token
        p_y = ONE if guess.rows is None else int(guess.rows[i][proposed])
        if p_y == 0:
            raise LawError(f"proposal {i} has no mass where it was drawn")
        step.decisions += 1
        self._rejected = self.chance.uniform(p_y, "accept_uniform", number, i) > int(q[proposed])
        if not self._rejected:
            return proposed
        if guess.rows is None:
            rest = q.copy()
            rest[proposed] = 0
        else:
            rest = np.where(q > guess.rows[i], q - guess.rows[i], 0).astype(np.uint64)
        mass = int(rest.sum(dtype=np.uint64))
        if mass == 0:
            raise LawError(f"proposal {i} was rejected where p = q")
        step.decisions += 1
        return token_at(rest, self.chance.uniform(mass, "correction_sample", number, i))

    def _champion(self, step: Step, number: int) -> int:
        return self._own(step, "target_baseline", number)

    def _bonus(self, step: Step, number: int) -> int:
        return self._own(step, "target_extra", number)

    def _own(self, step: Step, domain: str, number: int) -> int:
        if self.greedy:
            return self._best(step.tokens, step)
        step.decisions += 1
        return token_at(self._law(step.tokens), self.chance.uniform(ONE, domain, number, 0))

    # -- grammar ------------------------------------------------------------------------------------------------------

    def _force(self, step: Step) -> None:
        """Tokens a grammar leaves no choice about, appended without a draw."""
        while self.grammar is not None and not self.finish:
            done = len(self.new) + len(step.forced)
            if done >= self.case.max_new_tokens or len(self.case.prompt) + done > self.capacity:
                break
            token = self._only(step.tokens)
            if token is None:
                break
            step.forced.append(token)
            step.tokens.append(token)
            self._ends(step.tokens)

    def _only(self, more: Sequence[int]) -> int | None:
        case = self.case
        return only_token(self.grammar, case.decoding, case.prompt, [*self.new, *more], case.stop_ids)

    def _before_forced(self, step: Step, tokens: list[int]) -> list[int]:
        """A deterministic block ends before a forced position and after a token the grammar forbids or a stop."""
        for i, token in enumerate(tokens):
            more = [*step.tokens, *tokens[:i]]
            if self._only(more) is not None:
                return tokens[:i]
            if token in self.case.stop_ids or not allowed(self.grammar, [*self.new, *more], self.case.stop_ids)[token]:
                return tokens[: i + 1]
        return tokens
