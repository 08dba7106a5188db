"""The real model on a slice of every stratum: the checks give each stratum a quality, neither all zero nor all one."""

from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.strata.checks import run_check
from draftgate.strata.load import load_stratum, names


@pytest.mark.long
def test_a_slice_of_every_stratum_gets_a_quality(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from draftgate.arms.build import build_arm
    from draftgate.arms.models import load_model
    from draftgate.arms.request import Request, StopPolicy

    model = load_model(smollm2)
    arm = build_arm({"name": "champion_alone", "kind": "champion_alone"}, model)
    stop = StopPolicy(tuple(model.tokenizer.stop_ids))
    quality = {}
    for name in names():
        scores = []
        for prompt in [p for p in load_stratum(name) if p.check and len(p.turns) == 1][:6]:
            ids = tuple(model.encode_chat(prompt.turns[0]))
            budget = min(prompt.max_new_tokens or 96, 96)
            answer = arm.generate(Request(prompt.id, ids, budget, 0, stop))
            tokens = [t for t in answer.tokens if t not in stop.token_ids]
            scores.append(run_check(prompt.check or {}, model.tokenizer.decode(tokens)))
        if scores:
            quality[name] = sum(scores) / len(scores)
    with capsys.disabled():
        print("\n" + "\n".join(f"{name:20} {value:.2f}" for name, value in quality.items()))
    assert len(quality) >= 13  # casual chat has no right answers
    assert 0.05 < sum(quality.values()) / len(quality) < 0.95
    assert len({round(value, 3) for value in quality.values()}) > 5
