"""A plan that a careless or hostile hand wrote: one line that says what and where, before any model is loaded."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from draftgate.harness.errors import PlanError
from draftgate.harness.plan import compose_plan
from draftgate.harness.plan_checks import plan_problems
from draftgate.harness.plan_text import MAX_BYTES
from draftgate.strata.sessions import session_length

from .conftest import PLAN

BOMB = "a: &a [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1 if i else ''}, *a{i - 1 if i else ''}]\n" for i in range(40))
FILES = {
    "latin-1": ("title: ä\n".encode("latin-1"), r"mine.yaml:1: not UTF-8 \(byte 0xe4\)"),
    "aliases": (BOMB.encode(), "mine.yaml:1: .*anchors"),
    "itself": (b"name: x\nhypotheses: &a [*a]\n", "mine.yaml:2: .*anchors"),
    "deep": (b"x: " + b"[" * 5000 + b"]" * 5000, "nested more than"),
    "long": (b"#" * (MAX_BYTES + 1), "1 MiB"),
    "digits": (b"alpha: 1" + b"0" * 5000, "does not compose"),
    "defaults": (b"defaults: 3\n", "does not compose.*must be a list"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_plan_file_is_one_line(tmp_path: Path, name: str) -> None:
    data, reason = FILES[name]
    (tmp_path / "mine.yaml").write_bytes(data)
    with pytest.raises(PlanError, match=reason) as caught:
        compose_plan(plan_file=tmp_path / "mine.yaml")
    assert "\n" not in str(caught.value)


def test_a_key_that_borrows_from_the_environment_is_refused(tmp_path: Path) -> None:
    text = PLAN.read_text().replace('"*": {kind', '"${oc.env:HOME}": {kind')
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(PlanError, match=r"session_lengths.*interpolation"):
        compose_plan(plan_file=tmp_path / "mine.yaml")


PROBLEMS: dict[str, tuple[object, str]] = {
    "memory_envelope_bytes": (2**53, "memory_envelope_bytes is an integer beyond"),
    "exclusions": ([{"rule": "probe", "limit": math.inf}], "exclusions[0].limit is inf: a finite"),
    "schedule.rest_s": (1e300, "schedule.rest_s is 1e+300: at most"),
    "schedule.blocks": (10**9, "schedule.blocks is 1000000000: at most"),
    "measurement.shadow_k": (1000, "measurement.shadow_k is 1000: at most"),
    "title": ("a\tb", "title holds control characters"),
    "strata.entries": ({"../x": {"weight": 1.0, "designated": True, "source": "code"}}, "'../x': letters"),
    "session_lengths": ({"code": {"kind": "fixed", "tokens": 3}}, "neither casual_chat nor '*'"),
}


@pytest.mark.parametrize("path", PROBLEMS)
def test_a_value_that_cannot_be_stored_or_run_is_a_problem(path: str) -> None:
    value, reason = PROBLEMS[path]
    plan = compose_plan(plan_file=PLAN).confirmatory
    folder, _, key = path.rpartition(".")
    (plan[folder] if folder else plan)[key] = value
    assert any(reason in line for line in plan_problems(plan))


SESSIONS: list[tuple[dict[str, object], str]] = [
    ({"kind": "often"}, "kind 'often'"),
    ({"kind": "fixed", "tokens": math.nan}, "tokens is nan"),
    ({"kind": "fixed", "tokens": -4}, "positive"),
    ({"kind": "fixed", "tokens": [4]}, "positive"),
    ({"kind": "fixed", "tokens": 4, "more": 5}, "has the fields tokens"),
    ({"kind": "table", "tokens": [4], "weights": [1, 2]}, "one length"),
    ({"kind": "table", "tokens": []}, "one length"),
    ({"kind": "lognormal", "median": 4, "sigma": 1000}, "sigma 1000"),
]


@pytest.mark.parametrize(("entry", "reason"), SESSIONS)
def test_session_lengths_that_no_gate_can_read_are_a_problem(entry: dict[str, object], reason: str) -> None:
    plan = compose_plan(plan_file=PLAN).confirmatory
    plan["session_lengths"] = {"*": entry}
    assert any(reason in line for line in plan_problems(plan))


def test_session_lengths_that_the_gates_read_are_none() -> None:
    plan = compose_plan(plan_file=PLAN).confirmatory
    plan["session_lengths"] = {
        "*": {"kind": "lognormal", "median_tokens": 4, "sigma": 1}, "a": {"kind": "table", "tokens": [1, 2]},
        "b": {"kind": "table", "tokens": [1, 2], "weights": [0.5, 2]}, "c": {"kind": "fixed", "tokens": 1e6},
        "d": session_length("code"),
    }  # fmt: skip
    assert plan_problems(plan) == []


@pytest.mark.parametrize("text", ["\ud800", "a\0b"])
def test_text_that_no_json_holds_is_a_problem(text: str) -> None:
    plan = compose_plan(plan_file=PLAN).confirmatory
    plan["hypotheses"] = [text]
    assert plan_problems(plan) == ["hypotheses[0] holds a NUL or half a surrogate pair: write plain text"]
