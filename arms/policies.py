"""How many tokens to propose: frozen policies, every one a stopping time.

`requested` reads only earlier rounds of this request and frozen costs; `go_on` is asked after a token was drawn *and
kept*, and reads only what has been drawn and the rows it was drawn from. No state outlives a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .errors import ArmError


class PolicyState(Protocol):
    """One request's course."""

    needs_peak: bool
    """`go_on` reads the probability of the draft's top token; asked of greedy drafts only when needed."""

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

    def open(self) -> PolicyState: ...


class _Base:
    needs_peak = False

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

    def open(self) -> PolicyState:
        return _Base(self.maximum)


class HfHeuristic(_Base):
    """Two more after a fully accepted block, one fewer otherwise, from ``start``, within [1, k]."""

    def __init__(self, maximum: int, start: int) -> None:
        super().__init__(maximum)
        self.start = start

    def open(self) -> PolicyState:
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

    def open(self) -> PolicyState:
        return self

    def go_on(self, drawn: int, probability: float, top: float, entropy: float) -> bool:
        return top >= self.threshold


class CostModel(_Base):
    """k that maximises expected tokens per unit of time, from frozen costs and the acceptance seen in this request.

    ``draft``: cost of one draft step; ``verify``: cost of a verification of 0, 1, …, K proposals, all in one unit.
    Acceptance a is (accepted + prior weight * prior) / (tested + prior weight); a block of k emits
    1 + a + … + a^k tokens on average and costs verify[k] + k * draft. k = 0 wins where nothing else pays; every
    ``explore``-th round then still asks for one token, so that acceptance goes on being seen (0: never).
    """

    def __init__(self, draft: float, verify: Sequence[float], prior: float, weight: float, explore: int) -> None:
        super().__init__(len(verify) - 1)
        self.draft, self.verify = draft, tuple(verify)
        self.prior, self.weight, self.explore = prior, weight, explore

    def open(self) -> PolicyState:
        return _CostState(self)


class _CostState(_Base):
    def __init__(self, policy: CostModel) -> None:
        super().__init__(policy.maximum)
        self.policy = policy
        self.tested = self.accepted = self.idle = 0

    def requested(self) -> int:
        policy = self.policy
        a = (self.accepted + policy.weight * policy.prior) / (self.tested + policy.weight)
        best, best_rate, tokens, power = 0, 1.0 / policy.verify[0], 1.0, 1.0
        for k in range(1, self.maximum + 1):
            power *= a
            tokens += power
            rate = tokens / (policy.verify[k] + k * policy.draft)
            if rate > best_rate:
                best, best_rate = k, rate
        if best or not policy.explore:
            return best
        self.idle += 1
        return 1 if self.idle % policy.explore == 0 else 0

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
        verify = rest.pop("verify", None)
        good = isinstance(verify, list | tuple) and len(verify) == k + 1
        if not good or not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in verify or ()):
            raise ArmError(f"policy.verify must hold k + 1 = {k + 1} positive costs, of 0, 1, …, k proposals")
        assert verify is not None
        policy = CostModel(
            _take(rest, "draft", float, 0, 1e18),
            [float(v) for v in verify],
            _take(rest, "prior", float, 0, 1, 0.6),
            _take(rest, "weight", float, 1e-9, 1e9, 8.0),
            _take(rest, "explore", int, 0, 1 << 20, 16),
        )
    else:
        raise ArmError(f"unknown policy {kind!r}; known: fixed, hf-heuristic, confidence, cost-model")
    if rest:
        raise ArmError(f"policy {kind} knows no {sorted(rest)[0]!r}")
    return policy
