"""Cut any file of a run at any byte: the same command brings back the same records and the same verdict."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness.journal import live_records
from draftgate.harness.ledger import read_ledger
from draftgate.harness.rundir import RunDir
from draftgate.harness.verify import verify_run

from .conftest import StopAfter, Toy, copy_run, make_toy, steady_machine

CUTS = 204
TINY = ("strata.prompts_per_stratum=1", "schedule.blocks=1", "sample_size.blocks=1", "schedule.max_new_tokens=4")


def outcome(folder: Path) -> tuple[list[str], Any]:
    bodies = [b["request_id"] for _, b in live_records(read_ledger(folder).records, "request")]
    verdict = json.loads((folder / "verdict.json").read_bytes())
    return sorted(bodies), verdict


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Toy, dict[str, Path]]:
    """A finished run, one stopped in the middle, and one stopped in the middle of a resumed unit of a stochastic
    plan."""
    folder = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        steady_machine(patch.setattr)
        toy = make_toy(folder, patch.setenv)
        found = {"finished": toy.whole("finished", *TINY)}
        for name, stops, words in (("middle", (3,), ()), ("sampled", (1, 2), ("decoding=sampled",))):
            toy.freeze(name, *TINY, *words)
            for stop in stops:
                with pytest.raises(KeyboardInterrupt):
                    toy.run(name, progress=StopAfter(stop))
            found[name] = folder / name
        found["sampled-finished"] = toy.whole("sampled-finished", *TINY, "decoding=sampled")
    return toy, found


def cuts(folder: Path, count: int, seed: int) -> list[tuple[Path, int]]:
    """Random bytes of every file, more of the larger ones, none left out."""
    rng = random.Random(seed)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in ("run.lock", "decision_card.json"))
    sizes = [p.stat().st_size for p in files]
    chosen = [(p, rng.randrange(size)) for p, size in zip(files, sizes, strict=True) if size]
    while len(chosen) < count:
        path = rng.choices(files, [1 + size**0.5 for size in sizes])[0]
        if path.stat().st_size:
            chosen.append((path, rng.randrange(path.stat().st_size)))
    return [(p.relative_to(folder), at) for p, at in chosen]


@pytest.mark.parametrize("state", ["finished", "middle", "sampled"])
def test_cut_anywhere_and_run_again(
    states: tuple[Toy, dict[str, Path]], state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady_machine(monkeypatch.setattr)
    toy, folders = states
    make_toy(toy.folder, monkeypatch.setenv)
    reference = outcome(folders["sampled-finished" if state == "sampled" else "finished"])
    for number, (name, at) in enumerate(cuts(folders[state], CUTS // 3, seed=7)):
        folder = copy_run(folders[state], tmp_path / "cut")
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:at])
        execution = toy.execution()
        execution.run_dir = RunDir(folder)
        where = f"cut {number}: {name} at {at} of {len(data)}"
        execution.go()
        assert outcome(folder) == reference, where
        report = verify_run(folder, toy.services)
        assert report.ok and report.complete, (where, report.problems)
        kept = [p for p in (folder / "torn").glob("*")] if (folder / "torn").exists() else []
        assert all(p.stat().st_size for p in kept), where
