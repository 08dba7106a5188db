"""Models that come with the package: small trained files, each with its receipt beside it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from .engine.gguf import GgufFile
from .errors import IntegrityError
from .training_receipt import read_document, receipt_path

PACKAGE = __name__.rsplit(".", 2)[0]
BUNDLED = ("mini-champion", "mini-draft", "smollm2-draft")
"""Names that an installation has."""


def bundled_folder() -> Path:
    """Inside the installed package, editable or wheel."""
    try:
        return Path(str(resources.files(f"{PACKAGE}.fixtures") / "models"))
    except ModuleNotFoundError:
        return Path(__file__).parent.parent / "fixtures" / "models"


def bundled() -> dict[str, Path]:
    """Name -> path of the files that are there."""
    return {path.stem: path for path in sorted(bundled_folder().glob("*.gguf"))}


def require_receipt(file: GgufFile) -> None:
    """Raises IntegrityError when a bundled file is not the one its receipt is about; other files may have none."""
    path = Path(file.path)
    if path.parent.resolve() != bundled_folder().resolve():
        return
    found = read_document(path)
    if found is None:
        raise IntegrityError(f"{path}: {receipt_path(path).name} is missing beside it; install draftgate again")
    said = found[0].get("file_sha256")
    if said != file.sha256:
        raise IntegrityError(
            f"{path}: sha256 is {file.sha256[:12]}…, its receipt says {str(said)[:12]}…; install draftgate again"
        )
