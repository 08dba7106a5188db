"""The prefix cache: what it may use, and that a request which takes over from another is the one that reads it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draftgate.arms.build import build_arm
from draftgate.arms.engine.contract import CacheMisuse
from draftgate.arms.engine.engine import NativeEngine
from draftgate.arms.prefix_cache import Kept, PrefixCache
from draftgate.arms.request import Completion, Request, StopPolicy
from draftgate.gates.proofs.toy import tables
from draftgate.gates.proofs.toy_models import toy_arm, toy_model
from hypothesis import given
from hypothesis import strategies as st
from support.arms_kit import checked_run

from .engine.reference import Shape, write_model

TOKENS = st.lists(st.integers(0, 2), max_size=12)


class Closing:
    """Stands for a cache; says whether it has been closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def kept(tokens: Sequence[int]) -> Kept:
    return Kept(tokens, Closing(), None)  # type: ignore[arg-type]


@given(TOKENS, TOKENS.filter(len), st.integers(0, 12), st.booleans())
def test_usable_is_the_common_beginning_within_what_is_allowed(
    before: list[int], prompt: list[int], preamble: int, continues: bool
) -> None:
    n = PrefixCache(preamble).usable(kept(before), prompt, continues)
    limit = min(len(before), len(prompt) - 1)
    limit = limit if continues else min(limit, preamble)
    assert 0 <= n <= limit and before[:n] == prompt[:n]
    assert n == limit or before[n] != prompt[n]


def test_one_request_is_kept_and_the_one_before_it_is_closed() -> None:
    store, first, second = PrefixCache(3), kept([1]), kept([2])
    assert store.take() is None
    store.give(first)
    store.give(second)
    assert first.cache.closed and not second.cache.closed  # type: ignore[attr-defined]
    assert store.take() is second and store.take() is None


# -- the engine's caches ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> NativeEngine:
    shape = Shape(types=("Q4_1",), vocabulary=96, seed=11)
    return NativeEngine.load(write_model(tmp_path_factory.mktemp("one") / "m.gguf", shape), threads=1)


def filled(engine: NativeEngine, tokens: Sequence[int], capacity: int) -> Any:
    cache = engine.new_cache(capacity)
    feed(engine, cache, tokens)
    return cache


def feed(engine: NativeEngine, cache: Any, tokens: Sequence[int]) -> Any:
    tx = cache.begin()
    rows = engine.verify_linear(tx, list(tokens), "all")
    tx.commit_prefix(len(tokens))
    return rows


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 140])
def test_an_adopted_beginning_is_bit_for_bit_a_computed_one(engine: NativeEngine, n: int) -> None:
    tokens = [int(t) for t in np.random.default_rng(n).integers(0, 96, 150)]
    source = filled(engine, tokens[:140], 200)
    cache = engine.new_cache(160)
    cache.adopt(source, n)
    assert cache.length == n
    fresh = filled(engine, tokens[:n], 160) if n else engine.new_cache(160)
    assert cache.fingerprint() == fresh.fingerprint()
    source.close()  # nothing is shared
    other = [(t + 1) % 96 for t in tokens]  # not what the source went on with
    assert feed(engine, cache, other[n:150]).tobytes() == feed(engine, fresh, other[n:150]).tobytes()
    assert cache.fingerprint() == fresh.fingerprint()


def test_what_cannot_be_adopted_is_refused(engine: NativeEngine, tmp_path: Path) -> None:
    source = filled(engine, [1, 2, 3], 8)
    for n in (-1, 4):
        with pytest.raises(CacheMisuse, match="to adopt"):
            engine.new_cache(8).adopt(source, n)
    with pytest.raises(CacheMisuse, match="3 tokens to adopt; the other has 3, this one holds 2"):
        engine.new_cache(2).adopt(source, 3)
    with pytest.raises(CacheMisuse, match="empty"):
        filled(engine, [1], 8).adopt(source, 2)
    opened = engine.new_cache(8)
    opened.begin()
    with pytest.raises(CacheMisuse, match="empty"):
        opened.adopt(source, 2)
    other = NativeEngine.load(write_model(tmp_path / "o.gguf", Shape(types=("Q4_1",), vocabulary=96, seed=12)))
    with pytest.raises(CacheMisuse, match="another model"):
        other.new_cache(8).adopt(source, 2)
    source.close()
    with pytest.raises(CacheMisuse, match="closed"):
        engine.new_cache(8).adopt(source, 2)


def test_the_native_copy_checks_sizes_itself(engine: NativeEngine) -> None:
    small, large = engine.new_cache(8).native, engine.new_cache(64).native
    assert small is not None and large is not None
    with pytest.raises(ValueError, match="more positions"):
        small.copy(large, 4096)
    with pytest.raises(ValueError, match="more positions"):
        large.copy(small, 4096)


# -- arms -------------------------------------------------------------------------------------------------------------

PREAMBLE = [1, 2, 3, 4, 5, 6]
SPECS: list[dict[str, Any]] = [
    {"name": "champion_alone", "kind": "champion_alone"},
    {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 3},
    {"name": "suffix_automaton", "kind": "suffix_automaton", "k": 3},
    {"name": "neural_draft", "kind": "neural_draft", "k": 3},
    {"name": "hybrid", "kind": "hybrid", "k": 3},
]
DECODINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "top_p": 0.95, "repetition_penalty": 1.2},
]


def said(completion: Completion) -> tuple[Any, ...]:
    rounds = [(r.requested, r.proposed, r.tested, r.accepted, r.emitted, r.outcome) for r in completion.rounds]
    return completion.tokens, completion.finish_reason, rounds, completion.trace


def talk(request_of: Callable[..., Request], run: Callable[[Request], Completion]) -> list[Completion]:
    """Two conversations of three turns each, and one of them asked again."""
    done = []
    for first in ([7, 8, 9, 10, 11], [7, 8, 2], [7, 8, 2]):
        prompt = [*PREAMBLE, *first]
        for turn in range(3):
            done.append(run(request_of(prompt, continues=turn > 0)))
            prompt = [*prompt, *done[-1].tokens, 3, 1 + turn, 4]
    return done


@pytest.mark.parametrize("decoding", DECODINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s["name"])
def test_every_arm_says_what_it_says_without(spec: dict[str, Any], decoding: dict[str, Any]) -> None:
    pair = [toy_model(t, name) for t, name in zip(tables(12, 5, 0.9), ("champion", "draft"), strict=True)]

    def request(prompt: list[int], **extra: Any) -> Request:
        return Request("r", tuple(prompt), 9, 3, StopPolicy(()), "s", **extra)

    plain = toy_arm(spec, pair[0], pair[1], decoding)
    keeping = toy_arm(spec, pair[0], pair[1], decoding, PrefixCache(len(PREAMBLE)))
    whole, partly = (talk(request, arm.generate) for arm in (plain, keeping))
    assert [said(c) for c in whole] == [said(c) for c in partly]
    assert not any(c.cached_tokens for c in whole)
    read = [c.cached_tokens for c in partly]
    sizes = [len(PREAMBLE) + first + turn * 12 for first in (5, 3, 3) for turn in range(3)]
    assert read[0] == 0 and read[3] == read[6] == len(PREAMBLE), "a first turn reads all but the preamble"
    for i in (1, 2, 4, 5, 7, 8):  # the answer's last token has been read where it was a proposal
        assert read[i] in ((sizes[i - 1] + 8, sizes[i - 1] + 9)[: 1 if spec["kind"] == "champion_alone" else 2])


def test_a_state_taken_over_is_a_fresh_one_after_every_round() -> None:
    pair = [toy_model(t, name) for t, name in zip(tables(12, 5, 0.9), ("champion", "draft"), strict=True)]
    arm = toy_arm(SPECS[4], pair[0], pair[1], DECODINGS[1], PrefixCache(4))
    first = Request("r", (1, 2, 3, 4, 5, 6), 9, 3, StopPolicy(()), "s")
    checked_run(arm.open(first)).close()
    session = checked_run(arm.open(replace(first, prompt=(1, 2, 3, 4, 7))))
    assert session.cached_tokens == 4


def test_a_request_that_failed_is_not_kept() -> None:
    pair = [toy_model(t, name) for t, name in zip(tables(12, 5, 0.9), ("champion", "draft"), strict=True)]
    store = PrefixCache(4)
    arm = toy_arm(SPECS[0], pair[0], None, DECODINGS[0], store)
    request = Request("r", (1, 2, 3), 5, 3, StopPolicy(()), "s")
    session = arm.open(request)
    session.prefill()
    session.failure = "engine_failed"
    session.close()
    assert store.last is None and session.cache.closed
    arm.generate(request)
    assert store.last is not None and list(store.last.tokens[:3]) == [1, 2, 3]


# -- real models ------------------------------------------------------------------------------------------------------


def test_the_preamble_is_what_every_prompt_begins_with(smollm2: Path) -> None:
    from draftgate.arms.models import load_model

    model = load_model("smollm2-135m-instruct", threads=1)
    preamble = model.preamble()
    for text in ("hello", "ß", "\nx", "<|im_start|>"):
        prompt = model.encode_chat([{"role": "user", "content": text}])
        assert prompt[: len(preamble)] == preamble and len(prompt) > len(preamble) + 1
    assert len(preamble) > 10, "the template has a system message of its own"
    another = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    assert model.encode_chat(another)[: len(preamble)] != preamble


def test_without_a_template_there_is_no_preamble(smollm2: Path) -> None:
    from draftgate.arms.models import load_model

    assert replace(load_model("smollm2-135m-instruct", threads=1), template=None).preamble() == []


@pytest.mark.parametrize("kind", ["champion_alone", "neural_draft", "hybrid"])
@pytest.mark.parametrize("decoding", [{}, {"temperature": 0.7, "top_p": 0.9}], ids=["greedy", "sampled"])
def test_the_bundled_draft_speaks_alike_with_and_without(smollm2: Path, kind: str, decoding: dict[str, Any]) -> None:
    from draftgate.arms.models import load_draft, load_model

    champion = load_model("smollm2-135m-instruct", threads=1)
    draft = None if kind == "champion_alone" else load_draft("smollm2-draft", champion, threads=1)
    spec = {"name": kind, "kind": kind, **({} if draft is None else {"k": 4})}
    preamble = champion.preamble()
    stops = StopPolicy(tuple(champion.tokenizer.stop_ids))
    plain = build_arm(spec, champion, draft, decoding)
    keeping = build_arm(spec, champion, draft, decoding, PrefixCache(len(preamble)))
    done = []
    for arm in (plain, keeping):
        answers = []
        for words in ("Name three rivers in Europe.", "What is a good name for a cat?"):
            prompt = champion.encode_chat([{"role": "user", "content": words}])
            answers.append(arm.generate(Request("r", tuple(prompt), 24, 5, stops, "s")))
            more = champion.encode_turn([{"role": "user", "content": "Why?"}])
            end = [] if answers[-1].finish_reason == "stop" else stops.token_ids[:1]
            longer = (*prompt, *answers[-1].tokens, *end, *more)
            answers.append(arm.generate(Request("r", longer, 24, 6, stops, "s", continues=True)))
        done.append(answers)
    assert [said(c) for c in done[0]] == [said(c) for c in done[1]]
    read = [c.cached_tokens for c in done[1]]
    assert read[0] == 0 and read[2] == len(preamble) and min(read[1], read[3]) > len(preamble) + 20
