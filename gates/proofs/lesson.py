"""The lesson's exercise: a two-token example by hand, by the shipped round with fixed seeds, and one counterexample.

Symbols as everywhere here: q is the champion's distribution, p the draft's (the lesson swaps the letters).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...arms.draws import PhiloxDraws
from ...arms.masses import TOTAL, Masses
from ...arms.round import Proposal
from ...arms.speculation import accepts, stochastic_round
from .family import g_test, wilson

SEED = 20231130
NAMES = "AB"


@dataclass(frozen=True)
class Case:
    name: str
    q: tuple[Fraction, ...]
    p: tuple[Fraction, ...]
    predict: str
    """The boundary case to predict before running."""


def _case(name: str, q: Sequence[str], p: Sequence[str], predict: str) -> Case:
    return Case(name, tuple(map(Fraction, q)), tuple(map(Fraction, p)), predict)


CASES = (
    _case("worked example", ("0.7", "0.3"), ("0.4", "0.6"), "A always accepted, B with probability 1/2"),
    _case("second example", ("0.6", "0.4"), ("0.3", "0.7"), "accepted mass .7, rejected mass .3, all of it to A"),
    _case("equal", ("0.6", "0.4"), ("0.6", "0.4"), "nothing is ever rejected; the residual is never drawn"),
    _case("sharply mismatched", ("0.98", "0.02"), ("0.02", "0.98"), "accepted mass .04: slow, and exact all the same"),
)


@dataclass(frozen=True)
class Identity:
    """min(p, q) + (1 − A)·r = q, by hand."""

    accepted: tuple[Fraction, ...]
    rejected_mass: Fraction
    residual: tuple[Fraction, ...] | None
    """None where nothing is rejected: the branch with the zero denominator is never taken."""
    output: tuple[Fraction, ...]
    without_correction: tuple[Fraction, ...]
    """min(p, q)/A: what comes out when a rejected proposal is just tried again."""


def identity(case: Case) -> Identity:
    kept = tuple(min(a, b) for a, b in zip(case.q, case.p, strict=True))
    rest = tuple(max(a - b, Fraction(0)) for a, b in zip(case.q, case.p, strict=True))
    rejected, total = 1 - sum(kept), sum(rest)
    residual = None if total == 0 else tuple(x / total for x in rest)
    extra = residual or (Fraction(0),) * len(kept)
    output = tuple(k + rejected * r for k, r in zip(kept, extra, strict=True))
    return Identity(kept, Fraction(rejected), residual, output, tuple(k / sum(kept) for k in kept))


def masses(probabilities: Sequence[Fraction]) -> Masses:
    """To integers that sum to 2**48, the remainder to the largest."""
    row = [int(x * TOTAL) for x in probabilities]
    row[row.index(max(row))] += TOTAL - sum(row)
    return np.array(row, np.uint64)


class _Fixed:
    """A champion whose every row is q."""

    def __init__(self, q: Masses) -> None:
        self.q = q

    def verify(self, proposals: Sequence[int]) -> None:
        return None

    def masses(self, i: int) -> Masses:
        return self.q

    def argmax(self, i: int) -> int:
        return int(np.argmax(self.q))

    def ends(self, token: int) -> bool:
        return False


def first_tokens(case: Case, n: int, seed: int = SEED) -> list[tuple[int, bool, int]]:
    """``n`` shipped rounds of one proposal: (proposal, accepted, first emitted token)."""
    q, p = masses(case.q), masses(case.p)
    champion, out = _Fixed(q), []
    for round in range(n):
        draws = PhiloxDraws(seed, f"lesson/{case.name}", round)
        proposal = Proposal([draws.categorical(p, "draft_sample", 0)], [p])
        decision = stochastic_round(proposal, champion, draws, champion, 1)
        out.append((proposal.tokens[0], bool(decision.accepted), decision.emitted[0]))
    return out


def uncorrected_tokens(case: Case, n: int, seed: int = SEED) -> list[int]:
    """The counterexample: the shipped acceptance, and on a rejection another proposal instead of a correction."""
    q, p = masses(case.q), masses(case.p)
    out: list[int] = []
    round = 0
    while len(out) < n:
        draws = PhiloxDraws(seed, f"counterexample/{case.name}", round)
        proposal = Proposal([draws.categorical(p, "draft_sample", 0)], [p])
        if accepts(q, proposal, 0, draws):
            out.append(proposal.tokens[0])
        round += 1
    return out


def exercise(n: int = 20_000) -> dict[str, Any]:
    """Everything the lesson asks to deliver, as JSON values; raw results under ``raw``."""
    cases, raw = [], {}
    for case in CASES:
        by_hand = identity(case)
        began = time.perf_counter_ns()
        seen = first_tokens(case, n)
        spent = time.perf_counter_ns() - began
        counts = [sum(token == x for _, _, token in seen) for x in range(2)]
        cases.append(
            {
                "case": case.name,
                "predict": case.predict,
                "q": [float(x) for x in case.q],
                "p": [float(x) for x in case.p],
                "accepted": [float(x) for x in by_hand.accepted],
                "rejected_mass": float(by_hand.rejected_mass),
                "residual": None if by_hand.residual is None else [float(x) for x in by_hand.residual],
                "output": [float(x) for x in by_hand.output],
                "frequencies": [c / n for c in counts],
                "intervals": [list(wilson(c, n)) for c in counts],
                "acceptance": sum(ok for _, ok, _ in seen) / n,
                "p_value": g_test(counts, [float(x) for x in case.q]).p_value,
                "ns_per_round": spent / n,
            }
        )
        raw[case.name] = [[proposal, int(ok), token] for proposal, ok, token in seen]
    case = CASES[0]
    tokens = uncorrected_tokens(case, n)
    counts = [tokens.count(x) for x in range(2)]
    raw["counterexample"] = [[token] for token in tokens]
    counterexample = {
        "case": case.name,
        "changed": "no correction: a rejected proposal is replaced by another proposal",
        "predicted": [float(x) for x in identity(case).without_correction],
        "frequencies": [c / n for c in counts],
        "intervals": [list(wilson(c, n)) for c in counts],
        "champion": [float(x) for x in case.q],
        "p_value_against_q": g_test(counts, [float(x) for x in case.q]).p_value,
        "why": "the accepted mass min(p, q) is kept in proportion, and the rejected mass goes to both tokens instead "
        "of to where q exceeds p; the identity min(p, q) + (1 - A) r = q needs the residual r, so the output is "
        "min(p, q)/A, which is q only where p = q",
    }
    return {"n": n, "seed": SEED, "cases": cases, "counterexample": counterexample, "raw": raw}
