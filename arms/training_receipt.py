"""The provenance receipt beside a trained file, `NAME.receipt.json`: what it was made from. Read without torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ArmError

FORMAT = "draftgate-training-receipt/1"
LARGEST = 1_000_000
"""Bytes; a receipt is never this large."""


@dataclass(frozen=True)
class TrainingReceipt:
    kind: str
    """feature, independent, or champion."""
    file_sha256: str
    file_bytes: int
    licence: str
    tokenizer_sha256: str
    prompt_set_sha256: str
    """Templates, topics and weights the prompts were made of (`distill/prompts.py`)."""
    contamination_sha256: str
    """The hash set the prompts were filtered by (`distill/contamination.py`)."""
    contamination_dropped: int
    corpus_sha256: str
    code_sha256: str
    """All of arms/distill as shipped."""
    seed: int
    answer_tokens: int
    steps: int
    generation_s: float
    training_s: float
    final_loss: float
    champion_sha256: str = ""
    """The model whose text and probabilities were learned; empty for none."""
    champion_licence: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    """Held-out figures at the end of training."""
    settings: dict[str, Any] = field(default_factory=dict)
    format: str = FORMAT


def receipt_path(model: Path) -> Path:
    return model.with_name(model.stem + ".receipt.json")


def read_document(model: Path) -> tuple[dict[str, Any], str] | None:
    """The JSON object beside ``model``, of whatever format, and its sha256; None where there is none.

    Raises ArmError when it cannot be read.
    """
    path = receipt_path(model)
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArmError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > LARGEST:
        raise ArmError(f"{path}: a receipt is never this large")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ArmError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArmError(f"{path}: not a JSON object")
    return value, hashlib.sha256(raw).hexdigest()


def read(model: Path) -> TrainingReceipt:
    """The receipt beside ``model``. Raises ArmError when it is missing, malformed or of another version."""
    path, found = receipt_path(model), read_document(model)
    if found is None:
        raise ArmError(f"{path} is missing: this file's training is not documented")
    values, _ = found
    if values.get("format") != FORMAT:
        raise ArmError(f"{path}: format {values.get('format')!r}, this version reads {FORMAT!r}")
    try:
        receipt = TrainingReceipt(**values)
    except TypeError as error:
        raise ArmError(f"{path} is not a readable receipt: {error}") from error
    hashes = (receipt.file_sha256, receipt.champion_sha256, receipt.contamination_sha256, receipt.licence, receipt.kind)
    if any(not isinstance(value, str) for value in hashes):
        raise ArmError(f"{path} is not a readable receipt: a hash or the licence is not a text")
    return receipt
