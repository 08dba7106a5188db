"""The provenance receipt beside every trained file: what it was made from, by what, and how long it took."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import ArmError

FORMAT = "draftgate-training-receipt/1"


@dataclass(frozen=True)
class TrainingReceipt:
    kind: str
    """feature, independent, or champion."""
    file_sha256: str
    file_bytes: int
    licence: str
    tokenizer_sha256: str
    prompt_set_sha256: str
    """Templates, topics and weights the prompts were made of (`prompts.py`)."""
    contamination_sha256: str
    """The hash set the prompts were filtered by (`contamination.py`)."""
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


def code_sha256() -> str:
    """One hash over this folder's sources, by name and content."""
    total = hashlib.sha256()
    for entry in sorted(resources.files(__package__).iterdir(), key=lambda e: e.name):
        if entry.name.endswith((".py", ".txt")):
            total.update(entry.name.encode() + b"\0" + hashlib.sha256(entry.read_bytes()).digest())
    return total.hexdigest()


def write(model: Path, receipt: TrainingReceipt) -> Path:
    path = receipt_path(model)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(asdict(receipt), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(temporary, path)
    return path


def read(model: Path) -> TrainingReceipt:
    """The receipt beside ``model``. Raises ArmError when it is missing, malformed or of another version."""
    path = receipt_path(model)
    try:
        if path.stat().st_size > 1_000_000:
            raise ArmError(f"{path}: a receipt is never this large")
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.get("format") != FORMAT:
            raise ArmError(f"{path}: format {values.get('format')!r}, this version reads {FORMAT!r}")
        return TrainingReceipt(**values)
    except FileNotFoundError as error:
        raise ArmError(f"{path} is missing: this file's training is not documented") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ArmError(f"{path} is not a readable receipt: {error}") from error
