"""The headline promises no more than the plan asked."""

from __future__ import annotations

from draftgate.gates.result import GateResult, Verdict
from draftgate.reports.explain import headline


def test_a_go_without_a_required_speed_up_says_that_speed_was_not_judged() -> None:
    exact = GateResult("exact-greedy", "pass", "no mismatch")
    asked = GateResult("speedup", "pass", "fast enough")
    aside = GateResult("speedup", "inconclusive", "one block", requirement="if-available")
    assert "may go in front" in headline(Verdict("GO", "p", (exact, asked)))
    for gates in ((exact,), (exact, aside)):
        said = headline(Verdict("GO", "p", gates))
        assert "Speed was not among them" in said and "may go in front" not in said
