"""verdict.json against its published schema, and verdict files that must not be believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from draftgate.gates.result import GateResult, Verdict, combine
from draftgate.gates.verdict_file import as_json, write_verdict
from draftgate.reports.files import Damaged, ReportError
from draftgate.reports.stored_verdict import contradiction, read_stored_verdict, schema
from support.synthetic_run import SyntheticRun


def test_the_schema_is_a_schema_and_the_gates_own_file_keeps_it(shared_run: SyntheticRun, tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert read_stored_verdict(write_verdict(tmp_path, shared_run.verdict))["verdict"] == "GO"


def valid(gate: dict[str, Any], verdict: str = "GO") -> bool:
    base = {"requirement": "required", "reason": "", "estimate": None, "interval": None, "threshold": None, "n": 0}
    value = {"format": "draftgate-verdict/1", "verdict": verdict, "plan_id": "0" * 64, "exploratory": False,
    "reasons": [],
             "gates": [{"id": "g", "status": "pass", **base, **gate}]}  # fmt: skip
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(value))


@pytest.mark.parametrize("status", ["pass", "fail", "inconclusive", "not-measured", "not-applicable", "invalid"])
@pytest.mark.parametrize("requirement", ["required", "if-available", "not-applicable"])
def test_the_schema_has_no_go_that_the_algebra_forbids(status: Any, requirement: Any) -> None:
    gates = [GateResult("a", "pass", ""), GateResult("g", status, "", requirement=requirement)]
    allowed = combine(gates)[0] == "GO"
    assert valid({"status": status, "requirement": requirement}) == allowed
    assert valid({"status": status, "requirement": requirement}, "INCONCLUSIVE")


@pytest.mark.parametrize(
    "spoil", [{"estimate": "1"}, {"interval": [1]}, {"n": -1}, {"status": "passed"}, {"reason": None}]
)
def test_malformed_gates_are_refused(spoil: dict[str, Any]) -> None:
    assert not valid(spoil)


def test_a_verdict_of_another_version_is_named(own_run: SyntheticRun) -> None:
    path = own_run.path / "verdict.json"
    value = as_json(own_run.verdict)
    path.write_text(json.dumps(value | {"format": "draftgate-verdict/2"}))
    with pytest.raises(ReportError, match=r"draftgate-verdict/2.*reads 'draftgate-verdict/1'"):
        contradiction(own_run.path, own_run.verdict)
    path.write_text("{")
    assert "not readable as a verdict" in contradiction(own_run.path, own_run.verdict)
    with pytest.raises(ReportError, match="not readable as a verdict"):
        read_stored_verdict(path)
    path.write_text("[]")
    with pytest.raises(ReportError, match="format None"):
        read_stored_verdict(path)


def test_a_verdict_of_another_plan_is_an_integrity_failure(own_run: SyntheticRun) -> None:
    (own_run.path / "verdict.json").write_text(json.dumps(as_json(own_run.verdict) | {"plan_id": "f" * 64}))
    with pytest.raises(Damaged, match="about plan ffffffffffff") as caught:
        contradiction(own_run.path, own_run.verdict)
    assert caught.value.exit_code == 5


def test_a_stored_go_that_the_records_do_not_give_is_told(own_run: SyntheticRun) -> None:
    write_verdict(own_run.path, own_run.verdict)
    assert contradiction(own_run.path, own_run.verdict) == ""
    gates = (GateResult("speedup", "fail", "slow"), *own_run.verdict.gates[1:])
    found = Verdict("NO-GO", own_run.plan_id, gates)
    assert "says GO, the records give NO-GO" in contradiction(own_run.path, found)
