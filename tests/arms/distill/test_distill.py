"""Training at a small setting, end to end; needs the extra `train`. Run with: pytest -m train"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.train

SMALL = {"tokens": 400, "shard_sequences": 24, "max_new_tokens": 24, "passes": 2.0, "rows": 256, "batch_tokens": 1024}


@pytest.fixture(scope="module")
def champion(smollm2: Path) -> Any:
    from draftgate.arms.models import load_model

    return load_model(smollm2, threads=2)


def reports() -> tuple[list[str], Any]:
    lines: list[str] = []
    return lines, lines.append


@pytest.mark.parametrize("kind", ["feature", "independent"])
def test_a_small_draft_is_trained_loaded_exact_and_documented(champion: Any, tmp_path: Path, kind: str) -> None:
    from draftgate.arms.build import build_arm
    from draftgate.arms.distill import receipt
    from draftgate.arms.distill.pipeline import Recipe, distill
    from draftgate.arms.engine.draft_keys import HEAD_TYPE
    from draftgate.arms.models import load_draft
    from draftgate.arms.request import Request, StopPolicy

    out = tmp_path / "draft.gguf"
    lines, report = reports()
    recipe = replace(Recipe(kind=kind, width=64, layers=1), **SMALL)
    made = distill(champion, recipe, out, tmp_path / "work", "apache-2.0", report)
    assert any("survival" in line for line in lines)
    assert receipt.read(out) == made and made.champion_sha256 == champion.file.sha256
    assert made.answer_tokens >= 400 and made.file_bytes == out.stat().st_size

    draft = load_draft(out, champion, threads=2)
    if kind == "feature":
        assert draft.file.metadata[HEAD_TYPE] == "Q4_1" and draft.engine.inner_layers == (25,)
        assert {t.type for t in draft.file.tensors.values()} == {"F32", "Q4_1"}
    prompt = tuple(champion.encode_chat([{"role": "user", "content": "Name three colours."}]))
    request = Request("r", prompt, 24, 1, StopPolicy(tuple(champion.tokenizer.stop_ids)))
    alone = build_arm({"name": "champion_alone", "kind": "champion_alone"}, champion).generate(request)
    arm = build_arm({"name": "neural_draft", "kind": "neural_draft", "k": 3}, champion, draft)
    drafted = arm.generate(request)
    assert drafted.tokens == alone.tokens and sum(r.proposed for r in drafted.rounds) > 0

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "corpus").iterdir()}
    again = distill(champion, recipe, out, tmp_path / "work", "apache-2.0", report)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "corpus").iterdir()} == before
    assert again.corpus_sha256 == made.corpus_sha256 and again.file_sha256 == made.file_sha256


def test_the_mini_champion_learns_turns_with_their_marks(champion: Any, tmp_path: Path) -> None:
    from draftgate.arms.distill import corpus, mini
    from draftgate.arms.distill.contamination import Filter
    from draftgate.arms.distill.prompts import template_prompts

    amount = corpus.Amount(tokens=200, shard_sequences=16, max_new_tokens=64)
    paths = corpus.build(champion, tmp_path, amount, 1, template_prompts, Filter.shipped(), None, lambda n: None)
    texts = mini.conversations(champion, paths)
    assert all(t.startswith("<|im_start|>user\n") and "<|im_end|>\n<|im_start|>assistant\n" in t for t in texts)
    assert any(t.endswith("<|im_end|>") for t in texts)  # answers that ended by themselves show how to end
    tokenizer = mini.train_tokenizer(texts, 400)
    ids = mini._ids(tokenizer, texts, 0)
    marks = [tokenizer.token_to_id(mark) for mark in ("<|im_start|>", "<|im_end|>")]
    assert [int((ids == mark).sum()) for mark in marks] == [sum(t.count(m) for t in texts) for m in mini.SPECIAL[1:]]


def test_an_interrupted_fit_is_taken_up_and_ends_the_same(champion: Any, tmp_path: Path) -> None:
    from draftgate.arms.distill import fit as fitting
    from draftgate.arms.distill.pipeline import Recipe, distill

    recipe = replace(Recipe(), **SMALL)
    lines, report = reports()
    whole = distill(champion, recipe, tmp_path / "whole" / "draft.gguf", tmp_path / "work", "apache-2.0", report)

    class Killed(Exception):
        pass

    saves = 0
    original = fitting._save

    def dying(*args: Any) -> None:
        nonlocal saves
        original(*args)
        saves += 1
        if saves == 2:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_save", dying)
        patch.setattr(fitting, "CHECKPOINT_EVERY_S", 0.0)
        (tmp_path / "work" / "checkpoint.pt").unlink(missing_ok=True)
        with pytest.raises(Killed):
            distill(champion, recipe, tmp_path / "resumed" / "draft.gguf", tmp_path / "work", "apache-2.0", report)
    resumed = distill(champion, recipe, tmp_path / "resumed" / "draft.gguf", tmp_path / "work", "apache-2.0", report)
    assert any("resuming at step 2" in line for line in lines)
    assert resumed.steps == whole.steps and resumed.file_sha256 == whole.file_sha256


def test_a_champion_without_a_licence_is_refused(champion: Any) -> None:
    from draftgate.arms.distill.pipeline import licence_of
    from draftgate.arms.errors import ArmError

    class File:
        metadata: dict[str, str] = {}  # noqa: RUF012
        path = Path("nameless.gguf")

    class Nameless:
        file = File()

    with pytest.raises(ArmError, match="names no licence"):
        licence_of(Nameless())


def test_prompts_of_the_strata_are_refused_as_training_text() -> None:
    from draftgate.arms.distill.contamination import Filter
    from draftgate.arms.distill.prompts import TrainingPrompt, training_prompts
    from draftgate.arms.errors import ArmError
    from draftgate.strata.load import load_stratum

    texts = [message.content for p in load_stratum("summaries") for turn in p.turns for message in turn]
    stolen = [TrainingPrompt("chat", text, 0.0, 1) for text in texts]
    with pytest.raises(ArmError, match="overlap the workload strata"):
        list(Filter.shipped().keep(stolen))
    own = training_prompts(1, ["A plain source text about bridges, long enough to be used."] * 9)
    clean = Filter.shipped()
    assert len([next(clean.keep([next(own)]), None) for _ in range(500)]) == 500 and clean.dropped <= 5


def test_too_little_disk_is_refused_before_anything_is_generated(
    champion: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from draftgate.arms.distill.pipeline import Recipe, distill
    from draftgate.arms.errors import ArmError

    real = os.statvfs(tmp_path)
    full = os.statvfs_result((real[0], real[1], real[2], 1, 1, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(ArmError, match="GB free"):
        distill(champion, Recipe(), tmp_path / "d.gguf", tmp_path / "work", "apache-2.0", lambda line: None)
    assert list((tmp_path / "work" / "corpus").iterdir()) == []


def test_a_receipt_of_another_version_or_none_is_named(tmp_path: Path) -> None:
    from draftgate.arms.distill import receipt
    from draftgate.arms.errors import ArmError

    with pytest.raises(ArmError, match="is missing"):
        receipt.read(tmp_path / "x.gguf")
    (tmp_path / "x.receipt.json").write_text(json.dumps({"format": "draftgate-training-receipt/9"}))
    with pytest.raises(ArmError, match="draftgate-training-receipt/9"):
        receipt.read(tmp_path / "x.gguf")
