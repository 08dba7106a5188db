"""What a model file is, for `models inspect`, plans and reports; computed without loading any weight."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .engine.draft_keys import CHAMPION_SHA256, FEATURE_ARCHITECTURE, TOKENIZER_SHA256
from .engine.gguf import GgufError, GgufFile
from .engine.tokenizer import TokenizerError
from .engine.vocabulary import read_vocabulary
from .model_registry import REGISTRY
from .training_receipt import read_document


@dataclass(frozen=True)
class ModelInfo:
    path: str
    name: str
    """``general.name`` of the file, or the file's own name."""
    sha256: str
    bytes: int
    gguf_version: int
    architecture: str
    parameters: int
    layers: int | None
    width: int | None
    heads: int | None
    kv_heads: int | None
    context_limit: int | None
    vocabulary: int | None
    quantisation: dict[str, dict[str, int]]
    """Tensor type -> tensors, values, bytes."""
    tokenizer_sha256: str | None
    tokenizer: dict[str, str]
    """Field -> sha256; empty when the tokenizer is not supported."""
    template_sha256: str | None
    licence: str | None
    champion_sha256: str | None
    """Of a feature draft: the model it was made for, whose tokenizer it speaks."""
    receipt: dict[str, Any] | None
    """Content of ``NAME.receipt.json`` beside the file: how a draft was made."""
    receipt_sha256: str | None
    problem: str | None
    """Why the bundled engine would refuse this file; None when it would not."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def describe(file: GgufFile) -> ModelInfo:
    """Raises ArmError only for an unreadable receipt; what the engine would refuse is in ``problem``."""
    architecture = file.metadata.get("general.architecture")
    prefix = architecture if isinstance(architecture, str) else ""
    mix = {kind: {"tensors": n, "values": 0, "bytes": 0} for kind, n in _kinds(file).items()}
    for tensor in file.tensors.values():
        values = 1
        for dimension in tensor.shape:
            values *= dimension
        mix[tensor.type]["values"] += values
        mix[tensor.type]["bytes"] += tensor.bytes
    problem, tokenizer, tokenizer_sha256, count = None, dict[str, str](), None, None
    made_for = _text(file.metadata, CHAMPION_SHA256) if architecture == FEATURE_ARCHITECTURE else None
    try:
        if made_for is None:
            file.require_loadable()
    except GgufError as error:
        problem = str(error)
    try:
        vocabulary = read_vocabulary(file.metadata)
        tokenizer, tokenizer_sha256, count = vocabulary.identity, vocabulary.sha256, len(vocabulary.tokens)
    except TokenizerError as error:
        problem = problem or (None if made_for else f"{file.path}: {error}")
        tokenizer_sha256 = _text(file.metadata, TOKENIZER_SHA256)
    template = file.metadata.get("tokenizer.chat_template")
    receipt, receipt_sha256 = read_document(file.path) or (None, None)
    known = next((m for m in REGISTRY.values() if m.bytes == file.bytes and m.sha256 == file.sha256), None)
    return ModelInfo(
        path=str(file.path),
        name=_text(file.metadata, "general.name") or file.path.stem,
        sha256=file.sha256,
        bytes=file.bytes,
        gguf_version=file.version,
        architecture=prefix or "unknown",
        parameters=sum(entry["values"] for entry in mix.values()),
        layers=_whole(file.metadata, f"{prefix}.block_count"),
        width=_whole(file.metadata, f"{prefix}.embedding_length"),
        heads=_whole(file.metadata, f"{prefix}.attention.head_count"),
        kv_heads=_whole(file.metadata, f"{prefix}.attention.head_count_kv"),
        context_limit=_whole(file.metadata, f"{prefix}.context_length"),
        vocabulary=count,
        quantisation=mix,
        tokenizer_sha256=tokenizer_sha256,
        tokenizer=tokenizer,
        template_sha256=hashlib.sha256(template.encode()).hexdigest() if isinstance(template, str) else None,
        licence=_text(file.metadata, "general.license") or (known.licence if known else None),
        champion_sha256=made_for,
        receipt=receipt,
        receipt_sha256=receipt_sha256,
        problem=problem,
    )


def _kinds(file: GgufFile) -> Counter[str]:
    return Counter(tensor.type for tensor in file.tensors.values())


def _text(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) and value else None


def _whole(metadata: Mapping[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if type(value) is int else None
