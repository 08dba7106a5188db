"""The shipped rounds, enumerated: exact for every pair and setting, and the comparison notices what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from draftgate.arms import speculation
from draftgate.arms.draws import PhiloxDraws
from draftgate.gates.proofs.enumeration import arms_of, check_enumeration, enumerate_family
from draftgate.gates.proofs.families import Family, settings, shapes
from draftgate.gates.proofs.sabotage.patch import patched, planted

FAMILIES = [*shapes(), *settings()]


@pytest.mark.parametrize(
    "family",
    [f for f in FAMILIES if f.name in ("generic-v3-k2", "stop-inside", "grammar", "forced")],
    ids=lambda f: f.name,
)
def test_every_fraction_is_the_champions_however_it_is_proposed(family: Family) -> None:
    """The other families are walked by `draftgate prove` (test_prove.py)."""
    for spec in arms_of(family):
        account, wrong = enumerate_family(family, spec)
        assert not wrong
        assert sum(account.answers.values()) == 1
        assert all(len(ends) == 1 for ends in account.ends.values()), "one text, two endings"


def small() -> Family:
    return next(f for f in FAMILIES if f.name == "generic-v3-k2")


@pytest.mark.parametrize(
    ("owner", "name", "change"),
    [
        (
            speculation,
            "correction",
            ("int(ids[draws.categorical(rest, 'correction_sample', i, mass)])", "bonus(q, draws)"),
        ),
        (speculation, "stochastic_round", ("champion.masses(count)", "champion.masses(count - 1)")),
        (PhiloxDraws, "accept", ("x <= q_y".replace("x", "self.uniform(p_y, 'accept_uniform', position)"), "True")),
    ],
)
def test_a_wrong_round_is_noticed(owner: Any, name: str, change: tuple[str, str]) -> None:
    with planted(owner, name, patched(getattr(owner, name), change)):
        assert not check_enumeration([small()]).ok


def test_no_family_is_no_proof() -> None:
    assert not check_enumeration([]).ok


def test_dropping_an_unsure_token_is_noticed_where_keeping_it_is_not() -> None:
    """Stopping after a kept token is exact; the same rule applied before keeping it is not."""
    from draftgate.arms.neural_draft import NeuralDraft

    original = NeuralDraft.propose

    def dropping(self: Any, *args: Any) -> Any:
        proposal = original(self, *args)
        if len(proposal.tokens) > 1 and proposal.tokens[-1] == 0:
            proposal.tokens.pop()
            if proposal.rows is not None:
                proposal.rows.pop()
        return proposal

    family = replace(small(), k=2)
    with planted(NeuralDraft, "propose", dropping):
        assert not check_enumeration([family], lambda f: [next(iter(arms_of(f)))]).ok
