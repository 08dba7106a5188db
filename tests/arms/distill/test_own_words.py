"""Prompts in the champion's own words: the broad set of `distill`; needs the extra `train`."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def champion(smollm2: Path) -> Any:
    from draftgate.arms.models import load_model

    return load_model(smollm2, threads=2)


@pytest.mark.parametrize("opening", ["Write a story about", "¿Cómo", "", "请"])
def test_a_turn_is_left_open_after_its_first_words(champion: Any, opening: str) -> None:
    from draftgate.arms.distill.own_words import unfinished_turn

    ids = unfinished_turn(champion, opening)
    assert champion.tokenizer.decode(ids, special=True).endswith(f"<|im_start|>user\n{opening}")


def test_prompts_are_many_different_and_the_same_again(champion: Any) -> None:
    from draftgate.arms.distill.corpus import Earlier
    from draftgate.arms.distill.own_words import broad_prompts

    earlier = Earlier(["A long answer about bridges and rivers. " * 4] * 9, [[1, 5, 6, 2]])
    first, second = (list(islice(broad_prompts(champion, 7, earlier, 12), 24)) for _ in range(2))
    assert first == second
    own = [p.text for p in first if p.kind == "own words"]
    assert len(set(own)) == len(own) >= 4
    assert {p.before for p in first} == {(), (1, 5, 6, 2)}


def test_what_is_generated_does_not_depend_on_how_many_run_side_by_side(
    champion: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftgate.arms.distill import generation, own_words

    def written(columns: int) -> list[str]:
        monkeypatch.setattr(generation, "COLUMNS", columns)
        return own_words.questions(champion, random.Random(3), 6)

    assert written(1) == written(4)


def test_a_later_turn_goes_on_with_a_conversation_that_ended(champion: Any, tmp_path: Path) -> None:
    import numpy as np
    from draftgate.arms.distill import corpus
    from draftgate.arms.distill.contamination import Filter
    from draftgate.arms.distill.prompts import TrainingPrompt

    before = champion.encode_chat([{"role": "user", "content": "Name a colour."}])
    before = (*before, *champion.tokenizer.encode("Blue."), champion.tokenizer.stop_ids[0])

    def later(*given: Any) -> Any:
        yield from (TrainingPrompt("later turn", "Why that one?", 0.0, seed, before) for seed in range(2))

    amount = corpus.Amount(tokens=1, shard_sequences=2, max_new_tokens=8)
    (path,), (again,) = (
        corpus.build(champion, tmp_path / name, amount, 1, later, Filter.shipped(), (2, 25), lambda n: None)
        for name in ("first", "again")
    )
    assert corpus.sha256([path]) == corpus.sha256([again]) and path.read_bytes() != again.read_bytes()
    shard = corpus.load(path)
    ids = shard.ids[: shard.prompts[0]].tolist()
    whole = [{"role": "user", "content": "Name a colour."}, {"role": "assistant", "content": "Blue."},
             {"role": "user", "content": "Why that one?"}]  # fmt: skip
    assert ids == champion.encode_chat(whole)
    assert shard.hidden is not None and shard.hidden.shape == (len(shard.ids), 3 * 576)
    fed = champion.engine.verify_with_hidden(champion.engine.new_cache(400).begin(), ids[:20], "none", (2, 25))[1]
    np.testing.assert_array_equal(shard.hidden[:20], fed.clip(-65504, 65504).astype(np.float16))
