"""A run goes on from wherever it stopped: nothing lost, nothing twice, and the same answers."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness import runner, session
from draftgate.harness.errors import DraftgateError, IncompleteRun, IntegrityError
from draftgate.harness.freeze import load_plan
from draftgate.harness.journal import live_records, read_line
from draftgate.harness.ledger import read_ledger
from draftgate.harness.lock import RunLock
from draftgate.harness.process import SubprocessExecutor
from draftgate.harness.rundir import RunDir
from draftgate.harness.schedule import Schedule
from draftgate.harness.store import read_table
from draftgate.harness.verify import verify_run

from .conftest import FakeClock, StopAfter, Toy, copy_run
from .recorded import deviations, keys, scheduled, verdict


def test_every_scheduled_request_is_recorded_once_and_bound(toy: Toy) -> None:
    folder = toy.whole()
    assert keys(folder) == scheduled(folder)
    frame = read_table(folder, "requests")
    assert sorted(frame["request_id"]) == scheduled(folder)
    rounds = read_table(folder, "rounds").groupby("request_id")["accepted"].sum()
    assert frame.set_index("request_id")["accepted"].to_dict() == rounds.to_dict()
    assert set(frame["entry"]) == {"cold", "warm"}
    assert not deviations(folder)
    report = verify_run(folder, toy.services)
    assert report.ok and report.complete, report.problems


@pytest.mark.parametrize("edited", [b'{"verdict": "NO-GO"}', b"", b"\xff"])
def test_an_edited_verdict_is_told_set_aside_and_the_recorded_one_restored(
    toy: Toy, finished: Path, edited: bytes
) -> None:
    folder = copy_run(finished, toy.folder / "run")
    path, before = folder / "verdict.json", (folder / "ledger.jsonl").read_bytes()
    whole = path.read_bytes()
    assert toy.run().notes == () and path.read_bytes() == whole
    path.write_bytes(edited)
    (note,) = toy.run().notes
    assert "edited or damaged" in note and "verdict.replaced.json" in note
    assert (folder / "verdict.replaced.json").read_bytes() == edited and path.read_bytes() == whole
    assert (folder / "ledger.jsonl").read_bytes() == before and verify_run(folder, toy.services).ok


def test_warmups_are_marked_and_never_among_the_requests(toy: Toy) -> None:
    folder = toy.whole()
    warm = read_table(folder, "warmups")
    units = len(Schedule(load_plan(folder)).units)
    assert len(warm) == units * 2
    assert not set(warm["request_id"]) & set(read_table(folder, "requests")["request_id"])


def test_greedy_outputs_have_equal_digests_on_every_arm_and_the_digest_is_salted(toy: Toy) -> None:
    folder = toy.whole()
    frame = read_table(folder, "requests")
    assert (frame.groupby(["stratum", "prompt_id", "block", "turn"])["output_digest"].nunique() == 1).all()
    again = toy.folder / "again"
    toy.freeze("again")
    toy.run("again")
    assert not set(frame["output_digest"]) & set(read_table(again, "requests")["output_digest"])


@pytest.mark.parametrize("requests", [1, 2, 7, 19])
def test_an_interrupted_run_ends_like_one_that_was_not(toy: Toy, requests: int) -> None:
    reference = toy.whole("reference")
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(requests))
    assert len(keys(toy.folder / "run")) == requests
    toy.run()
    folder = toy.folder / "run"
    assert keys(folder) == keys(reference) and verdict(folder) == verdict(reference)
    report = verify_run(folder, toy.services)
    assert report.ok and report.complete, report.problems


def test_a_unit_resumed_in_the_middle_is_a_new_segment_with_its_own_warmup(toy: Toy) -> None:
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(2))
    toy.run()
    folder = toy.folder / "run"
    assert "resumed" in deviations(folder)
    frame = read_table(folder, "requests")
    first = Schedule(load_plan(folder)).units[0]
    assert set(frame[frame["unit"] == first.id]["segment"]) == {0, 1}
    assert set(read_table(folder, "warmups")["segment"]) == {0, 1}


def test_a_run_that_is_not_what_was_frozen_moves_no_bytes_even_without_its_ledger(toy: Toy) -> None:
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(3))
    folder = toy.folder / "run"
    (folder / "ledger.jsonl").unlink()
    kept = {p: p.read_bytes() for p in folder.rglob("*") if p.parent.name in ("parts", "private")}
    was = toy.champion.read_bytes()
    toy.champion.write_text('{"seed": 2}')
    with pytest.raises(IntegrityError, match="champion"):
        toy.run()
    assert kept == {p: p.read_bytes() for p in kept} and not (folder / "torn").exists()
    toy.champion.write_bytes(was)
    toy.run()
    assert (folder / "torn").is_dir() and "torn_tail" in deviations(folder) and keys(folder) == scheduled(folder)


def test_running_a_complete_run_again_changes_nothing(toy: Toy) -> None:
    folder = toy.whole()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    toy.run()
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_stochastic_plans_time_the_champion_on_the_candidates_own_tokens(toy: Toy) -> None:
    folder = toy.whole("run", "decoding=sampled", "arms=lookup_controlled")
    frame = read_table(folder, "requests")
    champions = frame[frame["arm"] != "prompt_lookup"]
    assert champions["forced"].all() and not frame[frame["arm"] == "prompt_lookup"]["forced"].any()
    assert (frame.groupby(["stratum", "prompt_id", "block", "turn", "entry"])["output_digest"].nunique() == 1).all()
    realised = [b for _, b in live_records(read_ledger(folder).records, "realised")]
    assert len(realised) == len(frame[(frame["arm"] == "prompt_lookup") & (frame["entry"] == "warm")])
    report = verify_run(folder, toy.services)
    assert report.ok, report.problems


def test_later_turns_continue_from_the_answer_even_after_an_interruption(toy: Toy, tmp_path: Path) -> None:
    source = tmp_path / "talk.jsonl"
    source.write_text(json.dumps({"id": "t", "turns": ["one", "two", "three"]}) + "\n")
    words = ("++strata.entries={talk: {weight: 1.0, designated: false, source: '" + str(source) + "'}}",)
    toy.freeze("run", *words)
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(3))
    toy.run()
    folder = toy.folder / "run"
    bodies = {b["request_id"]: b for _, b in live_records(read_ledger(folder).records, "request")}
    for turn in (1, 2):
        line = read_line(RunDir(folder), bodies[f"prompt_lookup/talk/t/b0/t{turn}/warm"], private=True)
        before = read_line(RunDir(folder), bodies[f"prompt_lookup/talk/t/b0/t{turn - 1}/warm"], private=True)
        start = [*before["prompt"], *before["output"]]
        assert line["prompt"][: len(start)] == start and len(line["prompt"]) > len(start)


def test_a_second_runner_is_refused_and_the_first_goes_on(toy: Toy) -> None:
    toy.freeze()
    run_dir = RunDir(toy.folder / "run")
    with RunLock(run_dir), pytest.raises(DraftgateError, match=f"process {os.getpid()}"):
        toy.run()
    assert not run_dir.ledger.exists()
    toy.run()
    assert keys(run_dir.path) == scheduled(run_dir.path)


def test_a_disk_that_fills_up_in_the_middle_loses_nothing(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = toy.whole("reference")
    toy.freeze()
    real, room = os.write, 20_000

    def write(handle: int, data: Any) -> int:
        nonlocal room
        if len(data) > room:
            real(handle, bytes(data)[:room])
            room = 0
            raise OSError(errno.ENOSPC, "No space left on device")
        room -= len(data)
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(IncompleteRun, match="disk is full"):
        toy.run()
    monkeypatch.setattr(os, "write", real)
    recorded = len(keys(toy.folder / "run"))
    assert 0 < recorded < len(scheduled(reference))
    toy.run()
    assert keys(toy.folder / "run") == keys(reference)
    assert verdict(toy.folder / "run") == verdict(reference)


def test_a_read_only_directory_is_named(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.freeze()

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DraftgateError, match="not writable") as caught:
        toy.run()
    assert caught.value.exit_code == 2


def test_a_clock_that_runs_backwards_in_a_request_stops_before_it_is_recorded(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.freeze()
    real, count = session.time.monotonic_ns, 0

    def backwards() -> int:
        nonlocal count
        count += 1
        return real() - (count * 10**9 if count > 60 else 0)

    monkeypatch.setattr(session.time, "monotonic_ns", backwards)
    with pytest.raises(IncompleteRun, match="clock ran backwards"):
        toy.run()
    monkeypatch.undo()


def test_a_wall_clock_behind_the_record_is_a_deviation_and_no_more(toy: Toy) -> None:
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(3), clock=FakeClock(1_700_000_000))
    toy.run(clock=FakeClock(1_600_000_000))
    assert "clock" in deviations(toy.folder / "run")


def test_audits_and_their_tables_are_recorded_once(toy: Toy) -> None:
    row = {
        "request_id": "x", "arm": "a", "stratum": "s", "prompt_id": "p", "family_id": "f", "block": 0, "turn": 0,
        "entry": "warm", "position": 0, "pit_ratio": 0.5, "pit_id": 0.5, "in_excess": False, "excess_mass": 0.1,
        "tv": 0.2,
    }  # fmt: skip
    toy.services.bodies = [
        {"name": "replay", "ok": True, "n": 3, "detail": {}},
        {"name": "law", "ok": True, "n": 1, "detail": {}, "tables": {"scores": [row]}},
    ]
    folder = toy.whole()
    toy.run()
    names = [r.body["name"] for r in read_ledger(folder).records.of_kind("audit")]
    assert names.count("replay") == 1 and names.count("law") == 1
    assert list(read_table(folder, "scores")["pit_ratio"]) == [0.5]
    report = verify_run(folder, toy.services)
    assert report.ok, report.problems


def test_the_subprocess_worker_gives_what_the_inline_one_gives(toy: Toy) -> None:
    words = ("strata.prompts_per_stratum=1", "schedule.canaries=0", "schedule.blocks=1", "sample_size.blocks=1")
    inline = toy.whole("inline", *words)
    toy.executor = SubprocessExecutor()
    apart = toy.whole("apart", *words)
    columns = ["request_id", "new_tokens", "total_ns", "rounds", "accepted", "seed"]
    frames = [read_table(f, "requests")[columns].sort_values("request_id").to_dict("records") for f in (inline, apart)]
    assert frames[0] == frames[1]


def test_exclusions_look_at_the_machine_and_drop_the_pair_on_every_arm(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def probe() -> int:
        nonlocal calls
        calls += 1
        return 50_000 if calls == 12 else 1000

    monkeypatch.setattr(session, "probe", probe)
    folder = toy.whole()
    frame = read_table(folder, "requests")
    dropped = frame[frame["excluded"] != ""]
    assert set(dropped["excluded"]) <= {"probe"}
    pair = ["stratum", "prompt_id", "block", "turn", "entry"]
    assert len(dropped) == len(Schedule(load_plan(folder)).arms) * len(dropped[pair].drop_duplicates())


def test_runner_module_reads_no_clock_of_its_own() -> None:
    source = Path(runner.__file__).read_text()
    assert "time.time" not in source and "datetime" not in source
