"""The drawings: same bytes every time, themable, labelled, true to their tables, and never able to sink a report."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from draftgate.gates.checks.break_even import draft_loads, session_gain, without_loads
from draftgate.gates.checks.speed import weighted
from draftgate.reports.figures import breakeven, drawn, ecdf, pareto, style, waterfall
from draftgate.reports.figures.drawn import CONFIRMATORY, EXPLORATORY, Drawn, draw
from draftgate.reports.figures.pairs import paired_speedups
from draftgate.reports.figures.svg import standalone_svg
from draftgate.reports.records import RunRecords
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic_run import SyntheticRun, synthetic_run

ALL = (*CONFIRMATORY, *EXPLORATORY)


@pytest.fixture(scope="module")
def figures(records: RunRecords, shared_run: SyntheticRun) -> dict[str, Drawn]:
    return {id: draw(id, records, shared_run.verdict) for id in ALL}


def test_there_are_the_eight_figures_of_the_plan() -> None:
    assert len(ALL) == len(set(ALL)) == 8


@pytest.mark.parametrize("id", ALL)
def test_each_is_drawn_labelled_and_well_formed(figures: dict[str, Drawn], id: str) -> None:
    figure = figures[id]
    assert figure.svg, figure.missing
    root = ET.fromstring(standalone_svg(figure.svg))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img" and root.get("aria-labelledby") == f"{id}-title {id}-description"
    assert root.find(f"{space}title").text == figure.title  # type: ignore[union-attr]
    assert len(root.find(f"{space}desc").text or "") > 60  # type: ignore[union-attr]
    assert figure.labels and figure.caption.endswith(".")
    assert len(figure.table) and all(re.fullmatch(r"[a-z0-9_]+", c) for c in figure.table.columns)
    assert all(i.startswith(f"{id}-") for i in re.findall(r'\bid="([^"]+)"', figure.svg))


@pytest.mark.parametrize("id", ALL)
def test_the_same_records_give_the_same_bytes(
    records: RunRecords, shared_run: SyntheticRun, figures: dict[str, Drawn], id: str
) -> None:
    again = draw(id, records, shared_run.verdict)
    assert again.svg == figures[id].svg
    assert again.table.to_csv() == figures[id].table.to_csv()


@pytest.mark.parametrize("id", ALL)
def test_every_colour_is_a_variable_with_a_value_in_both_schemes(figures: dict[str, Drawn], id: str) -> None:
    svg = figures[id].svg
    assert not re.findall(r"(?:fill|stroke): *#[0-9a-fA-F]{3,6}", svg)
    used = set(re.findall(r"var\((--fig-[a-z]+)\)", svg))
    for dark in (False, True):
        known = set(re.findall(r"(--fig-[a-z]+):", style.variables(dark=dark)))
        assert used and used <= known


def contrast(a: str, b: str) -> float:
    """WCAG 2 contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lines_and_text_stand_out_on_both_grounds() -> None:
    _, light_paper, dark_paper = style.COLOURS[style.PAPER]
    for drawn_colour, (name, light, dark) in style.COLOURS.items():
        if drawn_colour in (style.PAPER, style.GRID):
            continue
        least = 4.5 if drawn_colour in (style.INK, style.SOFT) else 3.0
        assert contrast(light, light_paper) >= least, name
        assert contrast(dark, dark_paper) >= least, name


def test_numbers_in_labels_are_not_cut(
    monkeypatch: pytest.MonkeyPatch, records: RunRecords, shared_run: SyntheticRun
) -> None:
    table = pd.DataFrame({"arm": ["champion_alone", "neural_draft"], "latency_ratio": [1.0, 0.5],
    "best_stratum_ratio": [1.0, 0.4],
                          "worst_stratum_ratio": [1.0, 0.6], "memory_ratio": [1.0, 1.005], "energy_ratio": [np.nan] * 2,
                          "on_frontier": [True, True]})  # fmt: skip
    monkeypatch.setattr(pareto, "trade_offs", lambda _: table)
    svg = draw("pareto", records, shared_run.verdict).svg
    ticks = [float(t) for t in re.findall(r">([01]\.\d+)</text>", svg)]
    steps = sorted(t for t in ticks if t >= 0.99)
    assert any(len(str(t).split(".")[1]) >= 3 for t in steps), ticks


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=700))
def test_ecdf_steps_are_the_empirical_distribution(values: list[float]) -> None:
    x, share = ecdf.steps(np.array(values))
    assert share[0] == 0 and share[-1] == 1 and (np.diff(share) >= 0).all() and (np.diff(x) >= 0).all()
    for at, said in zip(x[1:], share[1:], strict=True):  # after the last step at a value, the share counted by hand
        if at not in x[1:][np.flatnonzero(x[1:] == at)[-1] + 1 :]:
            assert said <= sum(v <= at for v in values) / len(values) + 1e-12


def test_pairs_are_the_quotients_of_the_table(records: RunRecords) -> None:
    requests = records.table("requests")
    pairs = paired_speedups(records)
    row = pairs[pairs["arm"] == "neural_draft"].iloc[7]
    key = (
        (requests["prompt_id"] == row["prompt_id"])
        & (requests["block"] == row["block"])
        & (requests["entry"] == "warm")
    )
    time = requests[key].set_index("arm")["total_ns"]
    assert row["speedup"] == pytest.approx(time["champion_alone"] / time["neural_draft"])
    assert len(pairs) == 4 * (requests[requests["entry"] == "warm"]["arm"] == "champion_alone").sum()


def test_an_excluded_request_takes_its_pair_on_every_arm_with_it(records: RunRecords) -> None:
    from dataclasses import replace

    requests = records.table("requests").copy()
    hit = requests.index[(requests["arm"] == "champion_again") & (requests["entry"] == "warm")][0]
    requests.loc[hit, "excluded"] = "steal"
    spoiled = RunRecords(records.path, replace(records.evidence, requests=requests))
    assert len(paired_speedups(spoiled)) == len(paired_speedups(records)) - 4


def test_break_even_is_the_gates_own_number(records: RunRecords) -> None:
    curve = breakeven.curve(records)
    evidence = records.evidence
    loads = draft_loads(evidence)
    assert not isinstance(loads, str)
    row = curve.iloc[17]
    weights = evidence.weights()
    d = without_loads(
        weighted(session_gain(evidence, dict.fromkeys(weights, row["session_tokens"])), weights).overall, loads
    )
    assert row["saving_s"] == pytest.approx(d.mean / 1e9, rel=1e-9)
    assert row["saving_lower_s"] == pytest.approx(d.limits(evidence.alpha)[0] / 1e9, rel=1e-9)
    assert (curve["lower"] <= curve["ratio"]).all() and (curve["ratio"] <= curve["upper"]).all()


def test_energy_is_drawn_where_it_was_measured_and_never_taken_for_zero(
    records: RunRecords, shared_run: SyntheticRun
) -> None:
    from dataclasses import replace

    assert pareto.energy_ratios(records) == {}
    assert "not measured" in draw("pareto", records, shared_run.verdict).svg
    requests = records.table("requests").copy()
    requests["energy_uj"] = requests["new_tokens"] * requests["arm"].map(
        {"neural_draft": 80, "prompt_lookup": 90}
    ).fillna(100)
    measured = RunRecords(records.path, replace(records.evidence, requests=requests))
    ratios = pareto.energy_ratios(measured)
    assert ratios["neural_draft"] == pytest.approx(0.8) and ratios["champion_alone"] == 1
    figure = draw("pareto", measured, shared_run.verdict)
    assert "energy a token" in figure.svg and "not measured" not in figure.svg
    assert figure.table["energy_ratio"].notna().all()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_frontier_is_what_nothing_dominates(costs: list[tuple[int, int, int]]) -> None:
    found = pareto.frontier(pd.DataFrame(costs, columns=["a", "b", "c"]))
    for mine, kept in zip(costs, found, strict=True):
        beaten = any(all(o <= m for o, m in zip(other, mine, strict=True)) and other != mine for other in costs)
        assert kept == (not beaten)
    assert any(found)


def test_a_figure_that_fails_says_so_and_the_rest_come_out(
    monkeypatch: pytest.MonkeyPatch, records: RunRecords, shared_run: SyntheticRun
) -> None:
    def broken(records: RunRecords, verdict: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(ecdf, "draw", broken)
    figures = {f.id: f for f in drawn.draw_all(records, shared_run.verdict, ("ecdf", "heatmap"))}
    assert not figures["ecdf"].svg and "ZeroDivisionError: of all things" in figures["ecdf"].missing
    assert figures["heatmap"].svg


def test_a_run_without_a_draft_says_what_cannot_be_drawn(tmp_path: Path) -> None:
    from draftgate.reports.records import load_records

    run = synthetic_run(
        tmp_path / "r",
        strata=("code",),
        prompts=1,
        blocks=1,
        tokens=3,
        arms=("champion_alone",),
        candidate="champion_alone",
    )
    for id in ALL:
        figure = draw(id, load_records(run.path), run.verdict)
        assert figure.svg or ("failed" not in figure.missing and figure.missing), (id, figure.missing)


PROMISES = {
    "heatmap": "its 95 % interval",
    "breakeven": "Shaded: 95 % interval",
    "survival": "Shaded: 95 % band",
    "calibration": "95 % intervals by prompt",
    "waterfall": "The whisker spans",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecords, SyntheticRun]:
    """One block of one prompt a stratum: a sample that gives no interval anywhere."""
    from draftgate.reports.records import load_records

    run = synthetic_run(tmp_path_factory.mktemp("small") / "r", strata=("casual_chat",), prompts=1, blocks=1, tokens=16)
    return load_records(run.path), run


@pytest.mark.parametrize("id", PROMISES)
def test_a_caption_promises_intervals_only_where_they_are_drawn(
    figures: dict[str, Drawn], small: tuple[RunRecords, SyntheticRun], id: str
) -> None:
    assert PROMISES[id] in figures[id].caption
    assert PROMISES[id] not in draw(id, small[0], small[1].verdict).caption


def test_labels_of_the_waterfall_lie_over_the_dashed_line(records: RunRecords, shared_run: SyntheticRun) -> None:
    with matplotlib.rc_context(style.RC):
        figure = waterfall.draw(records, shared_run.verdict).figure
    for ax in figure.axes:
        labels = [t for t in ax.texts if t.get_text().endswith(" ms")]
        dashed = [line for line in ax.lines if line.is_dashed()]  # champion-alone's end
        assert labels and dashed
        for label in labels:
            ground = label.get_bbox_patch()
            assert ground is not None and matplotlib.colors.to_hex(ground.get_facecolor()) == style.PAPER
            assert label.get_zorder() > max(line.get_zorder() for line in dashed)
