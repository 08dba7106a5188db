"""Arms over the bundled engine: the fresh-state invariant on real caches, and greedy identity on the real model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draftgate.arms.build import build_arm
from draftgate.arms.engine.engine import NativeEngine
from draftgate.arms.errors import ArmError
from draftgate.arms.grammar import Grammar
from draftgate.arms.models import Model, load_model
from draftgate.arms.request import Completion, Request, StopPolicy
from support.arms_kit import Kit, checked_run

from .engine.reference import Shape, write_model

DECODINGS: list[dict[str, Any]] = [{}, {"temperature": 1.0, "top_p": 0.95, "repetition_penalty": 1.2}]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[NativeEngine, NativeEngine]:
    """Two random models over one vocabulary."""
    folder = tmp_path_factory.mktemp("pair")
    champion = write_model(folder / "champion.gguf", Shape(types=("Q4_1",), vocabulary=96, seed=11))
    draft = write_model(folder / "draft.gguf", Shape(types=("Q8_0",), vocabulary=96, seed=12, layers=1))
    return NativeEngine.load(champion, threads=1), NativeEngine.load(draft, threads=1)


@pytest.mark.parametrize("decoding", DECODINGS)
@pytest.mark.parametrize("self_draft", [True, False])
def test_native_caches_are_fresh_after_every_round(
    pair: tuple[NativeEngine, NativeEngine], decoding: dict[str, Any], self_draft: bool
) -> None:
    kit = Kit(decoding, vocabulary=96, stop_ids=(), k=4)
    champion: Any = pair[0]
    kit.champion = type(kit.champion)(champion, kit.champion.chain)
    kit.draft_engine = champion if self_draft else pair[1]  # type: ignore[assignment]
    kit.engine = champion
    request = kit.request([int(t) for t in np.random.default_rng(3).integers(0, 96, 40)], 24, 5)
    sessions = [checked_run(arm.open(request)) for arm in (kit.neural(), kit.lookup())]
    assert all(s.failure is None for s in sessions)
    if not decoding:
        alone = kit.alone().generate(request)
        assert [s.emitted for s in sessions] == [alone.tokens] * 2
        if self_draft:
            assert all(r.accepted == r.proposed for r in sessions[0].records)


def test_a_draft_whose_weights_are_not_numbers_never_costs_a_token(tmp_path: Path, pair: Any) -> None:
    path = write_model(
        tmp_path / "bad.gguf", Shape(types=("F32",), embedding_type="F32", vocabulary=96, seed=12, layers=1)
    )
    data = bytearray(path.read_bytes())
    at = len(data) - 4096
    at -= at % 4
    data[at : at + 64] = np.full(16, np.nan, np.float32).tobytes()
    path.write_bytes(bytes(data))
    kit = Kit(vocabulary=96, stop_ids=(), k=4)
    kit.engine = pair[0]
    kit.champion = type(kit.champion)(pair[0], kit.champion.chain)
    kit.draft_engine = NativeEngine.load(path, threads=1)  # type: ignore[assignment]
    request = kit.request(n=12)
    completion = kit.neural().generate(request)
    assert completion.tokens == kit.alone().generate(request).tokens
    assert completion.counters["draft_numeric"] == len(completion.rounds) and completion.failure is None


# -- the real model ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(smollm2: Path) -> Model:
    return load_model(smollm2, threads=2)


ARMS = {
    "champion_alone": {"name": "champion_alone", "kind": "champion_alone"},
    "prompt_lookup": {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 5, "min_ngram": 1, "max_ngram": 4},
    "neural_draft": {"name": "neural_draft", "kind": "neural_draft", "k": 3},
}


def answers(model: Model, decoding: dict[str, Any], text: str, n: int, **extra: Any) -> dict[str, Completion]:
    prompt = tuple(model.encode_chat([{"role": "user", "content": text}]))
    stop = StopPolicy(tuple(model.tokenizer.stop_ids), tuple(extra.pop("strings", ())))
    request = Request("real", prompt, n, 9, stop, "real", **extra)
    return {
        name: build_arm(spec, model, model if name == "neural_draft" else None, decoding).generate(request)
        for name, spec in ARMS.items()
    }


@pytest.mark.parametrize("decoding", [{}, {"repetition_penalty": 1.3, "min_new_tokens": 8}])
def test_greedy_text_is_the_champions_on_the_real_model(model: Model, decoding: dict[str, Any]) -> None:
    done = answers(model, decoding, "Count from one to ten in words, then do it again.", 32)
    assert len({(tuple(c.tokens), c.finish_reason, c.text) for c in done.values()}) == 1
    assert done["neural_draft"].champion_calls < done["champion_alone"].champion_calls
    assert all(c.receipt is not None and c.receipt["failure_code"] == "none" for c in done.values())


def test_a_grammar_holds_on_the_real_model_in_every_arm(model: Model) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "visits": {"type": "integer", "maximum": 99, "minimum": 0}},
        "required": ["city", "visits"],
        "additionalProperties": False,
    }
    decoding = {"temperature": 1.0, "grammar": {"kind": "json_schema", "text": json.dumps(schema)}}
    for completion in answers(model, decoding, "A city and a number of visits, as JSON.", 60).values():
        assert completion.failure is None
        if completion.finish_reason == "stop":
            value = json.loads(completion.text or "")
            assert value["city"] in ("Paris", "Rome") and 0 <= value["visits"] <= 99


def test_no_grammar_can_spell_a_special_token(model: Model) -> None:
    spec = {"kind": "regex", "text": "(.|\\n)*"}
    state = Grammar(spec, model.tokenizer, model.engine.vocabulary, model.tokenizer.stop_ids).open()
    allowed = state.allowed(limit=1 << 20)
    assert allowed is not None and len(allowed) > 40_000
    assert not (set(allowed) & model.tokenizer.special_ids) - set(model.tokenizer.stop_ids)


def test_stop_strings_on_the_real_model(model: Model) -> None:
    question = "Name three whales."
    whole = build_arm(ARMS["champion_alone"], model, None, {}).generate(
        Request("r", tuple(model.encode_chat([{"role": "user", "content": question}])), 24, 9)
    )
    assert whole.text is not None
    string = whole.text[30:37]  # wherever it falls among tokens
    done = answers(model, {}, question, 24, strings=(string,))
    assert {c.finish_reason for c in done.values()} == {"stop_string"}
    assert {c.text for c in done.values()} == {whole.text[: whole.text.index(string)]}


def test_a_draft_with_another_tokenizer_is_refused_with_the_first_difference(model: Model) -> None:
    vocabulary = model.tokenizer.vocabulary
    assert vocabulary.merges is not None
    *most, last, final = vocabulary.merges
    other = replace(vocabulary, merges=[*most, final, last])
    draft: Any = replace(model, tokenizer=type(model.tokenizer)(other))
    with pytest.raises(ArmError, match=r"tokenizer is not the champion's.*merges"):
        build_arm(ARMS["neural_draft"], model, draft, {})
