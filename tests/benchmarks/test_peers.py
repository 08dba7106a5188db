"""The comparison's arithmetic and shape, without running any engine."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from benchmarks import peers


def worker(decode: float, prefill: float) -> dict[str, Any]:
    row = {"decode": decode, "prefill": prefill, "five_columns_cost": 1.5}
    return {"load_s": 0.1, "prefill": prefill, "contexts": {"200": row, "2000": dict(row)}}


@pytest.fixture
def arguments() -> argparse.Namespace:
    return argparse.Namespace(model="m", peer_python="p", threads=[1, 2], contexts=[200, 2000], rounds=3)


def test_ratios_are_ours_over_theirs_paired_by_round(
    arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine gets slower from round to round; ratios within rounds do not see it."""
    calls: list[tuple[str, int]] = []

    def run_worker(python: str, name: str, args: argparse.Namespace, threads: int) -> dict[str, Any] | None:
        slow = 1 + len(calls) // 6
        calls.append((name, threads))
        assert (python == "p") == (name != peers.OURS)
        return (
            worker(*{"draftgate": (100 / slow, 900 / slow), "llama.cpp": (50 / slow, 300 / slow)}[name])
            if (name != "ik_llama.cpp")
            else worker(80 / slow, 450 / slow)
        )

    monkeypatch.setattr(peers, "run_worker", run_worker)
    result = peers.compare(arguments)
    assert result["ratios"] == result["peers"]["llama.cpp"]
    assert result["ratios"]["1"]["decode"] == pytest.approx(2)
    assert result["ratios"]["2"]["prefill"] == pytest.approx(3)
    assert result["peers"]["ik_llama.cpp"]["1"]["decode"] == pytest.approx(1.25)
    assert result["peers"]["ik_llama.cpp"]["1"]["contexts"]["2000"]["prefill"] == pytest.approx(2)
    assert {name for name, _ in calls[:3]} == {"draftgate", "llama.cpp", "ik_llama.cpp"}
    assert calls[0][0] != calls[6][0]  # the order turns, so that no engine always goes first
    assert "ours over llama.cpp, 1 threads: 3.00" in peers.table(result)


def test_a_peer_that_is_not_installed_is_left_out(
    arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        peers, "run_worker", lambda _, name, *rest: None if name == "llama.cpp" else worker(100.0, 900.0)
    )
    result = peers.compare(arguments)
    assert result["ratios"] == {}
    assert set(result["peers"]) == {"ik_llama.cpp"}
