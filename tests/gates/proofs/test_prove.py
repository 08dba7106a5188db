"""`draftgate prove` in its quick form: every proof holds, and the lesson's exercise says what it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms import speculation
from draftgate.gates.proofs import lesson, programme, real_proofs
from draftgate.gates.proofs.finding import Finding
from draftgate.gates.proofs.sabotage.patch import patched, planted
from draftgate.harness.cli import main


def bank_stand_in(amounts: Any) -> Finding:
    """The bank has tests of its own (test_sabotage.py)."""
    return Finding("sabotage", True, 1, "faults", {"false_alarms": "tested elsewhere"})


def test_every_proof_holds_on_toys(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programme, "sabotaged", bank_stand_in)
    raw = tmp_path / "deep" / "raw.json"
    assert main(["prove", "--quick", "--no-model", "--raw", str(raw)]) == 0
    out = capsys.readouterr().out
    for word in ("1 enumeration", "9 sabotage", "counterexample", "why:", "95 %"):
        assert word in out
    found = json.loads(raw.read_text())
    assert found["ok"] and len(found["lesson"]["raw"]["worked example"]) == found["lesson"]["n"]
    for proof in found["proofs"]:
        assert proof["ok"] and proof["n"] > 0 and proof["power"], proof


def test_a_proof_that_raises_or_fails_is_said_and_fails_the_command(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(amounts: Any, material: Any) -> Any:
        yield "1 enumeration", "x", lambda: 1 / 0, lambda f: ""
        yield "2 fresh state", "y", lambda: Finding("y", False, 3, "z", {"reason": "rotten"}), lambda f: ""

    monkeypatch.setattr(programme, "_steps", steps)
    assert main(["prove", "--no-model", "--raw", str(tmp_path / "r.json"), "--json"]) == 5
    found = json.loads(capsys.readouterr().out)
    assert "ZeroDivisionError" in found["proofs"][0]["detail"]["reason"] and not found["ok"]
    assert main(["prove", "--no-model", "--raw", str(tmp_path / "r.json")]) == 5
    assert "rotten" in capsys.readouterr().out


def test_the_identity_by_hand_is_the_lessons() -> None:
    by_hand = {case.name: lesson.identity(case) for case in lesson.CASES}
    first = by_hand["worked example"]
    assert [float(x) for x in first.accepted] == [0.4, 0.3]
    assert float(first.rejected_mass) == 0.3 and first.residual == (1, 0)
    assert by_hand["equal"].residual is None and by_hand["equal"].rejected_mass == 0
    assert all(by_hand[case.name].output == case.q for case in lesson.CASES)
    assert [round(float(x), 4) for x in first.without_correction] == [0.5714, 0.4286]


def test_the_exercise_runs_the_shipped_round_and_is_the_same_every_time() -> None:
    case = lesson.CASES[3]
    assert lesson.first_tokens(case, 50) == lesson.first_tokens(case, 50)
    never = patched(speculation.accepts, ("draws.accept(int(q[proposal.tokens[i]]), p_y, i)", "False"))
    with planted(speculation, "accepts", never):
        assert not any(ok for _, ok, _ in lesson.first_tokens(case, 50))


def test_the_real_model_replays_and_its_state_is_fresh(smollm2: Path) -> None:
    material = real_proofs.real_material(str(smollm2), None, 2)
    amounts = real_proofs.Amounts(False, 1, 10, 2, 20, False)
    replay = real_proofs.real_replay(material, amounts)
    assert replay.ok and replay.n >= 20, replay.detail
    assert real_proofs.real_greedy(material, amounts).ok
    pit = real_proofs.real_pit(material, real_proofs.Amounts(False, 1, 10, 2, 20, False))
    assert pit.ok and pit.n >= 20
