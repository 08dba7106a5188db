"""The bank in its quick form, and that it would notice its own failures."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from draftgate.gates.commands import sabotage as command
from draftgate.gates.proofs.sabotage import bank
from draftgate.gates.proofs.sabotage.equivalents import EQUIVALENTS
from draftgate.gates.proofs.sabotage.fault import Fault
from draftgate.gates.proofs.sabotage.world import GREEDY, STOCHASTIC
from draftgate.gates.sequential import e_process

FAULTS = bank.faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_fault_is_caught(fault: Fault) -> None:
    caught = bank.try_fault(fault, first_only=True)
    assert caught.caught
    assert not any("PatchDidNotApply" in alarm.why for alarm in caught.alarms)


@pytest.mark.parametrize("variant", EQUIVALENTS, ids=lambda f: f.name)
def test_every_equivalent_passes(variant: Fault) -> None:
    assert bank.try_fault(variant, first_only=False).alarms == ()


def test_the_bank_holds_every_fault_of_the_specification() -> None:
    counts = {group: sum(f.group == group for f in FAULTS) for group in {f.group for f in FAULTS}}
    assert counts == {
        "distribution": 20, "history": 4, "stops and length": 4, "cache": 13, "draws": 3, "accounting": 7,
        "performance": 4,
    }  # fmt: skip
    assert len({f.name for f in FAULTS}) == len(FAULTS)


def test_correct_runs_raise_no_alarm() -> None:
    found = bank.count_false_alarms(9)
    assert found.alarms == () and found.ok
    low, high = found.interval
    assert low == 0 and high == pytest.approx(1 - 0.025 ** (1 / 9))


def test_too_many_false_alarms_are_not_ok() -> None:
    assert bank.FalseAlarms(600, ("x",) * 3).ok
    assert not bank.FalseAlarms(600, ("x",) * 12).ok


def test_a_fault_that_nothing_catches_fails_the_bank() -> None:
    harmless = Fault("nothing", "distribution", (GREEDY, STOCHASTIC), lambda world: nullcontext(world))
    missed = bank.try_fault(harmless, first_only=True)
    assert not missed.caught
    assert not bank.BankResult([missed], [], bank.FalseAlarms(600, ())).ok


def test_the_command_prints_the_json_scripts_rely_on(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bank.REPLICATES, "quick", 3)
    from draftgate.harness.cli import main

    assert main(["sabotage", "--json", "--only", "always accept"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert {"name", "caught", "by", "n"} <= set(body["faults"][0])
    assert body["faults"][0]["caught"] is True
    assert all(e["passed"] for e in body["equivalents"])
    assert body["false_alarm"]["replicates"] == 3
    assert main(["sabotage", "--only", "no such fault"]) == 2


def test_the_table_says_what_was_missed() -> None:
    result = bank.BankResult([bank.Caught("x", "cache", "greedy", ())], [], bank.FalseAlarms(3, ()))
    assert any("NOTHING" in line for line in command.table(result.body()))


def test_evidence_against_a_true_hypothesis_is_rare_from_the_first_tokens_on() -> None:
    """Few tokens, one-sided at first: the mixture must not blow up outside the range of its closed form."""
    rng = np.random.default_rng(8)
    rejected = 0
    for _ in range(400):
        mass = rng.uniform(0.05, 0.6, 80)
        x = (rng.random(80) < mass) - mass
        rejected += e_process(x, 0.02).rejected_at is not None
    assert rejected <= 16
