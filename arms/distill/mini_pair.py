"""Both files of the mini pair and their receipts, from one teacher."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import corpus
from .batches import Sequences
from .contamination import Filter
from .fit import Report
from .mini import MiniRecipe, train_champion
from .pipeline import Recipe, distill, make_receipt
from .prompts import prompt_set_sha256, template_prompts
from .receipt import TrainingReceipt, write


def train_pair(
    teacher: Any,
    recipe: MiniRecipe,
    out: Path,
    work: Path,
    licence: str,
    threads: int | None,
    report: Report,
) -> list[TrainingReceipt]:
    """`mini-champion.gguf` and `mini-draft.gguf` under ``out``; takes up what an earlier call left in ``work``."""
    from ..models import load_model

    out.mkdir(parents=True, exist_ok=True)
    champion_path, draft_path = out / "mini-champion.gguf", out / "mini-draft.gguf"
    filter_ = Filter.shipped()
    amount = corpus.Amount(recipe.tokens)
    paths = corpus.build(teacher, work / "corpus", amount, recipe.seed, template_prompts, filter_, None, lambda n: None)
    fitted = train_champion(teacher, paths, recipe, champion_path, work, licence, report)
    champion = load_model(champion_path, threads=threads)
    data = Sequences(paths, 1024, hidden=False)
    first = make_receipt(
        champion_path, "champion", teacher, data, paths, prompt_set_sha256(), filter_, fitted, licence, asdict(recipe)
    )
    write(champion_path, first)
    draft = Recipe(
        kind="independent",
        tokens=recipe.draft_tokens,
        shard_sequences=256,
        prompts="templates",
        passes=recipe.draft_passes,
        rows=champion.engine.vocabulary,
        width=recipe.draft_width,
        layers=recipe.draft_layers,
        seed=recipe.seed,
        learning_rate=2e-3,
    )
    second = distill(champion, draft, draft_path, work / "draft", licence, report)
    return [first, second]
