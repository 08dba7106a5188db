"""One small made-up run and its reports, shared by the tests that only read them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from draftgate.gates.result import Verdict
from draftgate.reports.records import RunRecords, load_records
from draftgate.reports.write import write_reports
from support.synthetic_run import SyntheticRun, synthetic_run

FEW = ("casual_chat", "structured_json", "adversarial")


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return synthetic_run(tmp_path_factory.mktemp("run") / "first", strata=FEW, prompts=13, blocks=2, tokens=16)


@pytest.fixture(scope="session")
def records(shared_run: SyntheticRun) -> RunRecords:
    return load_records(shared_run.path)


@pytest.fixture(scope="session")
def written(shared_run: SyntheticRun) -> dict[str, Path]:
    return {p.name: p for p in write_reports(shared_run.path, shared_run.verdict)}


@pytest.fixture
def own_run(shared_run: SyntheticRun, tmp_path: Path) -> Iterator[SyntheticRun]:
    """A copy that a test may spoil."""
    path = tmp_path / "copy"
    shutil.copytree(
        shared_run.path,
        path,
        ignore=shutil.ignore_patterns("report.*", "figures", "junit.xml", "*.md", "attestation.*"),
    )
    yield SyntheticRun(path, shared_run.plan, shared_run.plan_id, shared_run.verdict, shared_run.rows)


class FakeServices:
    """The command line's services, with the verdict given."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.printed: list[Verdict] = []

    def judge(self, run_dir: Path) -> Verdict:
        return self.verdict

    def write_reports(self, run_dir: Path, verdict: Verdict) -> list[Path]:
        return write_reports(run_dir, verdict)

    def print_verdict(self, verdict: Verdict, file: Any = None) -> None:
        self.printed.append(verdict)


@pytest.fixture
def services(shared_run: SyntheticRun) -> FakeServices:
    return FakeServices(shared_run.verdict)
