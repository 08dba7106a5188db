"""How many tokens to propose: frozen policies, every one a stopping time.

`requested` reads only earlier rounds of this request and frozen costs; `go_on` is asked after a token was drawn *and
kept*, and reads only what has been drawn and the rows it was drawn from. No state outlives a request.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import ArmError


class PolicyState(Protocol):
    """One request's course."""

    needs_peak: bool
    """`go_on` reads the probability of the draft's top token; asked of greedy drafts only when needed."""
    declined: bool
    """Nothing will be asked for in this request: the draft need not read the prompt."""

    def requested(self) -> int:
        """k for the next round."""

    def go_on(self, drawn: int, probability: float, top: float, entropy: float) -> bool:
        """Whether to draw another after ``drawn`` >= 1 kept tokens, given the last one's probability in its row, the
        row's largest probability and its entropy in nats."""

    def observe(self, proposed: int, tested: int, accepted: int) -> None:
        """A finished round that proposed at least one token."""


class Policy(Protocol):
    maximum: int
    """K: the most it can ask for."""

    def open(self, prompt_tokens: int = 0, new_tokens: int = 0) -> PolicyState:
        """For a request of so many tokens of prompt and at most so many to come."""


class _Base:
    needs_peak = False
    declined = False

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum

    def requested(self) -> int:
        return self.maximum

    def go_on(self, drawn: int, probability: float, top: float, entropy: float) -> bool:
        return True

    def observe(self, proposed: int, tested: int, accepted: int) -> None:
        return None


class Fixed(_Base):
    """Always k."""

    def open(self, prompt_tokens: int = 0, new_tokens: int = 0) -> PolicyState:
        return _Base(self.maximum)


class HfHeuristic(_Base):
    """Two more after a fully accepted block, one fewer otherwise, from ``start``, within [1, k]."""

    def __init__(self, maximum: int, start: int) -> None:
        super().__init__(maximum)
        self.start = start

    def open(self, prompt_tokens: int = 0, new_tokens: int = 0) -> PolicyState:
        return _HfState(self.maximum, self.start)


class _HfState(_Base):
    def __init__(self, maximum: int, start: int) -> None:
        super().__init__(maximum)
        self.k = min(start, maximum)

    def requested(self) -> int:
        return self.k

    def observe(self, proposed: int, tested: int, accepted: int) -> None:
        self.k = min(self.k + 2, self.maximum) if accepted == proposed else max(self.k - 1, 1)


class Confidence(_Base):
    """Stop after a kept token whose row was unsure: its top probability below ``threshold``."""

    needs_peak = True

    def __init__(self, maximum: int, threshold: float) -> None:
        super().__init__(maximum)
        self.threshold = threshold

    def open(self, prompt_tokens: int = 0, new_tokens: int = 0) -> PolicyState:
        return self

    def go_on(self, drawn: int, probability: float, top: float, entropy: float) -> bool:
        return top >= self.threshold


@dataclass(frozen=True)
class Costs:
    """Of one step of the draft, and of a verification of 0, 1, …, K proposals, all in one unit."""

    context: int
    """Tokens of prompt they were measured at."""
    draft: float
    verify: tuple[float, ...]
    reading: float = 0.0
    """Of a token of the prompt: what the draft's reading adds."""


class CostModel(_Base):
    """k that maximises expected tokens per unit of time, from frozen costs and the acceptance seen in this request.

    ``costs``: by rising length of the prompt, read between two of them linearly and beyond the ends as at the ends.
    Acceptance a is (accepted + prior weight * prior) / (tested + prior weight); a block of k emits
    1 + a + … + a^k tokens on average and costs verify[k] + k * draft. k = 0 wins where nothing else pays; every
    ``explore``-th round then still asks for one token, so that acceptance goes on being seen (0: never).

    A request is declined whole, and the draft never reads its prompt, where ``reading`` of that prompt costs at least
    what the longest answer would save at the acceptance expected beforehand.

    ``sharpness`` > 0: where drafting pays at all, ask for K and stop inside the block as soon as one more proposal is
    expected to give fewer tokens than its time would give otherwise: the chance that all drawn so far are accepted
    (product of the rows' top probabilities, each to the power ``sharpness``) times a, against (draft + the step in
    verify) times the best rate. Below 1 where acceptance exceeds the draft's own probability, as greedy matches do.
    """

    def __init__(
        self, costs: Sequence[Costs], prior: float, weight: float, explore: int, sharpness: float = 0.0
    ) -> None:
        super().__init__(len(costs[0].verify) - 1)
        self.costs, self.prior, self.weight, self.explore = tuple(costs), prior, weight, explore
        self.sharpness = sharpness

    def open(self, prompt_tokens: int = 0, new_tokens: int = 0) -> PolicyState:
        return _CostState(self, self.at(prompt_tokens), prompt_tokens, new_tokens)

    def at(self, tokens: int) -> Costs:
        """The costs of a request with so many tokens of prompt."""
        above = bisect.bisect_right(self.costs, tokens, key=lambda c: c.context)
        if above == 0 or above == len(self.costs):
            return self.costs[max(above - 1, 0)]
        low, high = self.costs[above - 1], self.costs[above]
        share = (tokens - low.context) / (high.context - low.context)
        verify = tuple(a + share * (b - a) for a, b in zip(low.verify, high.verify, strict=True))
        draft, reading = (a + share * (b - a) for a, b in ((low.draft, high.draft), (low.reading, high.reading)))
        return Costs(tokens, draft, verify, reading)


class _CostState(_Base):
    def __init__(self, policy: CostModel, costs: Costs, prompt_tokens: int, new_tokens: int) -> None:
        super().__init__(policy.maximum)
        self.policy, self.costs = policy, costs
        self.tested = self.accepted = self.idle = 0
        self.needs_peak = policy.sharpness > 0
        self.rate = self.acceptance = 0.0
        """Best tokens per unit of time, and acceptance, as estimated before the round."""
        self.reach = 1.0
        """Estimated chance that everything drawn in this round is accepted."""
        if costs.reading:
            self._best()
            saved = new_tokens * (costs.verify[0] - 1.0 / self.rate)
            self.declined = saved <= costs.reading * prompt_tokens

    def _best(self) -> int:
        """k with the best rate at the acceptance seen so far; keeps both."""
        policy, costs = self.policy, self.costs
        a = (self.accepted + policy.weight * policy.prior) / (self.tested + policy.weight)
        best, best_rate, tokens, power = 0, 1.0 / costs.verify[0], 1.0, 1.0
        for k in range(1, self.maximum + 1):
            power *= a
            tokens += power
            rate = tokens / (costs.verify[k] + k * costs.draft)
            if rate > best_rate:
                best, best_rate = k, rate
        self.rate, self.acceptance = best_rate, a
        return best

    def requested(self) -> int:
        if self.declined:
            return 0
        best, policy = self._best(), self.policy
        if best and policy.sharpness:
            return self.maximum
        if best or not policy.explore:
            return best
        self.idle += 1
        return 1 if self.idle % policy.explore == 0 else 0

    def go_on(self, drawn: int, probability: float, top: float, entropy: float) -> bool:
        if not self.policy.sharpness or drawn >= self.maximum:
            return True
        if drawn == 1:  # not in requested(): a probe round does not ask
            self.reach = 1.0
        self.reach *= max(0.0, min(1.0, top)) ** self.policy.sharpness
        price = self.costs.draft + self.costs.verify[drawn + 1] - self.costs.verify[drawn]
        return self.reach * self.acceptance > price * self.rate

    def observe(self, proposed: int, tested: int, accepted: int) -> None:
        self.tested += tested
        self.accepted += accepted


def _take(spec: dict[str, Any], name: str, kind: type, low: float, high: float, default: Any = None) -> Any:
    value = spec.pop(name, default)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    good = isinstance(value, int | float) and isinstance(value, kind) and not isinstance(value, bool)
    if not good or not low <= value <= high:
        raise ArmError(f"policy.{name} must be a {kind.__name__} in [{low:g}, {high:g}], not {value!r}")
    return value


LARGEST_K = 64
LONGEST = 1 << 20
"""Tokens of context a cost may be stated for."""


def _costs(rest: dict[str, Any], k: int) -> list[Costs]:
    """``draft``, ``verify``, ``reading`` (0 where not named), or ``costs``: those by ``context``. Raises ArmError."""
    listed = rest.pop("costs", None)
    if listed is None:
        named = {name: rest.pop(name) for name in ("draft", "verify", "reading") if name in rest}
        listed = [{"context": 0} | named]
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(entry, Mapping) for entry in listed):
        raise ArmError("policy.costs must be a list of {context, draft, verify}, at least one")
    found = []
    for entry in map(dict, listed):
        verify = entry.pop("verify", None)
        good = isinstance(verify, list | tuple) and len(verify) == k + 1
        if not good or not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in verify or ()):
            raise ArmError(f"policy.verify must hold k + 1 = {k + 1} positive costs, of 0, 1, …, k proposals")
        context, draft = _take(entry, "context", int, 0, LONGEST), _take(entry, "draft", float, 0, 1e18)
        reading = _take(entry, "reading", float, 0, 1e18, 0.0)
        found.append(Costs(context, draft, tuple(float(v) for v in verify or ()), reading))
        if entry:
            raise ArmError(f"policy.costs knows no {sorted(entry)[0]!r}")
    if any(a.context >= b.context for a, b in itertools.pairwise(found)):
        raise ArmError("policy.costs must be in order of rising context")
    return found


def policy_of(spec: Mapping[str, Any], k: int) -> Policy:
    """The policy a plan's arm names: ``{"kind": "fixed" | "hf-heuristic" | "confidence" | "cost-model", …}``.

    Raises ArmError naming the field.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= LARGEST_K:
        raise ArmError(f"k must be a whole number in [0, {LARGEST_K}], not {k!r}")
    rest = dict(spec)
    kind = rest.pop("kind", None)
    policy: Policy
    if kind == "fixed":
        policy = Fixed(k)
    elif kind == "hf-heuristic":
        policy = HfHeuristic(k, _take(rest, "start", int, 1, LARGEST_K, min(5, k) or 1))
    elif kind == "confidence":
        policy = Confidence(k, _take(rest, "threshold", float, 0, 1, 0.4))
    elif kind == "cost-model":
        policy = CostModel(
            _costs(rest, k),
            _take(rest, "prior", float, 0, 1, 0.6),
            _take(rest, "weight", float, 1e-9, 1e9, 8.0),
            _take(rest, "explore", int, 0, 1 << 20, 16),
            _take(rest, "sharpness", float, 0, 4, 0.0),
        )
    else:
        raise ArmError(f"unknown policy {kind!r}; known: fixed, hf-heuristic, confidence, cost-model")
    if rest:
        raise ArmError(f"policy {kind} knows no {sorted(rest)[0]!r}")
    return policy
