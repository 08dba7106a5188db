"""A toy experiment: real plans, freeze, ledger and tables over a toy engine, with time that stands where it is put."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from draftgate.harness import bound, execute, machine, runner, session
from draftgate.harness import freeze as freeze_module
from draftgate.harness.execute import Execution, RunOutcome
from draftgate.harness.freeze import FreezeOptions, FrozenPlan, freeze
from draftgate.harness.plan import ComposedPlan, compose_plan
from draftgate.harness.process import Executor, InlineExecutor
from draftgate.harness.rundir import RunDir
from draftgate.harness.runner import RunOptions
from draftgate.harness.store import read_table

BACKEND = "support.toy_run"
TESTS = Path(__file__).parent.parent
PLAN = Path(__file__).parent / "toy_plan.yaml"


@lru_cache(maxsize=64)
def _composed(words: tuple[str, ...], champion: str) -> ComposedPlan:
    return compose_plan(words, plan_file=PLAN, champion=champion)


class FakeClock:
    """Wall time moves a second a reading; monotonic time a microsecond."""

    def __init__(self, wall_s: int = 1_700_000_000) -> None:
        self.wall, self.ticks = wall_s * 10**9, 0

    def wall_ns(self) -> int:
        self.wall += 10**9
        return self.wall

    def monotonic_ns(self) -> int:
        self.ticks += 1000
        return self.ticks

    def sleep(self, seconds: float) -> None:
        return None


class Services:
    """Verdict from the tables by a digest, so that any difference in them shows; no card, no audits, no reports."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def validate_gates(self, gates: list[dict[str, Any]]) -> list[str]:
        return []

    def decision_card(self, plan: dict[str, Any]) -> dict[str, Any]:
        return {"format": "draftgate-card/1", "note": "toy", "truths": []}

    def audits(self, run_dir: Path, load_model: Any) -> Iterator[dict[str, Any]]:
        yield from self.bodies

    def judge(self, run_dir: Path) -> Any:
        frame = read_table(run_dir, "requests").sort_values("request_id", ignore_index=True)
        columns = [
            "request_id",
            "new_tokens",
            "finish_reason",
            "total_ns",
            "rounds",
            "proposed",
            "accepted",
            "excluded",
        ]
        rounds = read_table(run_dir, "rounds").sort_values(["request_id", "round"], ignore_index=True)
        text = frame[columns].to_json() + rounds[["request_id", "round", "proposed", "accepted", "total_ns"]].to_json()
        gates = [{"id": "toy", "status": "pass", "estimate": float(frame["total_ns"].sum()), "n": len(frame)}]
        return SimpleNamespace(verdict="GO", text=text, gates=gates, exit_code=0, reasons=(), exploratory=False)

    def write_verdict(self, run_dir: Path, verdict: Any) -> Path:
        path = Path(run_dir) / "verdict.json"
        value = {"verdict": verdict.verdict, "plan_id": "toy", "gates": verdict.gates, "text": verdict.text}
        path.write_text(json.dumps(value))
        return path

    def write_reports(self, run_dir: Path, verdict: Any) -> list[Path]:
        return []

    def print_verdict(self, verdict: Any) -> None:
        print(verdict.verdict)

    def replay(self, run_dir: Path) -> Any:
        return {"name": "replay", "ok": True, "n": 1}


@dataclass
class Toy:
    """One folder of toy experiments."""

    folder: Path
    services: Services = field(default_factory=Services)
    executor: Executor = field(default_factory=InlineExecutor)

    @property
    def champion(self) -> Path:
        return self.folder / "champion.json"

    def freeze(self, name: str = "run", *words: str, **options: Any) -> FrozenPlan:
        composed = copy.deepcopy(_composed(words, str(self.champion)))
        return freeze(composed, self.folder / name, self.services, FreezeOptions(BACKEND, self.executor, **options))

    def execution(self, name: str = "run", **options: Any) -> Execution:
        given = {"backend": BACKEND, "executor": self.executor, "clock": FakeClock()} | options
        return Execution(RunDir(self.folder / name), self.services, RunOptions(**given))

    def run(self, name: str = "run", **options: Any) -> RunOutcome:
        return self.execution(name, **options).go()

    def whole(self, name: str = "run", *words: str) -> Path:
        self.freeze(name, *words)
        self.run(name)
        return self.folder / name


def copy_run(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


class StopAfter:
    """A progress that interrupts the run after so many requests."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def begin(self, total: int, done: int) -> None: ...

    def note(self, text: str) -> None: ...

    def advance(self, item: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def steady_machine(patch: Callable[[Any, str, Any], None]) -> None:
    """Probe, state and bandwidth of the machine as constants: what the tests compare must not depend on them."""
    patch(session, "probe", lambda: 1000)
    patch(session, "steal_ticks", lambda: 0)
    for module in (execute, runner):
        patch(module, "machine_state", lambda: {"governor": None})
    for module in (freeze_module, bound):
        patch(module, "source_digest", lambda: "5" * 64)  # a test that runs while somebody edits the package
    patch(execute, "memory_bandwidth", lambda threads: None)
    patch(machine, "memory_bandwidth", lambda threads: None)


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed loses nothing it has written, so waiting for the disk proves nothing in a test."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    steady_machine(monkeypatch.setattr)
    return make_toy(tmp_path, monkeypatch.setenv)


def make_toy(folder: Path, setenv: Callable[[str, str], None]) -> Toy:
    (folder / "champion.json").write_text('{"seed": 1}')
    setenv("DRAFTGATE_TOY_MODELS", str(folder))
    setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    return Toy(folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete toy run, shared: copy it before touching it."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        steady_machine(patch.setattr)
        return make_toy(folder, patch.setenv).whole()
