"""The bank: every fault caught by what a user's plan runs, every equivalent let pass, and how often it cries wolf."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..family import clopper_pearson
from ..finding import Finding
from . import accounts, caches, distribution, history
from .battery import Alarm, alarms
from .equivalents import AS_IT_IS, EQUIVALENTS
from .fault import Fault
from .world import GREEDY, KEPT, PENALISED, STOCHASTIC, World, run_world

FAMILY_LEVEL = 0.005
REPLICATES = {"quick": 60, "full": 600}
SEED = 1
"""Of the runs with a fault; correct replicates count on from 1000."""

Progress = Callable[[str], None]


def faults() -> list[Fault]:
    """All of them, by group."""
    return [*distribution.FAULTS, *history.FAULTS, *caches.FAULTS, *accounts.FAULTS]


@dataclass(frozen=True)
class Caught:
    name: str
    group: str
    world: str
    alarms: tuple[Alarm, ...]

    @property
    def caught(self) -> bool:
        return bool(self.alarms)


@dataclass(frozen=True)
class FalseAlarms:
    """Correct runs, each through the whole battery."""

    replicates: int
    alarms: tuple[str, ...]
    level: float = FAMILY_LEVEL

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % (Clopper–Pearson) for the chance that a correct run raises any alarm."""
        return clopper_pearson(len(self.alarms), self.replicates)

    @property
    def ok(self) -> bool:
        """The data do not speak against the level: its probability of so many alarms or more is not below 1 %."""
        from scipy import stats

        return bool(stats.binom.sf(len(self.alarms) - 1, self.replicates, self.level) >= 0.01)

    def body(self) -> dict[str, Any]:
        return {
            "replicates": self.replicates,
            "alarms": len(self.alarms),
            "rate": len(self.alarms) / self.replicates,
            "interval": list(self.interval),
            "level": self.level,
            "by": list(self.alarms[:10]),
        }


@dataclass
class BankResult:
    faults: list[Caught] = field(default_factory=list)
    equivalents: list[Caught] = field(default_factory=list)
    false_alarm: FalseAlarms | None = None

    @property
    def ok(self) -> bool:
        quiet = self.false_alarm is not None and self.false_alarm.ok
        return bool(self.faults) and all(f.caught for f in self.faults) and self._all_pass and quiet

    @property
    def _all_pass(self) -> bool:
        return bool(self.equivalents) and not any(e.caught for e in self.equivalents)

    def body(self) -> dict[str, Any]:
        """The shape scripts rely on: faults, equivalents, false_alarm."""
        return {
            "ok": self.ok,
            "faults": [
                {
                    "name": f.name,
                    "caught": f.caught,
                    "by": ", ".join(a.by for a in f.alarms),
                    "n": f.alarms[0].n if f.alarms else 0,
                    "group": f.group,
                    "world": f.world,
                    "why": f.alarms[0].why if f.alarms else "",
                }
                for f in self.faults
            ],
            "equivalents": [
                {"name": e.name, "passed": not e.caught, "by": ", ".join(a.by for a in e.alarms)}
                for e in self.equivalents
            ],
            "false_alarm": None if self.false_alarm is None else self.false_alarm.body(),
        }

    def finding(self) -> Finding:
        missed = [f.name for f in self.faults if not f.caught]
        wrong = [e.name for e in self.equivalents if e.caught]
        low, high = self.false_alarm.interval if self.false_alarm is not None else (0.0, 1.0)
        n = 0 if self.false_alarm is None else self.false_alarm.replicates
        detail = {
            "missed": missed,
            "equivalents_refused": wrong,
            "false_alarms": f"false alarms {low:.2%} to {high:.2%} of {n} correct runs",
        }
        return Finding("sabotage", self.ok, len(self.faults), "faults", detail)


def try_fault(fault: Fault, first_only: bool) -> Caught:
    """Plant it, run, and let the battery look, in each of its worlds until one is caught."""
    for world in fault.worlds:
        with fault.plant(world) as changed:
            found = _run_and_look(changed, SEED, first_only)
        if found:
            return Caught(fault.name, fault.group, world.name, tuple(found))
    return Caught(fault.name, fault.group, fault.worlds[-1].name, ())


def _run_and_look(world: World, seed: int, first_only: bool) -> list[Alarm]:
    try:
        run = run_world(world, seed)
    except Exception as error:  # a run that cannot be made is incomplete: it ends without a verdict
        return [Alarm("gate complete", 0, f"the run broke off: {type(error).__name__}: {error}")]
    return list(alarms(run, first_only))


def count_false_alarms(replicates: int, said: Progress = lambda text: None) -> FalseAlarms:
    """Correct runs with seeds of their own, in turn in each kind of world."""
    worlds = (STOCHASTIC, GREEDY, PENALISED, KEPT)
    found: list[str] = []
    for i in range(replicates):
        with AS_IT_IS(worlds[i % len(worlds)]) as world:
            # the audits that do not depend on the seed are the same each time: once in a while is enough
            raised = list(alarms(run_world(world, 1000 + i), deterministic=i < len(worlds)))
        found += [f"{worlds[i % len(worlds)].name}, seed {1000 + i}: {a.by}: {a.why}" for a in raised[:1]]
        if i % 20 == 19:
            said(f"{i + 1} correct runs, {len(found)} false alarms")
    return FalseAlarms(replicates, tuple(found))


def run_bank(full: bool = False, only: Iterable[str] | None = None, said: Progress = lambda text: None) -> BankResult:
    """The whole bank. ``full``: everything that catches a fault is listed, and the replicates are 600."""
    wanted = None if only is None else set(only)
    result = BankResult()
    for fault in faults():
        if wanted is None or fault.name in wanted:
            result.faults.append(try_fault(fault, first_only=not full))
            caught = result.faults[-1]
            said(f"{fault.name}: {caught.alarms[0].by if caught.alarms else 'NOT CAUGHT'}")
    for variant in EQUIVALENTS:
        result.equivalents.append(try_fault(variant, first_only=False))
        said(f"{variant.name}: {'refused' if result.equivalents[-1].caught else 'passes'}")
    result.false_alarm = count_false_alarms(REPLICATES["full" if full else "quick"], said)
    return result
