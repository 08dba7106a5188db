"""The decision card, the multiverse's methods, and the committed calibration."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from draftgate.gates.alternatives import METHODS, alternative
from draftgate.gates.calibration.cells import Cell, rows
from draftgate.gates.calibration.run import SIZES, TABLES, broken, committed, run_table
from draftgate.gates.judge import judge_evidence
from draftgate.gates.multiverse import variants
from draftgate.gates.power import Variation, decision_card, pilot_variation, resized
from draftgate.harness import cli
from scipy import stats
from support.gate_world import good_evidence, good_world, plan_of, stochastic_evidence, write_run


def test_card_says_what_a_plan_can_conclude() -> None:
    plan = plan_of(good_world())
    card = decision_card(plan, variation=Variation(0.05, 0.01, 0.002), replicates=40, speedups=(0.8, 1.15, 1.6))
    slow, edge, fast = card["truths"]
    assert slow["NO-GO"] == 1.0 and fast["GO"] >= 0.9 and edge["GO"] <= 0.1
    assert card["can_go"] and "control" in card["simulated"] and "exact-greedy" in card["assumed"]
    for truth in card["truths"]:
        assert truth["GO"] + truth["NO-GO"] + truth["INCONCLUSIVE"] + truth["INVALID"] == pytest.approx(1)
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    again = decision_card(plan, variation=Variation(0.05, 0.01, 0.002), replicates=40, speedups=(0.8, 1.15, 1.6))
    assert again == card


def test_card_of_a_plan_that_cannot_conclude() -> None:
    for small in (resized(plan_of(good_world()), prompts=8), resized(plan_of(good_world()), blocks=1)):
        card = decision_card(small, replicates=20, speedups=(1.0, 3.0))
        assert not card["can_go"] and "cannot end in GO" in card["note"]
    assert decision_card({"gates": [], "strata": []}, replicates=10, speedups=(1.0,))["can_go"] is False


def test_a_sampled_plan_that_requires_quality_is_told_at_freeze_that_no_run_can_measure_it() -> None:
    """Champion-alone only re-times the candidate's answers there; the run's own gate gives the same reason."""
    world = good_world()
    sampled = {**plan_of(world), "decoding": {"temperature": 0.7}}
    card = decision_card(sampled, replicates=5, speedups=(3.0,))
    assert not card["can_go"] and card["truths"][0]["GO"] == 0
    assert "quality is required, but champion-alone only re-timed" in card["note"]
    gate = next(g for g in judge_evidence(stochastic_evidence(), look_back=False).gates if g.id == "quality")
    assert gate.status == "not-measured" and gate.reason in card["note"]
    softer = [{**g, "requirement": "if-available"} if g["id"] == "quality" else g for g in sampled["gates"]]
    variation = Variation(0.05, 0.01, 0.002)
    assert decision_card({**sampled, "gates": softer}, variation=variation, replicates=5, speedups=(3.0,))["can_go"]


def test_pilot_gives_upper_limits_of_its_variation() -> None:
    pilot = good_evidence(strata=tuple("abcdefgh"))
    found = pilot_variation(pilot)
    assert 0.048 < found.prompt_sd < 0.06 and 0.0095 < found.noise_sd < 0.011 and 0.0015 < found.block_sd < 0.006
    with pytest.raises(ValueError, match="two blocks"):
        pilot_variation(good_evidence(blocks=1))


def test_power_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", good_evidence())
    assert (
        cli.main(
            [
                "power",
                str(run),
                "--pilot",
                str(run),
                "--prompts",
                "8",
                "40",
                "--speedup",
                "1.5",
                "--replicates",
                "20",
                "--json",
            ]
        )
        == 0
    )
    small, large = json.loads(capsys.readouterr().out)
    assert small["truths"][0]["GO"] == 0 and large["truths"][0]["GO"] > 0.8
    assert cli.main(["power", str(run), "--replicates", "10", "--speedup", "1.5"]) == 0
    assert "true speed-up" in capsys.readouterr().out
    assert cli.main(["power", str(run), "--speedup", "-1"]) == 2
    assert cli.main(["power", str(tmp_path)]) == 2


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstraps_are_scipys(method: str) -> None:
    y = np.random.default_rng(0).gamma(1.0, size=60)
    oracle = stats.bootstrap((y,), np.mean, n_resamples=20_000, method={"bca": "BCa"}.get(method, method), rng=1)
    ours = alternative({"a": y[:, None].repeat(2, 1)}, None, method)
    for found in (ours.overall, ours.strata["a"]):
        low, high = found.limits(0.025)
        assert low == pytest.approx(oracle.confidence_interval.low, abs=0.03)
        assert high == pytest.approx(oracle.confidence_interval.high, abs=0.04)


@pytest.mark.parametrize("method", METHODS)
def test_alternative_limits_and_p_values_agree(method: str) -> None:
    rng = np.random.default_rng(0)
    values = {s: rng.gamma(2.0, size=(30, 3)) for s in "ab"}
    for found in (alternative(values, {"a": 3, "b": 1}, method).overall, alternative(values, None, method).strata["b"]):
        low, high = found.limits(0.025)
        for bound in np.linspace(low - 0.3, high + 0.3, 41):
            if min(abs(bound - low), abs(bound - high)) > 0.02:
                assert (found.p_above(bound) <= 0.025) == (low > bound)
                assert (found.p_below(bound) <= 0.025) == (high < bound)
    empty = alternative({"a": np.empty((0, 0))}, None, method).overall
    assert not empty.usable and empty.p_above(0.0) == 1.0


def test_variants_cover_weights_exclusions_and_methods() -> None:
    evidence = good_evidence()
    assert [name for name, _ in variants(evidence)][:2] == ["equal weights", "weights by prompts"]
    assert "all data" not in [name for name, _ in variants(evidence)]
    frame = evidence.requests.assign(excluded=np.where(evidence.requests.index == 0, "probe", ""))
    assert "all data" in [name for name, _ in variants(evidence.replace(requests=frame))]


@pytest.mark.parametrize("name", TABLES)
def test_committed_tables_bear_out_what_is_claimed(name: str) -> None:
    table = committed(name)
    assert table["size"] == "full" and table["replicates"] == SIZES["full"] >= 2000
    assert broken(table) == []
    recomputed = rows(
        Cell(**{k: c[k] for k in ("table", "truth", "method", "quantity", "rate", "n", "limit")})
        for c in table["cells"]
    )
    assert [c["holds"] for c in recomputed] == [c["holds"] for c in table["cells"]]


def test_committed_tables_show_the_naive_methods_failing() -> None:
    def rate(table: str, method: str, truth: str, quantity: str) -> float:
        return max(
            c["rate"]
            for c in committed(table)["cells"]
            if c["method"] == method and truth in c["truth"] and quantity in c["quantity"]
        )

    assert rate("interval-misses", "percentile bootstrap over prompts", "8 prompts", "") > 0.06
    assert rate("interval-misses", "percentile bootstrap over prompts", "40 prompts, normal, block sd 0.05", "") > 0.06
    assert rate("break-even", "ratio bootstrap of N_min", "-0.05", "") > 0.4
    assert rate("break-even", "ours", "-0.05", "D(M)") < 0.01
    assert rate("acceptance", "product-limit over short rounds", "", "mean error") > 0.03
    assert abs(rate("acceptance", "ours", "", "mean error")) < 0.01


@pytest.mark.parametrize("name", ["break-even", "acceptance", "false-verdicts"])
def test_a_fresh_small_calibration_keeps_its_bounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import draftgate.gates.calibration.run as run

    monkeypatch.setattr(run, "SIZES", {"tiny": 60})
    table = run_table(name, "tiny", seed=11)
    assert broken(table) == [] and table["cells"]


def test_a_broken_claim_is_seen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import draftgate.gates.calibration.run as run

    worse = {"wrong": lambda n, seed: iter([Cell("wrong", "t", "ours", "q", 0.08, 4000, 0.025)])}
    monkeypatch.setattr(run, "TABLES", worse)
    assert cli.main(["calibrate", "--quick"]) == 1
    captured = capsys.readouterr()
    assert "NOT HELD" in captured.out and "not borne out" in captured.err
    assert cli.main(["calibrate", "--table", "nothing"]) == 2


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_calibration_again_at_moderate_size(name: str) -> None:
    assert broken(run_table(name, "moderate", seed=5)) == []


def test_simulated_tables_and_simulated_pairs_say_the_same() -> None:
    """What the card simulates as pairs, and what comes through the tables, is one distribution: compare the
    estimate."""
    from draftgate.gates.calibration.simulate import Truth, log_ratios
    from draftgate.gates.pairs import paired

    evidence = good_evidence()
    through_tables = np.concatenate([y.mean(axis=1) for y in paired(evidence, "prompt_lookup").values.values()])
    rng = np.random.default_rng(9)
    direct = log_ratios(Truth(mean=-math.log(1.4), prompt_sd=0.05, noise_sd=0.01, block_sd=0.002), 4000, 3, rng).mean(
        axis=1
    )
    assert stats.ks_2samp(through_tables, direct).pvalue > 0.001
