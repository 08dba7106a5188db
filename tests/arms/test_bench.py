"""`draftgate bench` reports what its readers rely on. No figure is asserted: machines differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms import bench
from draftgate.arms.engine.gguf import read_gguf
from draftgate.harness.cli import main

OVERHEAD = {
    "kernel": "avx512",
    "five_rows": {"vocabulary": 49152.0, "stochastic_us": 250.0},
    "greedy": {"rounds": 20, "round_us": 9000.0, "forward_us": 8730.0, "outside_us": 270.0, "outside_share": 0.03},
    "greedy_lookup": {"rounds": 0},
}


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "BANDWIDTH_BYTES", 8 << 20)
    monkeypatch.setattr(bench, "PREFILL_TOKENS", 32)


@pytest.fixture(scope="module")
def report(smollm2: Path) -> dict[str, Any]:
    effort = bench.Effort(contexts=(40, 48, 100_000), seconds=0.01, rounds=2, overhead=False)
    return bench.measure(smollm2, [1, 2], effort)


def test_the_report_has_the_agreed_shape(report: dict[str, Any]) -> None:
    assert json.loads(json.dumps(report)) == report
    assert set(report["threads"]) == {"1", "2"}
    for found in report["threads"].values():
        for name in ("bandwidth_bytes_per_s", "decode_tokens_per_s", "prefill_tokens_per_s", "bandwidth_share"):
            assert found[name] > 0
        assert {"2", "5", "8", "16"} <= set(found["verify_cost"])
        assert all(cost > 0 for cost in found["verify_cost"].values())
        assert set(found["contexts"]) == {"40", "48"}  # what does not fit the model's context is left out
        assert found["contexts"]["40"]["verify_cost"] == found["verify_cost"]
        assert found["sequences"]["8"]["ratio"] > 0
    assert "exchange_ns" not in report["threads"]["1"] and report["threads"]["2"]["exchange_ns"] > 1
    assert report["resident_bytes"] > 0
    assert report["load_s"] > 0


def test_the_share_counts_weights_and_cache(report: dict[str, Any], smollm2: Path) -> None:
    file = read_gguf(smollm2)
    assert bench.kv_bytes_per_token(file) == 2 * 2 * 30 * 3 * 64
    assert bench.weight_bytes_read(file) == sum(t.bytes for t in file.tensors.values())  # tied: the head is all read
    found = report["threads"]["1"]
    row = found["contexts"]["48"]
    assert row["bytes_read_per_token"] == bench.weight_bytes_read(file) + 48 * bench.kv_bytes_per_token(file)
    seconds = row["bytes_read_per_token"] / found["bandwidth_bytes_per_s"] / row["bandwidth_share"]
    assert row["decode_tokens_per_s"] == pytest.approx(1 / seconds)


def test_the_command_prints_tables_or_json(
    report: dict[str, Any], smollm2: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(path: Path, threads: list[int], effort: bench.Effort, *_: Any) -> dict[str, Any]:
        assert (path, threads, effort.contexts) == (smollm2, [1], (40,))
        two = report["threads"]["2"] | {"exchange_ns": 31.2}
        return report | {"overhead": OVERHEAD, "threads": report["threads"] | {"2": two}}

    monkeypatch.setattr(bench, "measure", measured)
    words = ["bench", "--model", str(smollm2), "--threads", "1", "--contexts", "40", "--seconds", "0.01"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "draftgate-bench/1"
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "decode/s" in out and "relative to a call of one token" in out
    assert "in 31 ns" in out and out.count("from one thread to another") == 1
    assert "outside µs" in out and "3.0%" in out and "stochastic 250 µs" in out


def test_a_context_that_the_model_does_not_hold_is_refused_before_anything_is_measured(
    smollm2: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "measure", lambda *_: pytest.fail("measured"))
    assert main(["bench", "--model", str(smollm2), "--contexts", "200", "8177"]) == 2
    assert "--contexts 8177: the model holds at most 8176" in capsys.readouterr().err


@pytest.mark.parametrize("extra", [["--threads", "0"], ["--contexts", "0"], ["--seconds", "-1"], ["--model", "nosuch"]])
def test_bad_options_get_one_line(extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *extra]) == 2
    assert capsys.readouterr().err.count("\n") == 1
