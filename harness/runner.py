"""Runs a frozen plan: unit by unit, a fresh process for each arm, a record on the disk after every request."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..arms.kinds import BASELINE, WITH_DRAFT
from .atomic import PRIVATE, write_bytes
from .backend import DEFAULT_BACKEND
from .bound import Bound
from .canonical import is_digest
from .clock import Clock, SystemClock
from .errors import IncompleteRun, IntegrityError
from .formats import SALT_FORMAT, check_format
from .freeze import load_message
from .journal import Journal
from .machine import machine_state
from .process import Executor, SubprocessExecutor, Worker, WorkerDied, WorkerFailed
from .progress import Progress, Silent
from .prompts import messages
from .requests import check_times, private_line, request_row, round_rows, unexplained
from .rundir import RunDir
from .schedule import CANARY_PLACES, Item, Schedule, Unit, process_id, replace_id

ATTEMPTS = 3
"""A unit, or a pass apart, whose worker dies is tried this often before the run stops as incomplete."""


@dataclass(frozen=True)
class Place:
    """Where in the schedule a request is made."""

    unit: Unit
    segment: int
    order: int
    loads: Mapping[str, int]


@dataclass
class Seat:
    """A worker that is ready, and the machine's state before it was started."""

    worker: Worker
    place: Place
    state: Mapping[str, Any]
    last: Item | None = None
    """The timed request it answered last."""


@dataclass
class RunOptions:
    """How to run; nothing here is part of the plan."""

    backend: str = DEFAULT_BACKEND
    executor: Executor = field(default_factory=SubprocessExecutor)
    clock: Clock = field(default_factory=SystemClock)
    progress: Progress = field(default_factory=Silent)


class Runner:
    """One pass over the schedule; whatever is recorded already is skipped."""

    def __init__(
        self, run_dir: RunDir, plan: Mapping[str, Any], operational: Mapping[str, Any], bound: Bound, journal: Journal,
        options: RunOptions,
    ) -> None:  # fmt: skip
        self.run_dir, self.plan, self.bound, self.journal, self.options = run_dir, plan, bound, journal, options
        self.operational = operational
        self.schedule = Schedule(plan)
        self.arms = bound.arms
        self.greedy = plan["decoding"]["temperature"] == 0
        self.salt = private_salt(run_dir, journal)

    def run(self) -> None:
        """Every unit, with the canaries around them."""
        middle = self.schedule.middle()
        self._canaries("start")
        for unit in self.schedule.units:
            if unit.index == middle:
                self._canaries("middle")
            self._unit(unit)
            self.journal.release_parts()
        if middle >= len(self.schedule.units):
            self._canaries("middle")
        self._canaries("end")

    def _unit(self, unit: Unit) -> None:
        # A process that dies ends the segment: what the unit still owes begins a new one, with warm-ups of its own.
        self._with_retries(lambda: self._segment(unit), unit)

    def _segment(self, unit: Unit) -> None:
        """What the unit still owes."""
        owed = {
            a: sum(not self.journal.has("request", i) for i in self.schedule.request_ids(unit, a)) for a in unit.order
        }
        segment = 0
        while self.journal.has("segment", f"{unit.id}#{segment}"):
            segment += 1
        waiting = [a for a in unit.order if owed[a] or not self._had_process(unit, a, segment)]
        if not waiting:
            return
        self.journal.append("segment", {
            "segment_id": f"{unit.id}#{segment}", "unit": unit.id, "segment": segment, "arms": waiting,
            "wall_ns": self.options.clock.wall_ns(), "state": machine_state(),
        })  # fmt: skip
        if segment:
            self.journal.deviation(
                "resumed",
                f"unit {unit.id} was resumed in the middle with its own warm-up",
                unit=unit.id,
                segment=segment,
            )
        if not self.greedy:
            self._realise(unit)
        if self.schedule.interleaved:
            self._together(unit, waiting, segment)
            return
        for order, arm in enumerate(unit.order):
            if arm in waiting:
                self._process(unit, arm, order, segment)

    def _had_process(self, unit: Unit, arm: str, segments: int) -> bool:
        """Whether a process of this arm has come to its end in this unit, in any segment."""
        return any(self.journal.has("process", process_id(unit, arm, s)) for s in range(segments))

    def _with_retries(self, work: Callable[[], None], unit: Unit, arm: str | None = None) -> None:
        """``arm``: whose work it is, where it is one arm's."""
        whose = {} if arm is None else {"arm": arm}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                work()
                return
            except WorkerDied as error:
                self.journal.deviation("retry", f"a worker died: {error}", unit=unit.id, attempt=attempt, **whose)
                if attempt == ATTEMPTS:
                    place = ", ".join((unit.id, *whose.values()))
                    raise IncompleteRun(f"{error} ({attempt} times on {place}); the run can be resumed") from None

    def _load(self, worker: Worker, arm: str) -> dict[str, int]:
        entry = self.arms[arm]
        resident = self.bound.paths if entry["kind"] in WITH_DRAFT else {**self.bound.paths, "draft": None}
        measure = self.plan["measurement"]
        message = load_message(
            self.options.backend, resident, self.plan["schedule"]["threads"], self.operational.get("kernel"),
            arm=entry, decoding=self.plan["decoding"], memory_interval_ms=measure["memory_interval_ms"],
            energy=measure["energy"], preamble_tokens=self.schedule.preamble_tokens,
        )  # fmt: skip
        try:
            return worker.ask(message)
        except WorkerDied as error:
            raise WorkerDied(f"{error}, loading {arm}") from error

    def _process(self, unit: Unit, arm: str, order: int, segment: int) -> None:
        """One arm on one unit, from its start to its end."""
        with self._seated(unit, arm, order, segment) as seat:
            self._warm_up(seat, arm)
            for item in self._owed(unit, arm, "warm"):
                self._timed(seat, item, order)
            self._leave(seat, arm)

    def _together(self, unit: Unit, arms: Sequence[str], segment: int) -> None:
        """Arms of one unit side by side: a request is answered by all of them before the next."""
        with contextlib.ExitStack() as stack:
            seats = {
                arm: stack.enter_context(self._seated(unit, arm, order, segment))
                for order, arm in enumerate(unit.order)
                if arm in arms
            }
            for arm, seat in seats.items():  # only now: loading the others would have cooled the first ones again
                self._warm_up(seat, arm)
            warm = {arm: [i for i in self.schedule.items(unit, arm) if i.entry == "warm"] for arm in seats}
            for number, same in enumerate(zip(*warm.values(), strict=True)):
                items = dict(zip(warm, same, strict=True))
                for order, arm in enumerate(self.schedule.turns(unit, number)):
                    if arm in items and not self.journal.has("request", items[arm].request_id):
                        self._timed(seats[arm], items[arm], order)
            for arm, seat in seats.items():
                self._leave(seat, arm)

    def _timed(self, seat: Seat, item: Item, order: int) -> None:
        """One warm request. A later turn finds what the turn before it left, in a resumed segment as in any other."""
        place = replace(seat.place, order=order)
        if item.turn and self.schedule.keeps_conversations:
            before = self.schedule.turn_before(place.unit, item)
            if seat.last != before:
                again = replace_id(before, f"{item.arm}/{place.unit.id}/s{place.segment}/again/{item.prompt_id}")
                prompt = self.journal.private_line("request", before.request_id)["prompt"]
                self._request(seat.worker, "warmup", again, place, prompt)
        self._request(seat.worker, "request", item, place)
        seat.last = item

    def _owed(self, unit: Unit, arm: str, entry: str) -> list[Item]:
        items = (i for i in self.schedule.items(unit, arm) if i.entry == entry)
        return [i for i in items if not self.journal.has("request", i.request_id)]

    @contextlib.contextmanager
    def _seated(self, unit: Unit, arm: str, order: int, segment: int) -> Iterator[Seat]:
        """A process of an arm: loaded, its cold entry made."""
        self.options.clock.sleep(self.plan["schedule"]["rest_s"])
        state = machine_state()
        with self.options.executor.start() as worker:
            place = Place(unit, segment, order, self._load(worker, arm))
            for item in self._owed(unit, arm, "cold"):
                self._request(worker, "request", item, place)
            yield Seat(worker, place, state)

    def _warm_up(self, seat: Seat, arm: str) -> None:
        for item in self.schedule.warmups(seat.place.unit, arm, seat.place.segment):
            if not self.journal.has("warmup", item.request_id):
                self._request(seat.worker, "warmup", item, seat.place)

    def _leave(self, seat: Seat, arm: str) -> None:
        """The process has done its part: its memory timeline is recorded."""
        place = seat.place
        try:
            last = seat.worker.ask({"type": "end"})
        except WorkerDied as error:
            raise WorkerDied(f"{error}, at the end of {arm}") from error
        body = {
            "unit": place.unit.id, "arm": arm, "segment": place.segment, "order": place.order,
            "load_ns": place.loads["load_ns"], "draft_load_ns": place.loads["draft_load_ns"],
            "state_before": seat.state, "state_after": machine_state(),
        }  # fmt: skip
        key = ("process_id", process_id(place.unit, arm, place.segment))
        self.journal.write("process", key, place.unit.index, {"memory": last["samples"]}, None, body)

    def _realise(self, unit: Unit) -> None:
        """Stochastic plans: an untimed pass of the candidate draws the texts that champion-alone is then timed on."""
        arm = self.plan["candidate"]
        missing = [
            i for i in self.schedule.items(unit, arm)
            if i.entry == "warm" and not self.journal.has("realised", i.request_id)
        ]  # fmt: skip
        if not missing:
            return

        with self.options.executor.start() as worker:
            loads = self._load(worker, arm)
            for item in missing:
                self._request(worker, "realised", item, Place(unit, 0, -1, loads))
            worker.ask({"type": "end"})

    def _canaries(self, where: str) -> None:
        assert where in CANARY_PLACES
        for arm in self.schedule.arms:
            items = [i for i in self.schedule.canaries(where, arm) if not self.journal.has("canary", i.request_id)]
            if not items:
                continue
            unit = Unit(len(self.schedule.units) + CANARY_PLACES.index(where), f"canary/{where}", "", -1, ())

            def work(arm: str = arm, items: list[Item] = items, unit: Unit = unit) -> None:
                with self.options.executor.start() as worker:
                    loads = self._load(worker, arm)
                    for item in items:
                        if not self.journal.has("canary", item.request_id):
                            self._request(worker, "canary", item, Place(unit, 0, 0, loads))
                    worker.ask({"type": "end"})

            self._with_retries(work, unit, arm)
        self.journal.release_parts()

    def _request(
        self, worker: Worker, kind: str, item: Item, place: Place, prompt: Sequence[int] | None = None
    ) -> None:
        """One request on one arm, recorded before the next begins."""
        prompt = self._prompt(worker, kind, item) if prompt is None else prompt
        forced = self._forced(kind, item)
        check = self.bound.prompts[item.stratum, item.prompt_id].check_for(item.turn) if kind == "request" else None
        message = {
            "type": "generate", "phase": "request" if kind == "request" else "warmup", "request_id": item.request_id,
            "prompt": prompt, "max_new_tokens": item.max_new_tokens, "seed": item.seed, "stream": item.stream,
            "stop_token_ids": self.plan["stop_token_ids"], "stop_strings": self.plan["decoding"]["stop_strings"],
            "continues": kind == "request" and item.turn > 0, "forced": forced,
            "check": None if check is None else dict(check),
        }  # fmt: skip
        before = self.options.clock.monotonic_ns()
        try:
            answer = worker.ask(message)
        except WorkerDied as error:
            raise WorkerDied(f"{error}, in {item.request_id}") from error
        except WorkerFailed as error:
            raise IncompleteRun(f"{item.request_id} failed: {error}; what is recorded is whole") from error
        asked = self.options.clock.monotonic_ns() - before
        check_times(item, answer, asked)
        row = request_row(
            item, answer, unit=place.unit.id, segment=place.segment, order=place.order, loads=place.loads,
            prompt_tokens=len(prompt), forced=forced is not None, salt=self.salt, check=check,
        )  # fmt: skip
        if kind == "canary":
            row = {"where": place.unit.id.partition("/")[2], "index": int(item.request_id.rpartition("/")[2])} | row
        row |= {"asked_ns": asked, "unexplained_ns": unexplained(answer)}
        public = {
            "request_id": item.request_id,
            "receipt": answer["receipt"],
            "rounds": round_rows(item, answer["completion"]["rounds"]),
        }
        hidden = private_line(item, prompt, answer, self.salt)
        self.journal.write(kind, ("request_id", item.request_id), place.unit.index, public, hidden, row)
        if kind == "request":
            self.options.progress.advance(item)

    def _prompt(self, worker: Worker, kind: str, item: Item) -> list[int]:
        """Token ids: the rendered prompt, or for a later turn everything before it, the answer and the new messages."""
        if item.turn == 0:
            return self.bound.ids[item.stratum, item.prompt_id]
        before = item.request_id.replace(f"/t{item.turn}/", f"/t{item.turn - 1}/")
        line = self.journal.private_line(kind, before)
        new = messages(self.bound.prompts[item.stratum, item.prompt_id], item.turn)
        added = worker.ask({"type": "continue", "messages": new})["ids"]
        stops = self.plan["stop_token_ids"]
        ended = line["output"][-1:] and line["output"][-1] in stops
        return [*line["prompt"], *line["output"], *([] if ended else stops[:1]), *added]

    def _forced(self, kind: str, item: Item) -> list[int] | None:
        """For champion arms of stochastic plans: the tokens the candidate's untimed pass drew."""
        if self.greedy or kind not in ("request", "warmup") or self.arms[item.arm]["kind"] != BASELINE:
            return None
        place = f"{item.stratum}/{item.prompt_id}/b{item.block}/t{item.turn}"
        line = self.journal.private_line("realised", f"{self.plan['candidate']}/{place}/warm")
        return list(line["output"])


def private_salt(run_dir: RunDir, journal: Journal) -> str:
    """The run's private salt: as stored, or from any recorded private line, or new before anything is recorded."""
    try:
        found = json.loads(run_dir.salt.read_bytes())
    except (OSError, ValueError):
        found = None
    if isinstance(found, dict):
        check_format(found.get("format"), SALT_FORMAT, str(run_dir.salt))
        if is_digest(found.get("salt")):
            return str(found["salt"])
    keyed = [k.partition(":") for k in journal.index.live if k.partition(":")[0] in ("request", "canary", "realised")]
    salt = secrets.token_hex(32)
    if keyed:
        kind, _, key = keyed[0]
        try:
            salt = str(journal.private_line(kind, key)["salt"])
        except (OSError, ValueError):
            raise IntegrityError(
                f"{run_dir.private} was withheld or damaged: the run cannot be continued without it"
            ) from None
    write_bytes(run_dir.salt, json.dumps({"format": SALT_FORMAT, "salt": salt}).encode() + b"\n", PRIVATE)
    return salt
