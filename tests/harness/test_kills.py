"""Real processes, really killed: the parent at any moment, a worker under it, and Ctrl-C."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from draftgate.harness.ledger import read_ledger
from draftgate.harness.verify import verify_run

from .conftest import Services, Toy
from .recorded import keys, verdict

KILLS = 20
RUN = """
import os, sys
sys.path.insert(0, {tests!r})
import pytest
from tests_harness_conftest import FakeClock, Services, steady_machine
from draftgate.harness.execute import Execution
from draftgate.harness.process import {executor}
from draftgate.harness.rundir import RunDir
from draftgate.harness.runner import RunOptions
steady_machine(pytest.MonkeyPatch().setattr)
options = RunOptions(backend="support.toy_run", executor={executor}(), clock=FakeClock())
Execution(RunDir({folder!r}), Services(), options).go()
"""


def command(tmp_path: Path, folder: Path, executor: str = "InlineExecutor") -> list[str]:
    """A Python that runs the directory; it finds this folder's conftest under another name."""
    link = tmp_path / "tests_harness_conftest.py"
    if not link.exists():
        link.symlink_to(Path(__file__).parent / "conftest.py")
    return [sys.executable, "-c", RUN.format(tests=str(tmp_path), folder=str(folder), executor=executor)]


def outcome(folder: Path) -> tuple[list[str], object]:
    return keys(folder), verdict(folder)


def test_killed_twenty_times_it_ends_with_the_same_records_and_verdict(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = outcome(toy.whole("reference"))
    toy.freeze()
    folder, rng = toy.folder / "run", random.Random(3)
    monkeypatch.setenv("DRAFTGATE_TOY_SLEEP_MS", "25")
    landed = 0
    for _ in range(4 * KILLS):
        before = (folder / "ledger.jsonl").stat().st_size if (folder / "ledger.jsonl").exists() else 0
        process = subprocess.Popen(command(tmp_path, folder), stderr=subprocess.DEVNULL)
        # wait until it works, so that the kill lands in the work and not in the imports
        for _ in range(2000):
            there = (folder / "ledger.jsonl").stat().st_size if (folder / "ledger.jsonl").exists() else 0
            if there > before or process.poll() is not None:
                break
            time.sleep(0.005)
        time.sleep(rng.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        landed += process.wait() == -signal.SIGKILL
        if landed == KILLS or process.returncode == 0:
            break
    monkeypatch.setenv("DRAFTGATE_TOY_SLEEP_MS", "0")
    assert landed >= KILLS, f"only {landed} kills landed before the run ended"
    toy.run()
    assert outcome(folder) == reference
    report = verify_run(folder, Services())
    assert report.ok and report.complete, report.problems


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _until(condition: object, seconds: float = 30.0) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_worker_does_not_outlive_its_parent(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    toy.freeze()
    folder = toy.folder / "run"
    monkeypatch.setenv("DRAFTGATE_TOY_SLEEP_MS", "20000")
    process = subprocess.Popen(
        command(tmp_path, folder, "SubprocessExecutor"),
        stderr=subprocess.DEVNULL,
        # A shell that starts the tests in the background has them, and so this process, ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert _until((folder / "ledger.jsonl").exists)
        assert _until(lambda: bool(_children(process.pid)))
        time.sleep(0.5)
        workers = _children(process.pid)
        assert workers
        process.send_signal(how)
        process.wait(timeout=20)
        assert _until(lambda: all(_gone(pid) for pid in workers), 15)
    finally:
        process.kill()
        process.wait()
    monkeypatch.setenv("DRAFTGATE_TOY_SLEEP_MS", "0")
    toy.run()
    assert verify_run(folder, Services()).ok


def test_a_killed_worker_is_replaced(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.freeze()
    folder = toy.folder / "run"
    monkeypatch.setenv("DRAFTGATE_TOY_SLEEP_MS", "30")
    process = subprocess.Popen(command(tmp_path, folder, "SubprocessExecutor"), stderr=subprocess.DEVNULL)
    try:
        assert _until(lambda: (folder / "parts" / "00000.jsonl").exists())
        assert _until(lambda: bool(_children(process.pid)))
        for pid in _children(process.pid):
            os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()
    kinds = [r.body["kind"] for r in read_ledger(folder).records.of_kind("deviation")]
    assert "retry" in kinds
    assert verify_run(folder, Services()).ok
