"""A backend of the harness with the shipped arms over toy models: everything real but the weights."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftgate.gates.proofs.toy import tables
from draftgate.gates.proofs.toy_models import ToyModel, toy_arm, toy_model

VOCABULARY, STOP = 40, 39


@dataclasses.dataclass(frozen=True)
class SpeakingModel(ToyModel):
    """Renders any message to a few letters, so that the shipped strata can be asked."""

    def encode_chat(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> list[int]:
        return self._letters(" ".join(m["content"] for m in messages))

    def encode_turn(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode_chat(messages)

    def preamble(self) -> list[int]:
        return [1]

    def encode_raw(self, text: str) -> list[int]:
        return self._letters(text)

    def _letters(self, text: str) -> list[int]:
        return [1, *(byte % STOP for byte in hashlib.sha256(text.encode()).digest()[:7])]


def resolve(name: str) -> Path:
    return Path(os.environ.get("DRAFTGATE_TOY_MODELS", ".")) / name


pull = resolve


def load_model(path: str, *, threads: int | None, kernel: str | None) -> SpeakingModel:
    said = json.loads(Path(path).read_bytes())
    champion, draft = tables(VOCABULARY, int(said["seed"]), 0.9, scale=1.6)
    table = draft if said.get("draft") else champion
    table[:, STOP] -= 1.0
    plain = toy_model(table, Path(path).stem, (STOP,), 128)
    file = dataclasses.replace(plain.file, sha256=hashlib.sha256(Path(path).read_bytes()).hexdigest(), path=path)
    return SpeakingModel(plain.engine, plain.tokenizer, file)


def load_draft(path: str, champion: Any, *, threads: int | None, kernel: str | None) -> SpeakingModel:
    return load_model(path, threads=threads, kernel=kernel)


def build_arm(
    spec: Mapping[str, Any], champion: Any, draft: Any, decoding: Mapping[str, Any], prefix_cache: Any = None
) -> Any:
    return toy_arm(spec, champion, draft, decoding, prefix_cache)
