"""Streams that are closed, full or cut short, and paths that no disk takes: a sentence and a code, never a GO."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from draftgate.harness import cli

DRAFTGATE = f"{sys.executable} -c 'from draftgate.harness.cli import main; raise SystemExit(main())'"


def printing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(args: Any, services: Any) -> int:
        raise error

    module = SimpleNamespace(__doc__="", configure=lambda parser: None, run=run)
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: module)
    monkeypatch.setattr(cli.os, "dup2", lambda old, new: None)


@pytest.mark.parametrize(("command", "code"), [("gate", 6), ("sweep", 6), ("verify", 6), ("ci", 6), ("strata", 0)])
def test_a_reader_that_goes_away_never_makes_a_go(monkeypatch: pytest.MonkeyPatch, command: str, code: int) -> None:
    printing(monkeypatch, BrokenPipeError())
    assert cli.main([command]) == code
    by_rich = SystemExit(1)
    by_rich.__context__ = BrokenPipeError()
    printing(monkeypatch, by_rich)
    assert cli.main([command]) == code


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_traceback(tmp_path: Path, closed: str) -> None:
    line = f"{DRAFTGATE} gate {tmp_path / 'nowhere'} {closed}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_without_streams_there_are_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, None)
    cli._open_streams()
    assert sys.stdin.read() == "" and sys.stdout.write("x") == 1


def test_a_path_that_no_disk_takes_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "inspect", "x" * 5000]) == 2
    said = capsys.readouterr().err
    assert said.startswith("draftgate: ") and said.count("\n") == 1 and len(said) < 600
