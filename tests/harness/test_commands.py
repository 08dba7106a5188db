"""The commands as a user types them: what they print, where, and with which exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness import backend, cli
from draftgate.harness.process import InlineExecutor, SubprocessExecutor
from support import toy_run

from .conftest import PLAN, Services, Toy, copy_run


@pytest.fixture
def typed(toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """``typed("freeze", …)`` → (exit code, stdout, stderr), over toy models."""
    for name in ("resolve", "pull", "load_model", "load_draft", "build_arm"):
        monkeypatch.setattr(backend, name, getattr(toy_run, name))
    monkeypatch.setattr(SubprocessExecutor, "start", InlineExecutor.start)
    monkeypatch.setattr(cli, "Services", Services)

    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main([str(w) for w in words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def froze(typed: Any, toy: Toy, name: str = "run", *words: str) -> Path:
    code, out, _ = typed("freeze", "--plan", PLAN, "--champion", toy.champion, "--out", toy.folder / name, *words)
    assert code == 0 and out.startswith("plan ")
    return toy.folder / name


def test_freeze_check_run_verify_amend_and_lint(typed: Any, toy: Toy) -> None:
    folder = froze(typed, toy)
    code, out, _ = typed("check", folder, "--json")
    said = json.loads(out)
    assert code == 0 and said["recorded"] == 0 and said["estimate"]["seconds"] > 0
    code, out, err = typed("run", folder)
    assert code == 0 and out.startswith(f"complete: {said['requests']} requests") and err == ""
    code, out, _ = typed("check", folder)
    assert code == 0 and f"{said['requests']} recorded" in out and "→" in out
    assert re.search(r"about \d+ s at most for all of it: \d+ processes", out) and "0 min" not in out
    code, out, _ = typed("verify", folder, "--replay")
    assert code == 0 and out.rstrip().endswith("honest")
    code, out, _ = typed(
        "amend", folder, "--plan", PLAN, "--champion", toy.champion, "--out", toy.folder / "next",
        "--reason", "a lower bar", "gates.speedup.params.minimum=1.1",
    )  # fmt: skip
    assert code == 0 and "exploratory" in out
    assert typed("lint-plan", folder, toy.folder / "next")[0] == 0
    silent = froze(typed, toy, "silent", "gates.speedup.params.minimum=1.1")
    code, out, _ = typed("lint-plan", folder, silent)
    assert code == 5 and "without a reason" in out
    assert typed("lint-plan", folder, silent, "--reason", "said here")[0] == 0


def test_sweep_prints_the_verdict_and_the_same_command_again_changes_nothing(typed: Any, toy: Toy) -> None:
    words = ("sweep", "--plan", PLAN, "--champion", toy.champion, "--out", toy.folder / "s")
    code, out, err = typed(*words)
    assert (code, out) == (0, "GO\n") and err.startswith("plan ")
    ledger = (toy.folder / "s" / "ledger.jsonl").read_bytes()
    code, out, _ = typed(*words)
    assert (code, out) == (0, "GO\n") and (toy.folder / "s" / "ledger.jsonl").read_bytes() == ledger
    code, _, err = typed(*words, "alpha=0.02")
    assert code == 2 and "another frozen plan" in err


def test_verify_says_what_is_wrong_and_exits_5(typed: Any, finished: Path, tmp_path: Path) -> None:
    folder = copy_run(finished, tmp_path / "run")
    data = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(data.replace(b'"new_tokens":6', b'"new_tokens":5', 1))
    code, out, _ = typed("verify", folder)
    assert code == 5 and "PROBLEM: ledger" in out and out.rstrip().endswith("NOT VERIFIED")
    code, out, _ = typed("verify", folder, "--json")
    assert code == 5 and json.loads(out)["ok"] is False


def test_verify_of_a_run_that_has_not_ended_is_6(typed: Any, toy: Toy) -> None:
    assert typed("verify", froze(typed, toy))[0] == 6


def test_init_writes_a_plan_that_freezes_and_never_overwrites(typed: Any, toy: Toy) -> None:
    file = toy.folder / "plan.yaml"
    assert typed("init", file)[0] == 0
    words = ("freeze", "--plan", file, "--champion", toy.champion, "--out", toy.folder / "mine")
    assert typed(*words, "strata.prompts_per_stratum=1", "measurement.cold_loads=0")[0] == 0
    before = file.read_bytes()
    code, _, err = typed("init", file)
    assert code == 2 and "nothing was changed" in err and file.read_bytes() == before


def test_doctor_says_not_measured_and_never_zero(typed: Any) -> None:
    code, out, _ = typed("doctor", "--json")
    said = json.loads(out)
    assert code == 0 and said["measures"]["resident memory"] is True
    assert all(isinstance(value, bool) for value in said["measures"].values())
    code, out, _ = typed("doctor")
    assert code == 0 and ("not-measured" in out) == (not all(said["measures"].values()))


BAD = (
    (("run", "nowhere"), 2, "no plan"),
    (("verify", "nowhere"), 2, "no plan"),
    (("check", "nowhere"), 2, "no plan"),
    (("freeze", "plan=nowhere", "--out", "x"), 2, "no such plan"),
    (("freeze", "--plan", "nowhere.yaml", "--out", "x"), 2, "no such plan file"),
    (("freeze", "--champion", "nowhere.gguf", "--out", "x"), 2, "no toy model"),
    (("lint-plan", "nowhere", "nowhere"), 2, "neither"),
    (("freeze", "+schedule.bogus=1", "--out", "x"), 2, "bogus"),
)


@pytest.mark.parametrize(("words", "code", "said"), BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    found, out, err = typed(*words)
    assert found == code and out == "" and said in err and err.startswith("draftgate: ")
    assert "Traceback" not in err and sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_the_front_door_is_light(word: str) -> None:
    """No import of what takes a second; the ratio to an empty Python is what is asserted."""
    script = f"import sys; sys.argv = ['draftgate', {word!r}]\nfrom draftgate.harness.cli import main\ntry: main()\n"
    script += "except SystemExit: pass\nheavy = {'numpy', 'pandas', 'pyarrow', 'hydra', 'omegaconf', 'scipy', 'rich'}\n"
    script += "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_a_worker_imports_no_table_and_no_statistics() -> None:
    script = "import sys\nimport draftgate.harness.worker\n"
    script += (
        "heavy = {'pandas', 'pyarrow', 'hydra', 'omegaconf', 'scipy', 'statsmodels', 'matplotlib', 'rich', 'psutil'}\n"
    )
    script += "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    before = time.perf_counter()
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
    assert time.perf_counter() - before < 60


def test_a_real_sweep_end_to_end(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stratum, two prompts, on the real model in real workers: a verdict, a report, and a run that verifies."""
    audits = cli.Services.audits
    first_two = lambda self, run_dir, load: islice(audits(self, run_dir, load), 2)  # noqa: E731  the others have tests
    monkeypatch.setattr(cli.Services, "audits", first_two)
    out = tmp_path / "real"
    plan = tmp_path / "real.yaml"
    text = (
        PLAN.read_text()
        .replace("name: toy", "name: real")
        .replace("shadow_k: 0", "shadow_k: 4, shadow_rounds_per_request: 2")
    )
    plan.write_text(text.replace("    casual_chat: {weight: 1.0, designated: false, source: casual_chat}\n", ""))
    words = ["--plan", str(plan), "schedule.blocks=1", "sample_size.blocks=1", "schedule.max_new_tokens=12",
             "schedule.canaries=0", "--champion", str(smollm2)]  # fmt: skip
    code = cli.main(["sweep", *words, "--out", str(out)])
    printed = capsys.readouterr().out
    assert code == 4 and "INCONCLUSIVE" in printed
    assert (out / "report.html").stat().st_size > 10_000
    assert cli.main(["verify", str(out)]) == 0
    from draftgate.harness.store import read_table

    frame = read_table(out, "requests")
    phases = read_table(out, "rounds").groupby("request_id")["total_ns"].sum()
    whole = frame.set_index("request_id")
    parts = phases + whole["prefill_ns"] + whole["draft_prefill_ns"] + whole["finalise_ns"]
    assert ((parts - whole["total_ns"]).abs() / whole["total_ns"]).max() < 0.02
    assert (frame.groupby(["prompt_id", "turn"])["output_digest"].nunique() == 1).all()
    assert set(read_table(out, "memory")["phase"]) >= {"load_champion", "warmup", "request", "end"}
    assert len(read_table(out, "shadow")) > 0
