"""From a plan's entries to arms, with the bundled engine's real pieces; refusals by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from draftgate.arms import build, overhead
from draftgate.arms.build import build_arm, check_spec, output_ids_of
from draftgate.arms.champion_alone import ChampionAlone
from draftgate.arms.draws import PhiloxDraws
from draftgate.arms.errors import ArmError
from draftgate.arms.request import Request, StopPolicy
from draftgate.arms.round import Proposal
from draftgate.arms.speculative_arm import SpeculativeArm
from support.arms_kit import Kit

ENTRIES: list[dict[str, Any]] = [
    {"name": "champion_alone", "kind": "champion_alone"},
    {"name": "champion_again", "kind": "champion_alone"},
    {"name": "slowed_dummy", "kind": "champion_alone", "slowdown": 0.05},
    {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 5, "min_ngram": 2, "max_ngram": 4, "probe_rate": 0.1},
    {"name": "neural_draft", "kind": "neural_draft", "k": 4, "policy": {"kind": "fixed"}},
]


def models(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    kit = Kit()
    monkeypatch.setattr(build, "require_same_tokenizer", lambda a, b: None)
    monkeypatch.setattr(build, "_decoder_of", lambda model: kit.champion.decoder)
    champion = SimpleNamespace(engine=kit.engine, tokenizer=kit.letters, template=None)
    return champion, SimpleNamespace(engine=kit.draft_engine, tokenizer=kit.letters, template=None)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: str(e["name"]))
def test_every_entry_of_a_plan_becomes_an_arm(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    champion, draft = models(monkeypatch)
    arm = build_arm(entry, champion, draft, {"temperature": 1.0})
    assert arm.name == entry["name"] and arm.exactness == "exact"
    assert arm.residency == (("champion", "draft") if entry["kind"] == "neural_draft" else ("champion",))
    assert isinstance(arm, ChampionAlone if entry["kind"] == "champion_alone" else SpeculativeArm)
    completion = arm.generate(Request("r", (1, 2), 8, 3, StopPolicy((0,))))
    assert completion.tokens and completion.receipt is not None
    has_draft = completion.receipt["draft_artifact_hash"] != "none"
    assert has_draft == (entry["kind"] == "neural_draft")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"name": "x", "kind": "medusa"}, "unknown kind of arm 'medusa'"),
        ({"kind": "champion_alone"}, "no name"),
        ({"name": "x", "kind": "champion_alone", "k": 3}, "knows no field 'k'"),
        ({"name": "x", "kind": "prompt_lookup", "policy": {}}, "knows no field 'policy'"),
    ],
)
def test_bad_entries_are_refused_by_name(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ArmError, match=words):
        check_spec(spec)


def test_values_are_checked_when_the_arm_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    champion, draft = models(monkeypatch)
    base = {"name": "neural_draft", "kind": "neural_draft"}
    for spec, draft_model, decoding, words in (
        (base, None, {}, "needs a draft"),
        (base | {"probe_rate": 2}, draft, {}, "probe_rate"),
        (base | {"truncation": {"kind": "head"}}, draft, {}, "truncation"),
        (base | {"truncation": {"kind": "tail", "stride": 0}}, draft, {}, "stride"),
        (base | {"draft_decoding": {"temperature": 1.0}}, draft, {}, "greedy"),
        (base, draft, {"nucleus": 1}, "unknown processor 'nucleus'"),
        ({"name": "s", "kind": "champion_alone", "slowdown": -0.1}, None, {}, "slowdown"),
    ):
        with pytest.raises(ArmError, match=words):
            build_arm(spec, champion, draft_model, decoding)


def test_a_draft_that_speaks_fewer_tokens_must_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    _, draft = models(monkeypatch)
    draft.engine.vocabulary = 3
    with pytest.raises(ArmError, match="3 tokens, the champion 5"):
        output_ids_of(draft, 5)
    draft.engine.output_ids = [4, 1, 0]
    ids = output_ids_of(draft, 5)
    assert ids is not None and ids.tolist() == [4, 1, 0]
    for bad in ([1, 1, 0], [5, 1, 0], [-1, 1, 0]):
        draft.engine.output_ids = bad
        with pytest.raises(ArmError, match="output tokens"):
            output_ids_of(draft, 5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_reduced_output_vocabulary_leaves_the_rest_without_mass(temperature: float) -> None:
    kit = Kit({"temperature": temperature}, vocabulary=5, stop_ids=())
    ids = np.array([4, 1, 3], np.int64)
    whole = kit.draft_engine.logits
    kit.draft_engine.logits = lambda h: whole(h)[:3]
    request = kit.request(n=20)
    draft = kit.draft(request)
    draft.output_ids = ids
    draws = kit.alone().draws(0, "", 0) if temperature else None
    proposal = draft.propose([1, 2, 3], 3, draws)
    assert set(proposal.tokens) <= {4, 1, 3}
    for row in proposal.rows or []:
        assert not row[[0, 2]].any() and int(row.sum()) == 1 << 48
    arm = kit.neural()

    def opened(r: Request) -> Any:
        made = kit.draft(r)
        made.output_ids = ids
        return made

    arm.open_proposer = opened
    if not temperature:
        assert arm.generate(request).tokens == kit.alone().generate(request).tokens
    else:
        assert {0, 2} & set(arm.generate(kit.request(n=40)).tokens)  # the champion's mass there is kept


def test_overheads_are_measured_for_every_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    champion, draft = models(monkeypatch)
    champion.encode_raw = lambda text: [1, 2, 3, 1, 2, 3]
    monkeypatch.setattr(overhead, "PROMPT", "")
    figures = overhead.measure(champion, draft, new_tokens=20, k=3)
    assert figures["five_rows"]["stochastic_us"] > 0
    for name in (*overhead.DECODINGS, "greedy_lookup"):
        shares = figures[name]
        assert shares["rounds"] > 0 and 0 < shares["outside_share"] < 1
        assert shares["round_us"] >= shares["forward_us"] > 0


def test_another_tokenizer_is_refused_with_its_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from draftgate.arms.engine import tokenizer

    monkeypatch.setattr(tokenizer, "first_difference", lambda a, b: "token 7 is 'x' in one and 'y' in the other")
    kit = Kit()
    model: Any = SimpleNamespace(engine=kit.engine, tokenizer=kit.letters, template=None)
    with pytest.raises(ArmError, match="token 7 is 'x'"):
        build_arm(ENTRIES[4], model, model, {})


@pytest.mark.parametrize("cut", [{}, {"top_k": 2}, {"top_p": 0.7}, {"typical_p": 0.8, "min_p": 0.1}])
def test_a_reduced_row_has_the_law_and_the_draws_of_the_whole_row(
    cut: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = Kit({"temperature": 0.8, **cut}, vocabulary=9, stop_ids=())
    narrow, wide = kit.draft(kit.request()), kit.draft(kit.request())
    rng = np.random.default_rng(3)
    rows = rng.normal(0, 2, (40, 4)).astype(np.float32)
    for draft in (narrow, wide):
        draft.output_ids = np.array([1, 3, 4, 8], np.int64)
        draft.course.needs_peak = True
    wide.narrow = False
    assert narrow.narrow
    entropy: list[float] = []
    for number, logits in enumerate(rows):  # buffers serve row after row: nothing of an earlier one may stay
        seen = []
        for draft in (narrow, wide):
            proposal = Proposal(rows=[])
            monkeypatch.setattr(draft, "_forward", lambda feed, logits=logits: logits)
            drawn = draft._draw([], number % 2, PhiloxDraws(7, "s", number), proposal)
            assert proposal.rows is not None
            seen.append((drawn[:3], proposal.rows[0].tolist()))
            entropy.append(drawn[3])
        assert seen[0] == seen[1]
    assert entropy[::2] == pytest.approx(entropy[1::2], rel=1e-9)


def test_tokens_out_of_order_are_spread_so_that_ties_go_to_the_lowest_id() -> None:
    kit = Kit(vocabulary=9, stop_ids=())
    draft = kit.draft(kit.request())
    draft.output_ids = np.array([8, 3, 4, 1], np.int64)
    assert not draft.narrow
    assert draft._peak(np.array([2.0, 0.0, 2.0, 1.0], np.float32))[0] == 4
