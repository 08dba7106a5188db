"""Arms side by side or one after the other: who answers when, what a death costs, what fits in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from draftgate.harness import room
from draftgate.harness.errors import IncompleteRun, PlanError
from draftgate.harness.freeze import load_plan
from draftgate.harness.journal import live_records
from draftgate.harness.ledger import read_ledger
from draftgate.harness.process import InlineExecutor, WorkerDied
from draftgate.harness.schedule import Schedule
from draftgate.harness.store import read_table
from draftgate.harness.verify import verify_run

from .conftest import StopAfter, Toy
from .recorded import deviations, keys, scheduled, verdict


class Dying(InlineExecutor):
    """Workers of which a few die in the middle of a request, after so many requests have been answered."""

    def __init__(self, deaths: int, after: int = 0, phase: str = "request") -> None:
        self.deaths, self.after, self.phase = deaths, after, phase

    def start(self) -> Any:
        outer = self

        class Manager:
            def __enter__(self) -> Any:
                self.inner = InlineExecutor.start(outer)
                worker = self.inner.__enter__()
                ask = worker.ask

                def dying(message: dict[str, Any]) -> dict[str, Any]:
                    if message["type"] == "generate" and message["phase"] == outer.phase and outer.deaths > 0:
                        outer.after -= 1
                        if outer.after < 0:
                            outer.deaths -= 1
                            raise WorkerDied("a worker process ended with status -9")
                    return ask(message)

                worker.ask = dying
                return worker

            def __exit__(self, *error: Any) -> None:
                self.inner.__exit__(None, None, None)

        return Manager()


@pytest.mark.parametrize("order", ["interleaved", "williams"])
def test_a_worker_that_dies_is_tried_again_with_its_own_warm_up_and_that_is_on_record(toy: Toy, order: str) -> None:
    toy.freeze("run", f"schedule.order={order}")
    toy.run(executor=Dying(2, after=1))
    folder = toy.folder / "run"
    assert deviations(folder) == ["retry", "resumed"] * 2
    assert keys(folder) == scheduled(folder)
    warm, asked = read_table(folder, "warmups"), read_table(folder, "requests")
    timed = asked[asked["entry"] == "warm"].groupby(["unit", "segment", "arm"]).size().index
    assert set(timed) <= set(warm.groupby(["unit", "segment", "arm"]).size().index)


def test_a_death_while_texts_are_drawn_is_tried_again_as_any_other(toy: Toy) -> None:
    toy.freeze("run", "decoding=sampled", "schedule.canaries=0")
    toy.run(executor=Dying(2, after=1, phase="warmup"))  # no stratum has been timed yet: they draw
    folder = toy.folder / "run"
    assert deviations(folder) == ["retry", "resumed"] * 2 and keys(folder) == scheduled(folder)
    drawn = [b["request_id"] for _, b in live_records(read_ledger(folder).records, "realised")]
    assert len(drawn) == len(set(drawn)) > 0


@pytest.mark.parametrize("after", [0, 3], ids=["first request", "in the middle of a turn"])
def test_in_an_interleaved_unit_a_death_begins_a_new_segment_for_every_arm(toy: Toy, after: int) -> None:
    toy.freeze()
    toy.run(executor=Dying(1, after))
    folder = toy.folder / "run"
    assert deviations(folder) == ["retry", "resumed"] and keys(folder) == scheduled(folder)
    records = read_ledger(folder).records
    (retry,) = [r.body for r in records.of_kind("deviation") if r.body["kind"] == "retry"]
    first = Schedule(load_plan(folder)).units[0]
    assert retry["unit"] == first.id and f"/{first.stratum}/" in retry["reason"], "it says during which request"
    assert "arm" not in retry
    ended = [b["process_id"] for _, b in live_records(records, "process") if b["unit"] == first.id]
    assert sorted(ended) == sorted(f"{first.id}/{arm}#1" for arm in first.order)
    warm = read_table(folder, "warmups")
    assert set(warm[(warm["unit"] == first.id) & (warm["segment"] == 1)]["arm"]) == set(first.order)
    report = verify_run(folder, toy.services)
    assert report.ok and report.complete, report.problems


@pytest.mark.parametrize("order", ["interleaved", "williams"])
def test_arms_take_turns_or_follow_each_other_as_the_plan_says(toy: Toy, order: str) -> None:
    folder = toy.whole("run", f"schedule.order={order}")
    schedule = Schedule(load_plan(folder))
    rows = [b for _, b in live_records(read_ledger(folder).records, "request")]
    for unit in schedule.units:
        warm = [b for b in rows if b["unit"] == unit.id and b["entry"] == "warm"]
        places = [(b["prompt_id"], b["turn"]) for b in warm]
        if order == "interleaved":
            n = len(unit.order)
            answered = [warm[i : i + n] for i in range(0, len(warm), n)]
            for number, same in enumerate(answered):
                assert len({(b["prompt_id"], b["turn"]) for b in same}) == 1
                assert tuple(b["arm"] for b in same) == schedule.turns(unit, number)
                assert [b["order"] for b in same] == list(range(n))
            assert len(answered) == len(set(places)) > 1
        else:
            runs = [b["arm"] for i, b in enumerate(warm) if i == 0 or warm[i - 1]["arm"] != b["arm"]]
            assert tuple(runs) == unit.order
            assert all(b["order"] == unit.order.index(b["arm"]) for b in warm)
        cold = [b for b in rows if b["unit"] == unit.id and b["entry"] == "cold"]
        assert tuple(b["arm"] for b in cold) == unit.order


def test_a_unit_that_does_not_fit_in_memory_side_by_side_is_refused_before_anything_is_written(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And runs where its processes follow each other."""
    toy.freeze()
    toy.freeze("apart", "schedule.order=williams")
    needed = room.needed_bytes(load_plan(toy.folder / "run"), {"champion": toy.champion, "draft": None})
    assert needed >= 2 * room.PROCESS_BYTES
    monkeypatch.setattr(room.psutil, "virtual_memory", lambda: SimpleNamespace(available=needed - 1))
    with pytest.raises(PlanError, match=r"schedule\.order=williams"):
        toy.run()
    assert not keys(toy.folder / "run") and not list((toy.folder / "run").glob("parts/*"))
    toy.run("apart")
    monkeypatch.setattr(room.psutil, "virtual_memory", lambda: SimpleNamespace(available=needed))
    toy.run()
    assert keys(toy.folder / "run") == scheduled(toy.folder / "run")


def test_memory_is_not_asked_of_a_run_that_starts_no_unit_any_more(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.freeze()
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(len(scheduled(toy.folder / "run"))))
    monkeypatch.setattr(room, "available_bytes", lambda: 0)
    toy.run()
    assert verdict(toy.folder / "run")["verdict"]


def test_a_container_has_its_own_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    monkeypatch.setattr(room, "CGROUP", tmp_path)
    assert room.available_bytes() == 1000
    (tmp_path / "memory.current").write_text("300\n")
    for limit, left in (("max", 1000), ("900", 600), ("5000", 1000), ("100", 0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert room.available_bytes() == left


def test_how_arms_are_ordered_changes_no_answer(toy: Toy, finished: Path) -> None:
    assert verdict(toy.whole("run", "schedule.order=williams")) == verdict(finished)


def test_a_worker_that_keeps_dying_stops_the_run_as_incomplete(toy: Toy) -> None:
    toy.freeze()
    with pytest.raises(IncompleteRun, match="3 times"):
        toy.run(executor=Dying(99))
    toy.run()
    assert keys(toy.folder / "run") == scheduled(toy.folder / "run")
