"""Toy arms over toy engines, and draws that are scripted so that every outcome can be walked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from draftgate.arms.champion_alone import ChampionAlone
from draftgate.arms.draws import Draws
from draftgate.arms.neural_draft import NeuralDraft, Truncation
from draftgate.arms.policies import policy_of
from draftgate.arms.processors import ProcessorChain
from draftgate.arms.prompt_lookup import PromptLookup
from draftgate.arms.request import Request, StopPolicy
from draftgate.arms.session import Champion, Session
from draftgate.arms.speculative_arm import SpeculativeArm

from support.letters import Letters, LettersDecoder
from support.toy import LogitFunction, ToyEngine, hashed_logits

STOP = 0


class Scripted:
    """Implements `Draws`: replays the choices given, then takes the first possible one; notes every branching."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script, self.taken = script, list[tuple[int, list[tuple[int, Fraction]]]]()
        self.probability = Fraction(1)

    def _choose(self, options: list[tuple[int, Fraction]]) -> int:
        at = len(self.taken)
        index = self.script[at] if at < len(self.script) else 0
        self.taken.append((index, options))
        self.probability *= options[index][1]
        return options[index][0]

    def categorical(self, masses: Any, domain: str, position: int, total: int = 1 << 48) -> int:
        assert int(masses.sum()) == total and total > 0
        return self._choose([(int(i), Fraction(int(masses[i]), total)) for i in np.flatnonzero(masses)])

    def accept(self, q_y: int, p_y: int, position: int) -> bool:
        yes = min(Fraction(1), Fraction(q_y, p_y))
        return bool(self._choose([(v, p) for v, p in ((1, yes), (0, 1 - yes)) if p]))


def every_outcome(run: Callable[[Scripted], Any]) -> Iterator[tuple[Any, Fraction]]:
    """Runs once along every branch; yields what came out and its exact probability."""
    script: list[int] = []
    while True:
        draws = Scripted(script)
        yield run(draws), draws.probability
        script = [index for index, _ in draws.taken]
        while script and script[-1] + 1 == len(draws.taken[len(script) - 1][1]):
            script.pop()
        if not script:
            return
        script[-1] += 1


def table(rows: Mapping[tuple[int, ...], Sequence[float]], default: Sequence[float]) -> LogitFunction:
    """Logits by the last tokens: the longest key that is a suffix of the prefix decides."""

    def logits(prefix: tuple[int, ...]) -> Any:
        for n in range(len(prefix), 0, -1):
            if prefix[-n:] in rows:
                return np.array(rows[prefix[-n:]], np.float32)
        return np.array(default, np.float32)

    return logits


class Kit:
    """Champion, draft and arms over small vocabularies; every piece can be replaced."""

    def __init__(
        self,
        decoding: Mapping[str, Any] | None = None,
        vocabulary: int = 5,
        champion: LogitFunction | None = None,
        draft: LogitFunction | None = None,
        context: int = 64,
        draft_context: int = 64,
        k: int = 3,
        policy: Mapping[str, Any] | None = None,
        truncation: Mapping[str, Any] | None = None,
        stop_ids: tuple[int, ...] = (STOP,),
        draft_decoding: Mapping[str, Any] | None = None,
        grammar: Any = None,
    ) -> None:
        self.decoding = dict(decoding or {})
        self.vocabulary, self.stop_ids = vocabulary, stop_ids
        self.letters = Letters([bytes([97 + i]) for i in range(vocabulary)], stop_ids)
        self.engine = ToyEngine(champion or hashed_logits(vocabulary, 1), vocabulary, context)
        self.draft_engine = ToyEngine(draft or hashed_logits(vocabulary, 2), vocabulary, draft_context, name="draft")
        chain = ProcessorChain(self.decoding, vocabulary, stop_ids, grammar)
        self.champion = Champion(self.engine, chain, lambda: LettersDecoder(self.letters))
        self.draft_chain = ProcessorChain({**self.decoding, **(draft_decoding or {})}, vocabulary, stop_ids, grammar)
        self.policy = policy_of(policy or {"kind": "fixed"}, k)
        self.truncation = Truncation.of(truncation, draft_context)
        self.k = k

    def request(self, prompt: Sequence[int] = (1, 2, 3), n: int = 12, seed: int = 0, **extra: Any) -> Request:
        strings = tuple(extra.pop("strings", ()))
        return Request("r", tuple(prompt), n, seed, StopPolicy(self.stop_ids, strings), **extra)

    def draft(self, request: Request) -> NeuralDraft:
        longest = min(self.engine.context_limit, len(request.prompt) + request.max_new_tokens)
        return NeuralDraft(
            self.draft_engine,
            self.draft_chain,
            self.policy,
            self.truncation,
            request.prompt,
            frozenset(request.stop.token_ids),
            longest,
        )

    def alone(self, **extra: Any) -> ChampionAlone:
        return ChampionAlone("champion_alone", self.champion, **extra)

    def neural(self, **extra: Any) -> SpeculativeArm:
        return SpeculativeArm("neural_draft", self.champion, self.draft, ("champion", "draft"), **extra)

    def lookup(self, low: int = 1, high: int = 3, **extra: Any) -> SpeculativeArm:
        def opened(request: Request) -> PromptLookup:
            return PromptLookup(self.k, low, high, frozenset(request.stop.token_ids))

        return SpeculativeArm("prompt_lookup", self.champion, opened, ("champion",), **extra)


def checked_run(session: Session) -> Session:
    """Runs a session round by round, holding every round to the fresh-state invariant."""
    session.prefill()
    while not session.finished():
        session.step()
        if session.failure is None:
            twin = session.twin()
            assert twin.state_fingerprint() == session.state_fingerprint(), session.records[-1]
            twin.close()
    return session


def scripted(draws: Draws) -> Callable[[int, str, int], Draws]:
    return lambda seed, stream, round: draws
