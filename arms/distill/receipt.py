"""Writing the provenance receipt beside a trained file; what it holds: `arms/training_receipt.py`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from ...strata.files import replacing
from ..training_receipt import FORMAT, TrainingReceipt, read, receipt_path


def code_sha256() -> str:
    """One hash over this folder's sources, by name and content."""
    total = hashlib.sha256()
    for entry in sorted(resources.files(__package__).iterdir(), key=lambda e: e.name):
        if entry.name.endswith((".py", ".txt")):
            total.update(entry.name.encode() + b"\0" + hashlib.sha256(entry.read_bytes()).digest())
    return total.hexdigest()


def write(model: Path, receipt: TrainingReceipt) -> Path:
    path = receipt_path(model)
    with replacing(path) as handle:
        handle.write((json.dumps(asdict(receipt), indent=1, sort_keys=True) + "\n").encode())
    return path


__all__ = ["FORMAT", "TrainingReceipt", "code_sha256", "read", "receipt_path", "write"]
