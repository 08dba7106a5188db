"""Costs of a draft's rounds: split as the rounds record them, and fit for a plan as printed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from draftgate.arms import draft_costs
from draftgate.arms.errors import ArmError
from draftgate.arms.policies import policy_of


def test_a_round_is_its_drafting_and_its_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, drafting = [100.0, 125.0, 140.0], [0.0, 15.0, 20.0]
    monkeypatch.setattr(draft_costs, "_rounds", lambda *given: (rounds, drafting, 2.0))
    nothing: Any = None
    (entry,) = draft_costs.measure(nothing, nothing, [200], 2)
    assert entry["draft"] == 0.1 and entry["verify"] == [1.0, 1.15, 1.2] and entry["reading"] == 0.02
    printed = yaml.safe_load("\n".join(draft_costs.policy_lines([entry], 2)))
    assert policy_of(printed["policy"], printed["k"]).maximum == 2


def test_a_draft_that_cannot_fill_a_block_ends_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = 0

    def take_turns(sessions: Any, times: Any, wanting: Any) -> None:
        nonlocal passes
        passes += 1
        assert passes < 10_000, "it goes on for ever"
        for found in times[:-1]:  # blocks of two never come
            found.append((1, 1))

    arm = SimpleNamespace(open=lambda request: None)
    for name, stand_in in (("_arm", lambda *_: arm), ("build_arm", lambda *_: arm), ("_prefill", lambda session: 0)):
        monkeypatch.setattr(draft_costs, name, stand_in)
    monkeypatch.setattr(draft_costs, "_take_turns", take_turns)
    champion: Any = SimpleNamespace(encode_raw=lambda text: [1, 2, 3])
    draft: Any = None
    with pytest.raises(ArmError, match="does not propose 2 tokens after 200"):
        draft_costs.measure(champion, draft, [200], 2, seconds=0.001)
