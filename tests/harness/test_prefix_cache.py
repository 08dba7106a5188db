"""What a process keeps of its last request: how much, in which runs, and after a kill as without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draftgate.harness.errors import IntegrityError
from draftgate.harness.freeze import load_plan
from draftgate.harness.schedule import Schedule
from draftgate.harness.store import read_table
from draftgate.harness.verify import verify_run
from support import toy_run

from .conftest import StopAfter, Toy
from .recorded import keys, scheduled

ORDERS = pytest.mark.parametrize("order", ["interleaved", "williams"])


@pytest.fixture
def talks(tmp_path: Path) -> str:
    """Two conversations, three turns and one."""
    source = tmp_path / "talk.jsonl"
    lines = [{"id": "long", "turns": ["one", "two", "three"]}, {"id": "short", "turns": ["four"]}]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "++strata.entries={talk: {weight: 1.0, designated: false, source: '" + str(source) + "'}}"


@ORDERS
def test_a_conversation_is_read_once_and_of_another_prompt_only_the_beginning_of_all_is_kept(
    toy: Toy, talks: str, order: str
) -> None:
    folder = toy.whole("run", talks, f"schedule.order={order}")
    assert load_plan(folder)["schedule"]["preamble_tokens"] == len(toy_run.ToyModel.preamble(None)) == 1  # type: ignore[arg-type]
    rows = read_table(folder, "requests")
    assert (rows[rows["entry"] == "cold"]["cached_tokens"] == 0).all()
    warm = rows[rows["entry"] == "warm"]
    assert (warm[warm["turn"] == 0]["cached_tokens"] == 1).all()
    read = warm.set_index(["arm", "block", "prompt_id", "turn"])
    for (arm, block, prompt, turn), row in read.iterrows():  # type: ignore[misc]
        if turn:
            before = read.loc[(arm, block, prompt, turn - 1)]
            assert row["cached_tokens"] == before["prompt_tokens"] + before["new_tokens"] - 1
    report = verify_run(folder, toy.services)
    assert report.ok, report.problems


@ORDERS
def test_a_resumed_run_keeps_what_an_unbroken_one_keeps(toy: Toy, talks: str, order: str) -> None:
    """The turn before is asked again, as a warm-up on record; else a kill would change what the next turn costs."""
    whole = read_table(toy.whole("whole", talks, f"schedule.order={order}"), "requests")
    asked_again = set()
    for stop in range(1, len(whole)):
        name = f"run{stop}"
        toy.freeze(name, talks, f"schedule.order={order}")
        with pytest.raises(KeyboardInterrupt):
            toy.run(name, progress=StopAfter(stop))
        toy.run(name)
        folder = toy.folder / name
        assert keys(folder) == scheduled(folder)
        resumed = read_table(folder, "requests")
        columns = ["request_id", "prompt_tokens", "new_tokens", "cached_tokens"]
        a, b = (f[columns].sort_values("request_id", ignore_index=True) for f in (whole, resumed))
        assert a.equals(b)
        warmups = read_table(folder, "warmups")["request_id"]
        asked_again |= {w.split("/again/")[1] for w in warmups if "/again/" in w}
    assert asked_again == {"long"}


def test_a_plan_without_a_prefix_cache_reads_every_prompt_whole(toy: Toy, talks: str) -> None:
    folder = toy.whole("run", talks, "schedule.prefix_cache=none")
    assert Schedule(load_plan(folder)).preamble_tokens is None
    assert (read_table(folder, "requests")["cached_tokens"] == 0).all()
    assert not read_table(folder, "warmups")["request_id"].str.contains("/again/").any()


def test_what_the_template_puts_first_is_bound(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.freeze()
    monkeypatch.setattr(toy_run.ToyModel, "preamble", lambda self: [2, 4])
    with pytest.raises(IntegrityError, match=r"schedule\.preamble_tokens"):
        toy.run()
