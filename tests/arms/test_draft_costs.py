"""Costs of a draft's rounds: split as the rounds record them, and fit for a plan as printed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from draftgate.arms import draft_costs
from draftgate.arms.policies import policy_of


def test_a_round_is_its_drafting_and_its_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, drafting = [100.0, 125.0, 140.0], [0.0, 15.0, 20.0]
    monkeypatch.setattr(draft_costs, "_rounds", lambda *given: (rounds, drafting, 2.0))
    nothing: Any = None
    (entry,) = draft_costs.measure(nothing, nothing, [200], 2)
    assert entry["draft"] == 0.1 and entry["verify"] == [1.0, 1.15, 1.2] and entry["reading"] == 0.02
    printed = yaml.safe_load("\n".join(draft_costs.policy_lines([entry], 2)))
    assert policy_of(printed["policy"], printed["k"]).maximum == 2
