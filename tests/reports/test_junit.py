"""JUnit through an independent reader: a case a gate, and no green suite without a GO."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from draftgate.gates.result import GateResult, Requirement, Status, Verdict, combine
from draftgate.reports.junit import render_junit
from junitparser import Error, Failure, JUnitXml, Skipped
from support.synthetic_run import SyntheticRun


def read(tmp_path: Path, verdict: Verdict) -> Any:
    path = tmp_path / "junit.xml"
    path.write_text(render_junit(verdict), "utf-8")
    return JUnitXml.fromfile(str(path))


def verdict_of(*gates: GateResult) -> Verdict:
    name, reasons = combine(gates)
    return Verdict(name, "ab" * 32, gates, reasons)


def test_every_gate_has_its_case(tmp_path: Path, shared_run: SyntheticRun) -> None:
    xml = read(tmp_path, shared_run.verdict)
    names = [case.name for suite in xml for case in suite]
    assert names == [*(g.id for g in shared_run.verdict.gates), "verdict"]
    assert (xml.tests, xml.failures, xml.errors) == (len(names), 0, 0)


@pytest.mark.parametrize(("status", "requirement"), list(product(get_args(Status), get_args(Requirement))))
def test_a_suite_is_green_exactly_for_go(tmp_path: Path, status: Any, requirement: Any) -> None:
    fine = GateResult("identity", "pass", "fine")
    verdict = verdict_of(fine, GateResult("speedup", status, "because", requirement=requirement))
    xml = read(tmp_path, verdict)
    assert (xml.failures + xml.errors == 0) == (verdict.verdict == "GO")
    results = {case.name: case.result for suite in xml for case in suite}
    kinds = {type(r) for r in results["speedup"]}
    if requirement == "not-applicable":
        assert kinds == {Skipped}
    elif status == "fail":
        assert kinds == {Failure}
    elif status == "pass":
        assert not kinds & {Failure, Error, Skipped}
    elif status == "not-applicable":
        assert kinds == {Skipped}


def test_no_gates_is_not_green(tmp_path: Path) -> None:
    xml = read(tmp_path, verdict_of())
    assert xml.errors == 1


def test_characters_that_xml_cannot_hold(tmp_path: Path) -> None:
    xml = read(tmp_path, verdict_of(GateResult("a\x00b", "fail", "\x1b[31m <&>\"' \ud800 \uffff")))
    case = next(iter(next(iter(xml))))
    assert case.name == "a�b" and "<&>\"'" in case.result[0].message
