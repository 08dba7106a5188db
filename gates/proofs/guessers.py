"""What each proposer should have proposed, derived again: a second model, prompt lookup, and their frozen policies.

Written from the descriptions in `arms`; a stopping rule is part of the claim, so how many tokens were proposed is
re-derived too, not taken from the record.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arms.engine.contract import Engine, NonFinite
from .history import law_after, only_token, processed
from .interpreter import Case, Guess
from .law import ONE, Chance, LawError, Logits, best, token_at, top_share
from .reading import Reading


class Course:
    """A policy over one request: k for the next round, and whether to go on after a kept token."""

    def __init__(self, spec: Mapping[str, Any], k: int, prompt_tokens: int = 0, new_tokens: int = 0) -> None:
        self.kind, self.spec, self.maximum = str(spec.get("kind", "fixed")), spec, k
        self.prompt_tokens, self.new_tokens = prompt_tokens, new_tokens
        self.k = min(int(spec.get("start", min(5, k) or 1)), k)
        self.tested = self.accepted = self.idle = 0
        self.sharpness = float(spec.get("sharpness", 0.0))
        self.tops: list[float] = []
        """Largest probabilities of the rows drawn from in this round."""
        self.per_time = self.expected = 0.0

    def requested(self) -> int:
        if self.kind == "hf-heuristic":
            return self.k
        if self.kind == "cost-model":
            return 0 if self.declines() else self._cheapest()
        return self.maximum

    def declines(self) -> bool:
        """Whether reading the prompt costs the draft no less than the longest answer would save."""
        if self.kind != "cost-model":
            return False
        _, reading, unaided, *_ = self._costs()
        fastest = max(self._rates(0, 0)[0])
        return reading > 0 and self.new_tokens * (unaided - 1 / fastest) <= reading * self.prompt_tokens

    def go_on(self, drawn: int, top: float) -> bool:
        self.tops = [*self.tops[: drawn - 1], top]
        if self.kind == "cost-model" and self.sharpness:
            return len(self.tops) >= self.maximum or self._worth_one_more()
        return self.kind != "confidence" or top >= float(self.spec.get("threshold", 0.4))

    def learn(self, proposed: int, tested: int, accepted: int) -> None:
        if not proposed:
            return
        self.k = min(self.k + 2, self.maximum) if accepted == proposed else max(self.k - 1, 1)
        self.tested += tested
        self.accepted += accepted

    def _rates(self, tested: int, accepted: int) -> tuple[list[float], float]:
        """Tokens per unit of time of 0, 1, …, K proposals, and the acceptance that they are estimated with."""
        draft, _, *verify = self._costs()
        prior, weight = float(self.spec.get("prior", 0.6)), float(self.spec.get("weight", 8.0))
        a = (accepted + weight * prior) / (tested + weight)
        tokens, power, rates = 1.0, 1.0, [1.0 / verify[0]]
        for k in range(1, self.maximum + 1):
            power *= a
            tokens += power
            rates.append(tokens / (verify[k] + k * draft))
        return rates, a

    def _cheapest(self) -> int:
        rates, a = self._rates(self.tested, self.accepted)
        k = rates.index(max(rates))
        self.per_time, self.expected = max(rates), a
        if k and self.sharpness:
            return self.maximum
        explore = int(self.spec.get("explore", 16))
        if k or not explore:
            return k
        self.idle += 1
        return int(self.idle % explore == 0)

    def _worth_one_more(self) -> bool:
        """Whether the next proposal is expected to give more tokens than its time would give at the best rate."""
        draft, _, *verify = self._costs()
        drawn = len(self.tops)
        all_kept = 1.0
        for top in self.tops:
            all_kept *= top**self.sharpness
        return all_kept * self.expected > (draft + verify[drawn + 1] - verify[drawn]) * self.per_time

    def _costs(self) -> list[float]:
        """Of a step of the draft, of reading a token, of verifications: as stated, or between the lengths around."""

        def listed(c: Mapping[str, Any]) -> list[float]:
            return [float(v) for v in (c["draft"], c.get("reading", 0.0), *c["verify"])]

        stated = [(int(c["context"]), listed(c)) for c in self.spec.get("costs", ())]
        if not stated:
            return listed(self.spec)
        here = min(max(self.prompt_tokens, stated[0][0]), stated[-1][0])
        for (low, a), (high, b) in itertools.pairwise(stated):
            if low < here < high:
                share = (here - low) / (high - low)
                return [x + share * (y - x) for x, y in zip(a, b, strict=True)]
        return dict(stated)[here]


class LookupGuesser:
    """Prompt lookup by plain search: the most recent earlier occurrence of the longest suffix n-gram."""

    def __init__(self, spec: Mapping[str, Any], stop_ids: Sequence[int]) -> None:
        self.maximum, self.stop_ids = int(spec.get("k", 5)), stop_ids
        self.low, self.high = int(spec.get("min_ngram", 2)), int(spec.get("max_ngram", 4))

    def requested(self) -> int:
        return self.maximum

    def propose(self, context: Sequence[int], k: int, chance: Chance | None, round: int) -> Guess:
        context = list(context)
        for n in range(min(self.high, len(context) - 1), self.low - 1, -1):
            suffix = context[-n:]
            for end in range(len(context) - 1, n - 1, -1):
                if context[end - n : end] == suffix:
                    return Guess(self._copy(context, end, k), None)
        return Guess([], None)

    def _copy(self, context: list[int], begin: int, k: int) -> list[int]:
        out = list(context)
        for i in range(k):
            out.append(out[begin + i])
            if out[-1] in self.stop_ids:
                break
        return out[len(context) :]

    def learn(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        return None


class DraftGuesser:
    """A second model: its own fresh reading, its own decoding, the rows its proposals are drawn from."""

    def __init__(
        self,
        engine: Engine,
        spec: Mapping[str, Any],
        case: Case,
        vocabulary: int,
        grammar: Any | None = None,
        output_ids: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """``case``: what was asked; its decoding is overridden by the arm's ``draft_decoding``."""
        self.engine, self.case, self.vocabulary, self.grammar, self.output_ids = (
            engine,
            case,
            vocabulary,
            grammar,
            output_ids,
        )
        self.decoding = {**case.decoding, **spec.get("draft_decoding", {})}
        self.maximum = int(spec.get("k", 4))
        longest = min(case.context_limit, len(case.prompt) + case.max_new_tokens)
        policy = spec.get("policy", {"kind": "fixed"})
        self.course = Course(policy, self.maximum, len(case.prompt), longest - len(case.prompt))
        cut = dict(spec.get("truncation") or {"kind": "tail"})
        self.kind, self.limit = cut["kind"], engine.context_limit
        self.stride = int(cut.get("stride", max(1, self.limit // 4)))
        self.start = -1
        self.reading: Reading | None = None

    def requested(self) -> int:
        return self.course.requested()

    def propose(self, context: Sequence[int], k: int, chance: Chance | None, round: int) -> Guess:
        start = self._window(len(context))
        guess = Guess([], None if chance is None else [])
        if start is None or self.course.declines():
            return guess
        seen = list(context[start:])
        while len(guess.tokens) < k:
            try:
                token, top = self._draw(seen, list(context), guess, chance, round)
            except (NonFinite, LawError):
                guess.numeric = True
                break
            guess.tokens.append(token)
            if token in self.case.stop_ids or not self.course.go_on(len(guess.tokens), top):
                break
            if self._forced([*context, *guess.tokens]):
                break
        return guess

    def _draw(
        self, seen: list[int], context: list[int], guess: Guess, chance: Chance | None, round: int
    ) -> tuple[int, float]:
        raw = self._spread(self._reading().after(seen, guess.tokens))
        prompt = self.case.prompt
        new = [*context[len(prompt) :], *guess.tokens]
        if chance is None:
            ready = processed(raw, self.decoding, prompt, new, self.case.stop_ids, self.grammar)
            return best(ready), top_share(ready)
        row = law_after(raw, self.decoding, prompt, new, self.case.stop_ids, self.grammar)
        assert guess.rows is not None
        guess.rows.append(row)
        token = token_at(row, chance.uniform(ONE, "draft_sample", round, len(guess.tokens)))
        return token, float(row.max()) / ONE

    def _window(self, length: int) -> int | None:
        """Index of the first token the draft sees; a new window starts a new reading."""
        over = length + self.maximum - self.limit
        start = 0 if over <= 0 else -(-over // self.stride) * self.stride
        if over > 0 and (self.kind == "stop" or start >= length):
            return None
        if start != self.start:
            self.close()
            self.start = start
        return start

    def _reading(self) -> Reading:
        if self.reading is None:
            self.reading = Reading(self.engine, len(self.case.prompt) + self.case.max_new_tokens + self.maximum + 1)
        return self.reading

    def _spread(self, raw: Logits) -> Logits:
        if self.output_ids is None:
            return raw
        whole = np.full(self.vocabulary, -np.inf, np.float32)
        whole[self.output_ids] = raw
        return whole

    def _forced(self, history: list[int]) -> bool:
        if self.grammar is None:
            return False
        return (
            only_token(
                self.grammar, self.decoding, self.case.prompt, history[len(self.case.prompt) :], self.case.stop_ids
            )
            is not None
        )

    def learn(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        self.course.learn(proposed, tested, accepted)

    def close(self) -> None:
        if self.reading is not None:
            self.reading.close()
            self.reading = None
