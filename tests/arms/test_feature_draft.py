"""The feature draft: its arithmetic against float64, exactness before the champion, and what it refuses."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from draftgate.arms.engine.engine import NativeEngine
from draftgate.arms.engine.feature import FeatureEngine
from draftgate.arms.engine.gguf import read_gguf
from draftgate.arms.engine.hyperparameters import UnsupportedModel
from draftgate.arms.feature_draft import FeatureDraft
from draftgate.arms.policies import policy_of
from draftgate.arms.processors import ProcessorChain
from draftgate.arms.request import Request
from draftgate.arms.session import Champion
from draftgate.arms.speculative_arm import SpeculativeArm
from draftgate.harness.offclock import memory_formula
from draftgate.harness.shadow import replay_request
from support.arms_kit import Kit, checked_run
from support.feature_files import reference_states, write_feature_draft

from .engine.reference import Reference, Shape, write_model

VOCABULARY, WIDTH = 96, 64
ROWS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
Pair = tuple[NativeEngine, FeatureEngine, Path, Path]


@pytest.fixture(scope="module", params=[[], [0, 1]], ids=["last state", "inner states too"])
def pair(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Pair:
    folder = tmp_path_factory.mktemp("feature")
    champion_path = write_model(folder / "champion.gguf", Shape(vocabulary=VOCABULARY, width=WIDTH, seed=3))
    champion = NativeEngine.load(champion_path, threads=1)
    draft_path = write_feature_draft(folder / "draft.gguf", champion.file.sha256, WIDTH, ROWS, inner=request.param)
    return champion, FeatureEngine.over(read_gguf(draft_path), champion), champion_path, draft_path


def tokens_of(n: int, seed: int = 0) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, n)]


def states_of(champion: NativeEngine, draft: FeatureEngine, tokens: list[int]) -> Any:
    tx = champion.new_cache(len(tokens)).begin()
    return champion.verify_with_hidden(tx, tokens, "none", draft.inner_layers)[1]


def test_a_step_is_the_float64_reference_s(pair: Pair) -> None:
    champion, draft, champion_path, draft_path = pair
    tokens = tokens_of(20)
    states = states_of(champion, draft, tokens)
    logits, own = draft.draft(draft.new_cache(32).begin(), states[:-1], tokens[1:], "all")
    weights = Reference(champion_path).weights["token_embd.weight"]
    expected = reference_states(draft_path, states[:-1].astype(np.float64), weights[tokens[1:]])
    assert np.abs(own - expected).max() < 0.02 * np.abs(expected).max()
    alone = draft.draft(draft.new_cache(32).begin(), states[:-1, :WIDTH], tokens[1:], "none")[1]  # as if its own
    guessed = reference_states(draft_path, states[:-1, :WIDTH].astype(np.float64), weights[tokens[1:]])
    assert np.abs(alone - guessed).max() < 0.02 * np.abs(guessed).max()
    assert bool(np.abs(alone - own).max() > 0.1) == bool(draft.inner_layers)
    rows = expected @ weights[ROWS].T
    assert logits.shape == (19, len(ROWS)) and np.abs(logits - rows).max() < 0.03 * np.abs(rows).max()


def test_bits_do_not_depend_on_how_the_pairs_are_split(pair: Pair) -> None:
    champion, draft, _, _ = pair
    tokens = tokens_of(40, 1)
    states = states_of(champion, draft, tokens)
    whole = draft.draft(draft.new_cache(64).begin(), states[:-1], tokens[1:], "all")[0]
    tx = draft.new_cache(64).begin()
    cuts = [0, 1, 3, 20, 39]
    pieces = [draft.draft(tx, states[a:b], tokens[a + 1 : b + 1], "all")[0] for a, b in itertools.pairwise(cuts)]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()


def arm_of(pair: Pair, decoding: dict[str, Any], k: int = 4) -> tuple[SpeculativeArm, Kit]:
    champion, draft, _, _ = pair
    kit = Kit(decoding, vocabulary=VOCABULARY, stop_ids=(0,), k=k)
    chain = ProcessorChain(decoding, VOCABULARY, (0,), None)
    kit.champion = Champion(champion, chain, kit.champion.decoder)
    policy = policy_of({"kind": "fixed"}, k)

    def opened(request: Request) -> FeatureDraft:
        longest = min(champion.context_limit, len(request.prompt) + request.max_new_tokens)
        return FeatureDraft(draft, chain, policy, request.prompt, frozenset(request.stop.token_ids), longest)

    return SpeculativeArm("neural_draft", kit.champion, opened, ("champion", "draft")), kit


@pytest.mark.parametrize("prompt", [tokens_of(30, 2), [7]], ids=["thirty tokens", "one token"])
def test_greedy_text_is_the_champion_s_and_every_round_leaves_fresh_state(pair: Pair, prompt: list[int]) -> None:
    arm, kit = arm_of(pair, {})
    request = kit.request(prompt, 40)
    session = checked_run(arm.open(request))
    assert session.failure is None and session.emitted == kit.alone().generate(request).tokens
    assert sum(r.proposed for r in session.records) > 40, "it kept proposing"


@pytest.mark.parametrize("tokens", [240, 300], ids=["grows past the draft's context", "begins past it"])
def test_past_its_context_the_draft_proposes_nothing_and_nothing_fails(pair: Pair, tokens: int) -> None:
    arm, kit = arm_of(pair, {})
    request = kit.request(tokens_of(tokens, 2), 40)
    session = checked_run(arm.open(request))
    assert session.failure is None and session.emitted == kit.alone().generate(request).tokens
    assert any(r.proposed for r in session.records) == (tokens < 256) and session.records[-1].proposed == 0


def test_a_stochastic_run_proposes_only_its_rows_and_leaves_fresh_state(pair: Pair) -> None:
    arm, kit = arm_of(pair, {"temperature": 60.0, "top_p": 0.95})
    session = checked_run(arm.open(kit.request(tokens_of(30, 2), 40, 5)))
    proposed = {token for step in session.trace for token in step["proposals"]}
    assert session.failure is None and proposed and proposed <= set(ROWS)
    assert any(r.accepted for r in session.records) and any(r.accepted < r.proposed for r in session.records)


def test_shadow_replay_shows_the_draft_the_states_its_rounds_had(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    arm, kit = arm_of(pair, {})
    request = kit.request(tokens_of(30, 2), 40)
    completion = arm.generate(request)
    starts = [0, *itertools.accumulate(r.emitted for r in completion.rounds)][:-1]
    replayed: list[list[int]] = []
    propose = FeatureDraft.propose

    def noted(*args: Any) -> Any:
        proposal = propose(*args)
        replayed.append(list(proposal.tokens))
        return proposal

    monkeypatch.setattr(FeatureDraft, "propose", noted)
    replay_request(arm, request, completion.tokens, starts, 4, greedy=True)
    proposed = [step["proposals"] for step in completion.trace]
    assert len({tuple(tokens) for tokens in proposed}) > 1
    assert [r[: len(p)] for r, p in zip(replayed, proposed, strict=True)] == proposed


def test_a_draft_of_another_champion_is_refused_by_name(pair: Pair, tmp_path: Path) -> None:
    path = write_feature_draft(tmp_path / "other.gguf", "0" * 64, WIDTH, ROWS)
    with pytest.raises(UnsupportedModel, match="made for the champion with sha256 000000000000"):
        FeatureEngine.over(read_gguf(path), pair[0])


@pytest.mark.parametrize(
    ("width", "rows", "problem"),
    [
        (WIDTH, [1, 1, 2], "repeats a token"),
        (WIDTH, [1, VOCABULARY], "leaves the vocabulary"),
        (96, ROWS, "champion's 64"),
    ],
)
def test_a_malformed_draft_is_refused_by_name(
    pair: Pair, tmp_path: Path, width: int, rows: list[int], problem: str
) -> None:
    path = write_feature_draft(tmp_path / "bad.gguf", pair[0].file.sha256, width, rows)
    with pytest.raises(UnsupportedModel, match=problem):
        FeatureEngine.over(read_gguf(path), pair[0])


@pytest.mark.parametrize("inner", [[1, 0], [0, 0], [2], list(range(40))])
def test_inner_layers_that_the_champion_does_not_have_are_refused(pair: Pair, tmp_path: Path, inner: list[int]) -> None:
    path = write_feature_draft(tmp_path / "bad.gguf", pair[0].file.sha256, WIDTH, ROWS, inner=inner)
    with pytest.raises(UnsupportedModel, match="not ascending layers of a champion with 2"):
        FeatureEngine.over(read_gguf(path), pair[0])


def test_a_head_in_four_bits_gives_nearly_the_same_logits_and_other_types_are_refused(
    pair: Pair, tmp_path: Path
) -> None:
    champion = NativeEngine.load(
        write_model(tmp_path / "eight.gguf", Shape(vocabulary=VOCABULARY, width=WIDTH, embedding_type="Q8_0", seed=3))
    )

    def draft_of(kind: str | None) -> FeatureEngine:
        path = tmp_path / f"{kind}.gguf"
        write_feature_draft(path, champion.file.sha256, WIDTH, ROWS, head_type=kind)
        return FeatureEngine.over(read_gguf(path), champion)

    whole, four = draft_of(None), draft_of("Q4_1")
    tokens = tokens_of(20)
    states = states_of(champion, whole, tokens)
    found = [d.draft(d.new_cache(32).begin(), states[:-1], tokens[1:], "all") for d in (whole, four)]
    assert found[0][1].tobytes() == found[1][1].tobytes(), "the head alone differs"
    assert 0 < np.abs(found[0][0] - found[1][0]).max() / np.abs(found[0][0]).max() < 0.1
    with pytest.raises(UnsupportedModel, match="head_type is 'Q2_K'"):
        draft_of("Q2_K")


def test_a_head_that_is_not_whole_blocks_cannot_be_in_four_bits(tmp_path: Path) -> None:
    shape = Shape(
        types=("F32",), embedding_type="F32", vocabulary=VOCABULARY, width=48, heads=4, kv_heads=2, head_dims=12
    )
    champion = NativeEngine.load(write_model(tmp_path / "odd.gguf", shape))
    path = write_feature_draft(tmp_path / "d.gguf", champion.file.sha256, 48, ROWS, head_type="Q4_1")
    with pytest.raises(UnsupportedModel, match="a width of 48 is not whole blocks"):
        FeatureEngine.over(read_gguf(path), champion)


def test_a_declined_request_wants_no_states_and_runs_no_draft(pair: Pair) -> None:
    _, draft, _, _ = pair
    costs = {"draft": 0.1, "verify": [1.0, 1.1, 1.2], "reading": 9.0}
    policy = policy_of({"kind": "cost-model", "costs": [costs | {"context": 0}]}, 2)
    chain = ProcessorChain({}, VOCABULARY, (0,), None)
    proposer = FeatureDraft(draft, chain, policy, tokens_of(30, 2), frozenset({0}), 70)
    proposer.prefill(tokens_of(30, 2))
    assert proposer.state_layers is None and proposer.cache.length == proposer.requested() == 0
    assert proposer.propose(tokens_of(30, 2), 2, None).tokens == []


def test_the_memory_formula_is_measured_for_a_draft_on_hidden_states(pair: Pair) -> None:
    models = [SimpleNamespace(engine=engine, file=engine.file) for engine in pair[:2]]
    session: Any = SimpleNamespace(champion=models[0], draft=models[1], kv_per_token=lambda model: 64)
    found = memory_formula(session, {"tokens": 200})
    assert found["draft"]["kv_measured_bytes"] >= 0 and found["draft"]["weight_bytes"] > 0
    assert 0 < found["incremental_bytes"] == found["physical_bytes"] - found["champion"]["tensor_bytes"]
