"""The bundled mini pair: a small champion with a tokenizer of its own, trained on a teacher's text, and a draft for it.

The champion learns the teacher's answers as chat, so its text is recognisably English; the draft is then distilled from
the mini champion like any other draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from . import corpus, export
from .fit import Fitted, Report, Settings, fit
from .independent import TextTask
from .llama_model import Llama, LlamaShape

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class MiniRecipe:
    vocabulary: int = 4096
    width: int = 256
    layers: int = 6
    feed_forward: int = 704
    context: int = 1024
    tokens: int = 430_000
    """Answer tokens of the teacher: those of the feature draft's default, so one corpus serves both."""
    passes: float = 3.5
    draft_width: int = 128
    draft_layers: int = 2
    draft_tokens: int = 300_000
    draft_passes: float = 8.0
    seed: int = 1
    window: int = 256
    batch: int = 24
    learning_rate: float = 2e-3


def conversations(teacher: Any, paths: list[Path]) -> list[str]:
    """Every sequence of a teacher's corpus as text with the template's marks, the teacher's system line left out."""
    texts = corpus.texts(teacher, paths, special=True)
    return [text[text.index("<|im_start|>user") :] for text in texts]


def train_tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """Byte-level BPE with digits apart, as the engine's `smollm` pre-tokenizer has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((_without_marks(t) for t in texts), trainer)
    return tokenizer


def _without_marks(text: str) -> str:
    for mark in SPECIAL:
        text = text.replace(mark, " ")
    return text


def metadata(tokenizer: Tokenizer) -> dict[str, Any]:
    """The GGUF tokenizer fields."""
    import json

    state = json.loads(tokenizer.to_str())["model"]
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    tokens = [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in state["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": vocabulary["<|im_start|>"],
        "tokenizer.ggml.eos_token_id": vocabulary["<|im_end|>"],
        "tokenizer.ggml.unknown_token_id": vocabulary["<|endoftext|>"],
        "tokenizer.ggml.padding_token_id": vocabulary["<|im_end|>"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def _ids(tokenizer: Tokenizer, texts: list[str], seed: int) -> npt.NDArray[np.int64]:
    order = np.random.default_rng(seed).permutation(len(texts))
    encoded = tokenizer.encode_batch([texts[i].rstrip("\n") + "\n" for i in order])
    return np.concatenate([np.array(e.ids, np.int64) for e in encoded])


def train_champion(
    teacher: Any, paths: list[Path], recipe: MiniRecipe, out: Path, work: Path, licence: str, report: Report
) -> Fitted:
    """Fit the mini champion to the text of ``paths`` and write it to ``out``."""
    texts = conversations(teacher, paths)
    tokenizer = train_tokenizer(texts, recipe.vocabulary)
    ids = _ids(tokenizer, texts, recipe.seed)
    report(f"{len(texts)} conversations, {len(ids)} tokens of the mini tokenizer")
    torch.manual_seed(recipe.seed)
    shape = LlamaShape(
        vocabulary=tokenizer.get_vocab_size(),
        width=recipe.width,
        layers=recipe.layers,
        heads=recipe.width // 64,
        kv_heads=max(1, recipe.width // 128),
        feed_forward=recipe.feed_forward,
        context=recipe.context,
    )
    module = Llama(shape)
    task = TextTask(module, ids, recipe.window, recipe.batch)
    settings = Settings(passes=recipe.passes, learning_rate=recipe.learning_rate, seed=recipe.seed)
    fitted = fit(task, settings, work / "champion.pt", report)
    export.write_llama(out, module, metadata(tokenizer), None, licence)
    return fitted
