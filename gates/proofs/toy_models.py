"""Toy engines dressed as models, with a real tokenizer over letters, so that the shipped `build_arm` takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...arms.build import build_arm
from ...arms.engine.tokenizer import Tokenizer
from ...arms.engine.vocabulary import CONTROL, NORMAL, Vocabulary
from ...arms.prefix_cache import PrefixCache
from .families import Family
from .toy import ToyEngine

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class ToyFile:
    sha256: str
    bytes: int = 0
    path: str = "toy"
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToyModel:
    engine: ToyEngine
    tokenizer: Tokenizer
    file: ToyFile
    template: None = None

    def preamble(self) -> list[int]:
        """No template, hence no words before every conversation's first."""
        return []


@lru_cache
def letters(vocabulary: int, stop_ids: tuple[int, ...]) -> Tokenizer:
    """A byte-level tokenizer whose token i is a letter; stop tokens are control tokens."""
    types = [CONTROL if i in stop_ids else NORMAL for i in range(vocabulary)]
    return Tokenizer(
        Vocabulary(
            model="gpt2",
            pre="default",
            tokens=list(LETTERS[:vocabulary]),
            types=types,
            scores=None,
            merges=[],
            bos=None,
            eos=stop_ids[0] if stop_ids else None,
            pad=None,
            unknown=None,
            ends=stop_ids,
            add_bos=False,
            add_space_prefix=False,
        )
    )


def toy_model(
    table: npt.NDArray[np.float32],
    name: str,
    stop_ids: tuple[int, ...] = (),
    context_limit: int = 4096,
    tokens: int | None = None,
) -> ToyModel:
    """A model over a table of logits [rows, V], V at most 52; ``tokens``: vocabulary, where outputs are fewer."""
    tokenizer = letters(tokens or int(table.shape[1]), stop_ids)
    sha = hashlib.sha256(name.encode() + table.tobytes()).hexdigest()
    engine = ToyEngine(table, context_limit, sha, tokenizer.sha256)
    engine.vocabulary = tokens or engine.vocabulary
    return ToyModel(engine, tokenizer, ToyFile(sha))


def models_of(family: Family) -> tuple[ToyModel, ToyModel]:
    """Champion and draft of a family."""
    limit = family.context_limit
    return (
        toy_model(family.champion, "champion", family.stop_ids, limit),
        toy_model(family.draft, "draft", family.stop_ids, limit),
    )


def toy_arm(
    spec: Mapping[str, Any],
    champion: ToyModel,
    draft: ToyModel | None,
    decoding: Mapping[str, Any],
    prefix_cache: PrefixCache | None = None,
) -> Any:
    """The shipped arm of a plan's entry over toy models."""
    return build_arm(dict(spec), cast(Any, champion), cast(Any, draft), decoding, prefix_cache)
