"""What is in the repository's package folders is in the wheel: code, plans, prompts, templates, schema, models."""

from __future__ import annotations

import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"strata", "arms", "harness", "gates", "reports", "fixtures"}
SOURCES = {".cpp", ".hpp", ".inc"}


def settings() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["scikit-build"]["wheel"])


def test_every_package_folder_is_packed_and_only_native_sources_are_left_out() -> None:
    wheel = settings()
    assert wheel["packages"] == {f"draftgate/{name}": name for name in FOLDERS}
    patterns = [str(p) for p in wheel["exclude"]]  # type: ignore[attr-defined]
    files = [p for name in FOLDERS for p in (ROOT / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert len(files) > 300
    for path in files:
        left_out = any(fnmatch(path.relative_to(ROOT).as_posix(), p) for p in patterns)
        assert left_out == (path.suffix in SOURCES), path


def test_bundled_models_and_receipts_are_not_ignored() -> None:
    """The build packs nothing that git ignores."""
    names = ["fixtures/models/mini-draft.gguf", "fixtures/models/mini-draft.receipt.json", "reports/schemas/x.json"]
    done = subprocess.run(["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
