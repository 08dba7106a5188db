"""Our token ids are llama.cpp's, for the texts that tokenizers get wrong (golden files made by llamacpp_golden.py)."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms.engine.byte_level import PRE_TOKENISERS
from draftgate.arms.engine.gguf import GgufFile, read_gguf
from draftgate.arms.engine.tokenizer import Tokenizer
from support.torture import TEXTS
from support.vocabulary_files import write_byte_level, write_sentencepiece

GOLDEN: dict[str, Any] = json.loads((resources.files("draftgate.fixtures") / "golden/llamacpp-tokens.json").read_text())


@pytest.fixture(scope="module")
def file(smollm2: Path) -> GgufFile:
    return read_gguf(smollm2)


@pytest.fixture(scope="module")
def tokenizer(file: GgufFile) -> Tokenizer:
    return Tokenizer.from_gguf(file)


def test_golden_files_belong_to_this_model_and_these_texts(file: GgufFile) -> None:
    assert GOLDEN["model_sha256"] == file.sha256
    assert GOLDEN["texts"] == TEXTS


@pytest.mark.parametrize("name", TEXTS)
def test_plain_ids_agree(tokenizer: Tokenizer, name: str) -> None:
    assert tokenizer.encode(TEXTS[name]) == GOLDEN["plain"][name]


@pytest.mark.parametrize("name", TEXTS)
def test_ids_with_special_tokens_agree(tokenizer: Tokenizer, name: str) -> None:
    assert tokenizer.encode(TEXTS[name], special=True) == GOLDEN["special"][name]


@pytest.mark.parametrize("name", PRE_TOKENISERS)
def test_every_supported_pre_tokeniser_agrees(file: GgufFile, tmp_path: Path, name: str) -> None:
    variant = Tokenizer.from_gguf(read_gguf(write_byte_level(tmp_path / "v.gguf", file.metadata, name)))
    ids = {case: variant.encode(text) for case, text in TEXTS.items()}
    golden = GOLDEN["pre_tokenisers"][name]
    for case, wanted in golden.get("ids", {}).items():
        assert ids[case] == wanted, case
    assert hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest() == golden["sha256"]


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_ids_agree(tmp_path: Path, prefix: bool) -> None:
    path = write_sentencepiece(tmp_path / "spm.gguf", list(TEXTS.values()), add_space_prefix=prefix)
    pieces = Tokenizer.from_gguf(read_gguf(path))
    for name, text in TEXTS.items():
        assert pieces.encode(text) == GOLDEN["sentencepiece"][str(prefix).lower()][name], name
        assert pieces.decode(pieces.encode(text)) == text, name
