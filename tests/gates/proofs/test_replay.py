"""Replay agrees with every honest run, and names the request, position and tokens of a record that was changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from draftgate.arms.request import Request, StopPolicy
from draftgate.gates.proofs.enumeration import arms_of, decoding_of
from draftgate.gates.proofs.families import Family, settings, shapes
from draftgate.gates.proofs.fresh_state import check_fresh_state
from draftgate.gates.proofs.replay import Auditor, ReplayResult
from draftgate.gates.proofs.toy_models import models_of, toy_arm
from draftgate.gates.proofs.trace import Trace, from_completion

FAMILIES = [replace(f, context_limit=48) for f in [*shapes(), *settings()]]


def run(
    family: Family, spec: dict[str, Any], temperature: float, count: int = 3
) -> tuple[Auditor, list[Trace], Any, list[Request]]:
    decoding = decoding_of(family)
    decoding["temperature"] = temperature * float(decoding["temperature"])
    champion, draft = models_of(family)
    arm = toy_arm(spec, champion, draft, decoding)
    strings = ("cab", "bb") if family.vocabulary > 2 else ()
    requests = [
        Request(f"r{i}", family.prompt + tuple(range(i % 2)), 24, i, StopPolicy(family.stop_ids, strings), f"s{i}")
        for i in range(count)
    ]
    traces = [from_completion(r, arm.name, arm.generate(r)) for r in requests]
    return Auditor(champion, draft, decoding, {arm.name: spec}), traces, arm, requests


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_an_honest_run_replays_and_its_state_is_fresh(family: Family, temperature: float) -> None:
    for spec in arms_of(family):
        if temperature == 0 and "draft_decoding" in spec:
            continue
        auditor, traces, arm, requests = run(family, spec, temperature)
        result = auditor.replay(traces)
        assert result.ok, result.mismatches[:2]
        assert result.requests == len(traces) and result.tokens == sum(len(t.output) for t in traces)
        assert check_fresh_state(arm, requests).ok


def test_champion_alone_replays() -> None:
    for temperature in (0.0, 1.0):
        auditor, traces, _, _ = run(FAMILIES[1], {"name": "champion_alone", "kind": "champion_alone"}, temperature)
        assert auditor.replay(traces).ok


def changed(trace: Trace, **row: Any) -> Trace:
    return replace(trace, rounds=[{**trace.rounds[0], **row}, *trace.rounds[1:]])


def one() -> tuple[Auditor, Trace]:
    family = next(f for f in FAMILIES if f.name == "generic-v3-k2")
    auditor, traces, _, _ = run(family, next(iter(arms_of(family))), 1.0)
    return auditor, max(traces, key=lambda t: len(t.rounds))


def verdict(auditor: Auditor, trace: Trace) -> ReplayResult:
    result = auditor.replay([trace])
    assert not result.ok
    return result


@pytest.mark.parametrize(
    "field", ["context_tokens", "requested", "proposed", "tested", "accepted", "emitted", "forced_tokens", "round"]
)
def test_a_changed_count_is_named(field: str) -> None:
    auditor, trace = one()
    found = verdict(auditor, changed(trace, **{field: trace.rounds[0][field] + 1})).mismatches[0]
    assert found.what == field and found.round == 0


def test_a_changed_outcome_seed_stream_end_or_length_is_noticed() -> None:
    auditor, trace = one()
    verdict(auditor, changed(trace, outcome="champion_step"))
    assert verdict(auditor, changed(trace, probe=True)).mismatches[0].what == "probe"
    verdict(auditor, replace(trace, seed=trace.seed + 1))
    verdict(auditor, replace(trace, stream="other"))
    verdict(auditor, replace(trace, finish_reason="context"))
    verdict(auditor, replace(trace, rounds=trace.rounds[:-1]))
    verdict(auditor, replace(trace, steps=trace.steps[:-1], rounds=trace.rounds[:-1]))
    verdict(auditor, replace(trace, output=[*trace.output, 0]))
    verdict(auditor, replace(trace, totals={**trace.totals, "accepted": trace.totals["accepted"] + 1}))


def test_a_changed_token_is_named_with_position_and_both_tokens() -> None:
    auditor, trace = one()
    steps = [dict(s) for s in trace.steps]
    steps[1]["tokens"] = [(steps[1]["tokens"][0] + 1) % 3, *steps[1]["tokens"][1:]]
    body = verdict(auditor, replace(trace, steps=steps)).mismatches[0].body()
    assert body["position"] == len(trace.steps[0]["tokens"])
    assert body["arm_token"] != body["champion_token"] == trace.steps[1]["tokens"][0]


def test_a_forced_decoding_is_skipped_and_nothing_replayed_is_not_ok() -> None:
    auditor, trace = one()
    result = auditor.replay([replace(trace, forced=True)])
    assert result.skipped == 1 and not result.ok and not result.finding().ok


def test_another_model_does_not_explain_the_record() -> None:
    auditor, trace = one()
    verdict(replace(auditor, champion=auditor.draft), trace)
    verdict(replace(auditor, draft=auditor.champion), trace)
