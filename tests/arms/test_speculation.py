"""The two rounds: exact along every branch, free of I/O, and small enough to read."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import draftgate.arms.champion_alone as champion_alone
import draftgate.arms.speculation as speculation
import numpy as np
import pytest
from draftgate.arms.masses import TOTAL
from draftgate.arms.round import Proposal, RoundAborted
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arms_kit import every_outcome

Masses = Any


class Rows:
    """A verification whose rows depend on the proposals before them."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.asked = rows, list[int]()

    def verify(self, proposals: Any) -> None:
        self.proposals = list(proposals)

    def masses(self, i: int) -> Masses:
        self.asked.append(i)
        return self.rows(tuple(self.proposals[:i]))

    def argmax(self, i: int) -> int:
        self.asked.append(i)
        return int(np.argmax(self.rows(tuple(self.proposals[:i]))))


class Never:
    def __init__(self, *ids: int) -> None:
        self.ids = ids

    def ends(self, token: int) -> bool:
        return token in self.ids


def split(*shares: int) -> Masses:
    """Masses in proportion to small whole numbers."""
    whole = sum(shares)
    out = [TOTAL * s // whole for s in shares]
    out[int(np.argmax(shares))] += TOTAL - sum(out)
    return np.array(out, np.uint64)


def law_of_round(q: Any, p: Any, k: int, vocabulary: int, remaining: int = 99) -> dict[tuple[int, ...], Fraction]:
    """Distribution of what one stochastic round emits, proposals drawn from p through the same draws."""
    out: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)

    def run(draws: Any) -> tuple[int, ...]:
        proposal = Proposal(rows=[])
        for i in range(k):
            row = p(tuple(proposal.tokens))
            proposal.rows.append(row)  # type: ignore[union-attr]
            proposal.tokens.append(draws.categorical(row, "draft_sample", i))
        return tuple(speculation.stochastic_round(proposal, Rows(q), draws, Never(), remaining).emitted)

    for emitted, probability in every_outcome(run):
        out[emitted] += probability
    return out


def champion_prefix(q: Any, tokens: tuple[int, ...]) -> Fraction:
    product = Fraction(1)
    for i, token in enumerate(tokens):
        product *= Fraction(int(q(tokens[:i])[token]), TOTAL)
    return product


def assert_exact(law: dict[tuple[int, ...], Fraction], q: Any, vocabulary: int, length: int) -> None:
    """Completed by the champion to equal length, the emitted prefixes have the champion's own law, to the last unit."""
    completed: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)

    def extend(tokens: tuple[int, ...], probability: Fraction) -> None:
        if not probability:
            return
        if len(tokens) >= length:
            completed[tokens[:length]] += probability
            return
        row = q(tokens)
        for token in np.flatnonzero(row):
            extend((*tokens, int(token)), probability * Fraction(int(row[token]), TOTAL))

    for tokens, probability in law.items():
        extend(tokens, probability)
    assert sum(completed.values()) == 1
    for tokens, probability in completed.items():
        assert probability == champion_prefix(q, tokens)


def test_the_two_token_example_by_hand() -> None:
    q, p = split(7, 3), split(4, 6)
    law = law_of_round(lambda h: q, lambda h: p, 1, 2)
    first = {t: sum(pr for e, pr in law.items() if e[0] == t) for t in (0, 1)}
    assert first[0] == Fraction(int(q[0]), TOTAL) and first[1] == Fraction(int(q[1]), TOTAL)
    assert law[(0,)] == Fraction(int(q[0]) - int(p[0]), TOTAL)  # the rejected mass goes to the first token


def test_equal_distributions_are_never_rejected() -> None:
    q = split(1, 2, 3)
    law = law_of_round(lambda h: q, lambda h: q, 2, 3)
    assert all(len(emitted) == 3 for emitted in law)


@given(st.integers(2, 4), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_one_round_continued_by_the_champion_has_the_champions_law(vocabulary: int, k: int, seed: int) -> None:
    if vocabulary**k > 30:
        k = 2
    cache: dict[Any, Masses] = {}

    def rows(salt: int) -> Any:
        def row(history: tuple[int, ...]) -> Masses:
            key = (salt, history)
            if key not in cache:
                rng = np.random.default_rng([seed, salt, *history])
                shares = rng.integers(0, 4, vocabulary)
                shares[rng.integers(vocabulary)] += 1
                cache[key] = split(*shares.tolist())
            return cache[key]

        return row

    q, p = rows(0), rows(1)
    assert_exact(law_of_round(q, p, k, vocabulary), q, vocabulary, k + 1)


def test_a_deterministic_proposer_is_one_hot() -> None:
    q = split(5, 3, 2)
    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)

    def run(draws: Any) -> tuple[int, ...]:
        return tuple(speculation.stochastic_round(Proposal([1, 1]), Rows(lambda h: q), draws, Never(), 9).emitted)

    for emitted, probability in every_outcome(run):
        law[emitted] += probability
    assert_exact(law, lambda h: q, 3, 3)
    assert law[(0,)] == Fraction(int(q[0]), TOTAL)


def test_zero_target_mass_is_always_rejected_and_missing_proposal_mass_is_kept() -> None:
    q, p = split(0, 1, 1), split(1, 1, 0)  # p omits token 2, q forbids token 0
    law = law_of_round(lambda h: q, lambda h: p, 1, 3)
    assert_exact(law, lambda h: q, 3, 1)
    assert all(0 not in emitted for emitted in law)


def test_a_drawn_token_without_mass_is_a_named_failure() -> None:
    proposal = Proposal([0], [split(0, 1)])
    with pytest.raises(RoundAborted) as caught:
        for _ in every_outcome(
            lambda d: speculation.stochastic_round(proposal, Rows(lambda h: split(1, 1)), d, Never(), 9)
        ):
            pass
    assert caught.value.name == "proposal_invariant"


def test_a_rejection_without_residual_is_a_named_failure_never_a_draw_from_q() -> None:
    class Lying:
        def accept(self, q_y: int, p_y: int, position: int) -> bool:
            return False

        def categorical(self, *args: Any) -> int:
            raise AssertionError("drew from nothing")

    row = split(1, 1)
    with pytest.raises(RoundAborted) as caught:
        speculation.stochastic_round(Proposal([0], [row]), Rows(lambda h: row), Lying(), Never(), 9)
    assert caught.value.name == "residual_invariant"


@pytest.mark.parametrize("greedy", [True, False])
def test_rows_after_the_first_rejection_are_never_processed(greedy: bool) -> None:
    rows = Rows(lambda h: split(0, 1, 0))
    if greedy:
        speculation.greedy_round(Proposal([1, 0, 1]), rows, Never(), 9)
    else:
        draws: Any = type("D", (), {"accept": lambda s, q, p, i: q >= p, "categorical": lambda s, m, d, i, t=0: 0})()
        speculation.stochastic_round(Proposal([1, 0, 1]), rows, draws, Never(), 9)
    assert rows.asked == [0, 1]


@pytest.mark.parametrize("remaining", [1, 2, 3, 4])
def test_a_block_that_fills_the_budget_draws_no_bonus(remaining: int) -> None:
    tokens = [1] * min(3, remaining)
    decision = speculation.greedy_round(Proposal(tokens), Rows(lambda h: split(0, 1)), Never(), remaining)
    assert decision.emitted == [1] * min(4, remaining)
    assert decision.outcome == ("length" if remaining <= 3 else "accepted_all")


def test_emission_ends_at_a_stop_token_inside_the_block() -> None:
    decision = speculation.greedy_round(
        Proposal([1, 2, 1]), Rows(lambda h: split(0, 1, 0) if len(h) != 1 else split(0, 0, 1)), Never(2), 9
    )
    assert (decision.emitted, decision.accepted, decision.outcome, decision.terminal) == ([1, 2], 2, "stop", True)


def test_a_stop_as_correction_or_bonus_is_emitted_and_terminal() -> None:
    corrected = speculation.greedy_round(Proposal([1]), Rows(lambda h: split(1, 0)), Never(0), 9)
    assert (corrected.emitted, corrected.outcome, corrected.terminal) == ([0], "rejected", True)
    extra = speculation.greedy_round(Proposal([1]), Rows(lambda h: split(0, 1) if not h else split(1, 0)), Never(0), 9)
    assert (extra.emitted, extra.outcome, extra.terminal) == ([1, 0], "accepted_all", True)


# -- what the module may import -------------------------------------------------------------------------------------


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {"." * node.level + (node.module or alias.name) for alias in node.names}
    return found


FOLDER = Path(speculation.__file__).parent
OURS = {".masses", ".draws", ".round"}


@pytest.mark.parametrize("name", ["speculation.py", "round.py"])
def test_the_rounds_import_only_the_standard_library_numpy_masses_and_draws(name: str) -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy"} | OURS
    assert {i if i.startswith(".") else i.split(".")[0] for i in imports_of(FOLDER / name)} <= allowed
    assert not {"os", "io", "pathlib", "subprocess", "socket", "random", "time"} & imports_of(FOLDER / name)


def test_champion_alone_imports_no_speculation_however_indirectly() -> None:
    reached, waiting = set(), [Path(champion_alone.__file__)]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for name in imports_of(path):
            inner = FOLDER / (name.lstrip(".").replace(".", "/") + ".py")
            if name.startswith(".") and inner.exists():
                waiting.append(inner)
    names = {path.stem for path in reached}
    assert "session" in names and not names & {"speculation", "speculative_arm", "prompt_lookup", "neural_draft"}


@pytest.mark.parametrize("name", ["greedy_round", "stochastic_round"])
def test_each_round_fits_on_a_screen(name: str) -> None:
    tree = ast.parse((FOLDER / "speculation.py").read_text())
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    assert function.end_lineno is not None and function.end_lineno - function.lineno < 40
