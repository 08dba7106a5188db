"""What a plan binds: every artifact by hash, so that a run can say which one is not what was frozen."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from .canonical import digest, digest_file

PACKAGE = __name__.rsplit(".", 2)[0]
FOLDERS = ("strata", "arms", "harness", "gates", "reports")
GOLDEN_TOKENS = 16


def source_digest() -> str:
    """sha256 over the package's Python files and bundled plan groups: names and contents, in order of name."""
    lines = []
    for folder in FOLDERS:
        root = Path(str(files(f"{PACKAGE}.{folder}")))
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".yaml") and "__pycache__" not in path.parts:
                lines.append(f"{folder}/{path.relative_to(root).as_posix()} {digest_file(path)}")
    return digest("\n".join(sorted(lines)).encode())


def package_version() -> str:
    from .. import __version__

    return __version__


def model_identity(model: Any, name: str) -> dict[str, Any]:
    """Identity of one loaded model (`arms.models.Model`): hashes, sizes and policies, no path."""
    metadata, info = model.file.metadata, getattr(model, "info", None)
    licence = info.licence if info is not None else metadata.get("general.license")
    return {
        "name": name,
        "sha256": model.file.sha256,
        "bytes": int(model.file.bytes),
        "tokenizer": dict(model.tokenizer.identity),
        "tokenizer_sha256": model.tokenizer.sha256,
        "template_sha256": digest(str(metadata.get("tokenizer.chat_template", "")).encode()),
        "context_limit": int(model.engine.context_limit),
        "position_policy": str(model.engine.identity.position_policy),
        "licence": str(licence or "not stated"),
        "receipt_sha256": None if info is None else info.receipt_sha256,
    }


def arithmetic_golden(model: Any) -> dict[str, str]:
    """Declared arithmetic; the engine's golden self-test where it has one; sha256 of this model's logits on fixed
    tokens.

    The second hash is what a run on another machine must reproduce to the bit.
    """
    import numpy as np

    engine = model.engine
    ids = [(7 * i + 3) % engine.vocabulary for i in range(min(GOLDEN_TOKENS, engine.context_limit))]
    cache = engine.new_cache(len(ids))
    try:
        logits = engine.verify_linear(cache.begin(), ids, rows="all")
    finally:
        cache.close()
    own = digest(np.ascontiguousarray(logits, dtype="<f4").tobytes())
    return {"version": str(engine.identity.arithmetic), "golden": _self_test(engine) or own, "model_golden": own}


def _self_test(engine: Any) -> str | None:
    """The bundled engine's pinned self-test, computed here; None for another engine."""
    if type(engine).__module__ != f"{PACKAGE}.arms.engine.engine":
        return None
    from ..arms.engine import self_test

    return str(self_test.arithmetic_self_test(engine.kernel, engine.threads))


def differences(frozen: dict[str, Any], found: dict[str, Any], where: str) -> list[str]:
    """Fields of a bound identity that are not what was frozen, one line each; ``name`` is a label, not an identity."""
    lines = []
    for key in sorted(set(frozen) | set(found)):
        a, b = frozen.get(key), found.get(key)
        if a == b or key == "name":
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, f"{where}.{key}")
        else:
            lines.append(f"{where}.{key}: frozen {_short(a)}, found {_short(b)}")
    return lines


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 20 else text[:12] + "…"
