"""Models that come with the package: found by name everywhere, and held to the receipt beside them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from draftgate.arms import bundled_models, models
from draftgate.arms.engine.gguf import read_gguf
from draftgate.arms.errors import ArmError, IntegrityError
from draftgate.arms.policies import CostModel, policy_of
from draftgate.arms.training_receipt import TrainingReceipt, read, receipt_path
from draftgate.harness.cli import main
from support.feature_files import write_feature_draft

from .engine.reference import Shape, write_model

SPEAKING = Shape(vocabulary=258, layers=1, speaks=True)


def document(path: Path, kind: str, champion_sha256: str = "") -> None:
    """The receipt a training run would leave beside ``path``."""
    receipt = TrainingReceipt(
        kind, read_gguf(path).sha256, path.stat().st_size, "Apache-2.0", "t", "p", "c", 0, "k", "s", 1, 10, 2, 1.0, 1.0,
        0.5, champion_sha256,
    )  # fmt: skip
    receipt_path(path).write_text(json.dumps(dataclasses.asdict(receipt)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with the mini pair and a feature draft of the mini champion."""
    champion = write_model(tmp_path / "mini-champion.gguf", SPEAKING)
    write_model(tmp_path / "mini-draft.gguf", dataclasses.replace(SPEAKING, seed=2))
    document(champion, "champion")
    sha = read_gguf(champion).sha256
    document(tmp_path / "mini-draft.gguf", "independent", sha)
    monkeypatch.setattr(bundled_models, "bundled_folder", lambda: tmp_path)
    return tmp_path


def feature(folder: Path, tokenizer: str | None = None) -> Path:
    champion = models.load_model("mini-champion")
    spoken = tokenizer or champion.tokenizer.sha256
    path = folder / "smollm2-draft.gguf"
    write_feature_draft(path, champion.file.sha256, 64, [1, 2, 3], tokenizer_sha256=spoken)
    document(path, "feature", champion.file.sha256)
    return path


def test_names_are_files_of_the_installed_package(folder: Path, tmp_path: Path) -> None:
    assert models.resolve("mini-champion") == folder / "mini-champion.gguf" == models.pull("mini-champion")
    champion = models.load_model("mini-champion", threads=1)
    assert models.load_draft("mini-draft", champion, threads=1).file.path == folder / "mini-draft.gguf"
    assert type(models.load_draft(feature(folder), champion).engine).__name__ == "FeatureEngine"
    assert {"mini-champion", "mini-draft", "smollm2-draft"} <= set(models.names())


def test_the_real_folder_is_the_package_s_own() -> None:
    folder = bundled_models.bundled_folder()
    assert folder.parent.joinpath("golden").is_dir() and folder.name == "models"


def test_a_file_that_is_not_there_is_one_clear_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "inspect", "smollm2-draft"]) == 2
    assert capsys.readouterr().err == (
        "draftgate: model smollm2-draft comes with draftgate, but this installation lacks it; install draftgate again\n"
    )


@pytest.mark.parametrize("damage", ["file", "receipt", "no receipt"])
def test_a_bundled_file_that_is_not_its_receipt_s_is_not_loaded(
    folder: Path, damage: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    champion, draft = models.load_model("mini-champion"), folder / "mini-draft.gguf"
    if damage == "file":
        write_model(draft, dataclasses.replace(SPEAKING, seed=3))
    elif damage == "receipt":
        document(folder / "mini-champion.gguf", "champion")
        receipt_path(folder / "mini-champion.gguf").rename(receipt_path(draft))
    else:
        receipt_path(draft).unlink()
    with pytest.raises(IntegrityError, match="install draftgate again"):
        models.load_draft("mini-draft", champion)
    assert main(["generate", "--champion", str(folder / "mini-draft.gguf"), "--prompt", "x"]) == 5
    assert "mini-draft.gguf: " in capsys.readouterr().err
    elsewhere = tmp_path_factory.mktemp("own") / "mini-draft.gguf"
    elsewhere.write_bytes(draft.read_bytes())
    assert models.load_draft(elsewhere, champion).file.path == elsewhere, "a user's own file needs no receipt"


def test_a_feature_draft_of_another_tokenizer_is_refused(folder: Path) -> None:
    path = feature(folder, "0" * 64)
    with pytest.raises(ArmError, match="made for a tokenizer with sha256 000000000000"):
        models.load_draft(path, models.load_model("mini-champion"))


def test_list_and_inspect_say_what_is_bundled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = feature(folder)
    capsys.readouterr()
    assert main(["models", "list", "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    bundled = {r["name"]: r for r in rows if r["source"] == "bundled"}
    assert set(bundled) == {"mini-champion", "mini-draft", "smollm2-draft"}
    assert all(r["here"] and r["licence"] == "Apache-2.0" for r in bundled.values())
    assert main(["models", "inspect", "smollm2-draft"]) == 0
    told = capsys.readouterr().out
    assert f"draft of          the champion with sha256 {read(path).champion_sha256}" in told
    assert "usable            yes" in told and "of this file:" in told


def test_a_pair_is_tried_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", "--champion", "mini-champion", "--draft", "mini-draft", "--prompt", "the", "--json"]
    assert main([*words, "--max-new-tokens", "6"]) == 0
    assert json.loads(capsys.readouterr().out)["arm"] == "neural_draft"


def test_the_costs_of_a_draft_s_rounds_are_a_policy_as_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "--model", "mini-champion", "--draft", "mini-draft", "--k", "3", "--contexts", "40", "20"]
    assert main([*words, "--threads", "1", "--seconds", "0.02"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    policy = policy_of(printed["policy"], printed["k"])
    assert isinstance(policy, CostModel) and [c.context for c in policy.costs] == [20, 40]
    assert all(c.verify[0] == 1 and len(c.verify) == 4 for c in policy.costs)
    assert main([*words, "--threads", "1", "--seconds", "0.02", "--temperature", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for entry in found["costs"]:
        whole = [v + n * entry["draft"] for n, v in enumerate(entry["verify"])]
        assert whole == pytest.approx([us / entry["round_us"][0] for us in entry["round_us"]], abs=0.01)
    for bad in (["--threads", "1", "2"], ["--contexts", "1"], ["--contexts", "600"], ["--k", "0"]):
        with contextlib.suppress(SystemExit):
            assert main([*words, *bad]) == 2
        assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"format": "draftgate-training-receipt/9"}', "format 'draftgate-training-receipt/9'"),
        ('{"format": "draftgate-training-receipt/1", "kind": "x"}', "not a readable receipt"),
        (" " * 1_000_001, "never this large"),
        (None, "is missing: this file's training is not documented"),
    ],
)
def test_a_bad_receipt_is_refused_by_name(tmp_path: Path, content: str | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "d.receipt.json").write_text(content)
    with pytest.raises(ArmError, match=rf"d\.receipt\.json.*{problem}"):
        read(tmp_path / "d.gguf")
