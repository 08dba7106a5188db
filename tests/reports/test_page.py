"""What the page says: every gate explained, nothing clear without its gates, nothing unescaped."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from draftgate.gates.registry import checks
from draftgate.gates.result import GateResult, combine
from draftgate.reports.byte_table import measurement_notes
from draftgate.reports.checklists import ADOPTION, DELETION, state_of
from draftgate.reports.explain import explain, what_would_change
from draftgate.reports.facts import answers
from draftgate.reports.gate_texts import GATE_TEXTS, gate_text
from draftgate.reports.html import content_hash, render
from draftgate.reports.junit import render_junit
from draftgate.reports.markdown import render_markdown
from draftgate.reports.page import _facts_line, build_page
from draftgate.reports.records import RunRecords, load_records
from draftgate.reports.terminal import print_verdict
from support.synthetic_run import STRATA, SyntheticRun, synthetic_run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(html)
    return parser.seen


def test_every_shipped_gate_has_its_own_words() -> None:
    assert set(checks()) <= set(GATE_TEXTS)
    for id, text in GATE_TEXTS.items():
        assert text.asked.endswith("?") and text.matters.endswith(".") and text.change and text.settle, id
    assert gate_text("of-tomorrow").title == "of-tomorrow"


def test_every_criterion_is_watched_by_gates_that_exist() -> None:
    watched = {g for c in (*DELETION, *ADOPTION) for g in c.gates}
    assert watched <= set(checks())
    assert len(DELETION) == 11 and len(ADOPTION) == 8


@pytest.mark.parametrize("status", ["pass", "fail", "inconclusive", "not-measured", "invalid", "not-applicable"])
def test_a_criterion_is_clear_only_when_every_gate_passed(status: Any) -> None:
    two = next(c for c in DELETION if len(c.gates) == 2)
    gates = {two.gates[0]: GateResult(two.gates[0], "pass", ""), two.gates[1]: GateResult(two.gates[1], status, "")}
    state, _ = state_of(two, gates, "greedy")
    expected = {"pass": "clear", "fail": "triggered", "invalid": "triggered"}.get(status, "open")
    if status == "not-applicable":  # the remaining gate decides alone
        expected = "clear"
    assert state == expected
    assert state_of(two, {}, "greedy")[0] == "open"
    assert state_of(two, {two.gates[0]: gates[two.gates[0]]}, "greedy")[0] == "open"


@pytest.mark.parametrize("status", ["pass", "fail", "inconclusive", "not-measured", "not-applicable", "invalid"])
def test_no_paragraph_calls_an_unpassed_gate_passed(status: Any) -> None:
    for id in GATE_TEXTS:
        told = explain(GateResult(id, status, "found this", 1.2, (1.1, 1.3), 1.15, 20, unit="ratio"))
        assert ("passes" in told.why) == (status == "pass")
        assert bool(told.change) == (status not in ("pass", "not-applicable"))


def test_the_reason_given_follows_the_numbers() -> None:
    fails = GateResult("speedup", "fail", "slow", 1.0, (0.95, 1.05), 1.15, 20, unit="ratio")
    assert "whole interval" in explain(fails).why
    one = {"stratum": "code", "status": "fail"}
    hidden = replace(fails, interval=(1.2, 1.3), per_stratum=(one, {"stratum": "chat", "status": "pass"}))
    assert "because of code (failed)" in explain(hidden).why and "whole interval" not in explain(hidden).why


def test_an_equality_passes_by_its_interval_not_by_absence_of_evidence() -> None:
    inside = GateResult("control", "pass", "fine", 1.001, (0.994, 1.008), 1.01, 20, unit="ratio")
    assert explain(inside).threshold == "within ±1 %" and "whole interval" in explain(inside).why
    assert "whole interval" not in explain(replace(inside, interval=(0.985, 1.008))).why
    law = GateResult("exact-law", "pass", "fine", 0.001, (-0.004, 0.006), 0.01, 20, unit="probability")
    assert "lies within ±1 %" in explain(law).why


def test_what_would_change_a_go_is_its_nearest_call(shared_run: SyntheticRun) -> None:
    explained = [explain(g) for g in shared_run.verdict.gates]
    lines = what_would_change(shared_run.verdict, explained)
    assert lines[0][0] == "no-regression" and "nearest call" in lines[0][1]
    open_ = replace(shared_run.verdict.gates[6], status="inconclusive")
    name, reasons = combine([open_])
    assert [
        id for id, _ in what_would_change(replace(shared_run.verdict, verdict=name, reasons=reasons), [explain(open_)])
    ] == ["speedup"]


def test_requests_that_a_rule_dropped_are_counted_on_the_page(shared_run: SyntheticRun) -> None:
    records = load_records(shared_run.path)
    assert "left out" not in _facts_line(records)
    requests = records.evidence.requests.copy()
    requests.loc[requests.index[:3], "excluded"] = "probe"
    dropped = replace(records, evidence=records.evidence.replace(requests=requests))
    assert "3 of them left out by the plan's exclusion rules (probe)" in _facts_line(dropped)


def test_nothing_from_outside_becomes_markup(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "r", strata=STRATA[:1], prompts=2, blocks=1, tokens=4,
                        deficits={"title": HOSTILE, "hypotheses": [HOSTILE]},
                        deviations=[{"kind": HOSTILE, "reason": HOSTILE}])  # fmt: skip
    gates = (
        replace(run.verdict.gates[0], reason=HOSTILE),
        GateResult(HOSTILE, "fail", HOSTILE, unit=HOSTILE, estimate=1.0),
    )
    page = build_page(load_records(run.path), replace(run.verdict, gates=gates, verdict="NO-GO", reasons=(HOSTILE,)))
    html = render(page, [], "0")
    found = tags(html)
    assert [t for t, _ in found].count("script") == 1
    assert not any(t == "img" for t, _ in found)
    assert not any(name.startswith("on") for _, attributes in found for name in attributes)


def test_the_page_loads_nothing_and_its_policy_allows_only_its_script(written: dict[str, Path]) -> None:
    html = written["report.html"].read_text("utf-8")
    found = tags(html)
    for tag, attributes in found:
        assert tag not in ("iframe", "object", "embed") and not (tag == "link" and attributes.get("href") != "data:,")
        assert "src" not in attributes and "srcset" not in attributes
    assert "@import" not in html and not re.search(r"url\((?!#)", html)
    policy = next(a["content"] for t, a in found if a.get("http-equiv") == "Content-Security-Policy")
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert policy and script and f"script-src '{content_hash(script[1])}'" in policy and "default-src 'none'" in policy
    assert len(html.encode()) < 3 * 2**20


def test_every_link_inside_the_page_has_its_target_and_ids_are_unique(written: dict[str, Path]) -> None:
    found = tags(written["report.html"].read_text("utf-8"))
    ids = [a["id"] for _, a in found if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [str(a["href"])[1:] for t, a in found if t == "a" and str(a.get("href", "")).startswith("#")]
    assert targets and set(targets) <= set(ids)
    files = [str(a["href"]) for t, a in found if t == "a" and str(a.get("href", "")).startswith("figures/")]
    assert files and all((written["report.html"].parent / f).is_file() for f in files)


def test_a_stratum_has_one_spelling_wherever_it_is_read(
    records: RunRecords, shared_run: SyntheticRun, written: dict[str, Path]
) -> None:
    """The name that plan, tables and overrides have: in tables, reasons, figures, comment and terminal."""
    lines = tuple({"stratum": s, "status": "fail"} for s in records.strata)
    slow = GateResult("no-regression", "fail", f"{records.strata[0]}: slower", per_stratum=lines)
    verdict = replace(shared_run.verdict, gates=(*shared_run.verdict.gates, slow), verdict="NO-GO")
    terminal = io.StringIO()
    print_verdict(verdict, terminal, 120)
    page = build_page(records, verdict)
    shown = (written["report.html"].read_text("utf-8"), render_markdown(page).replace("\\_", "_"),
             render(page, [], "0"), terminal.getvalue(), render_junit(verdict))  # fmt: skip
    for text in shown:
        assert "casual_chat" in text
        assert not re.search(r"[Cc]asual[  ]chat|[Ss]tructured[  ]json|Casual_chat", text)
    code = GateResult("speedup", "inconclusive", "code: one block", per_stratum=({"stratum": "code"},))
    assert explain(code).found == "code: one block." and explain(replace(code, per_stratum=())).found[0] == "C"


@pytest.mark.parametrize(
    ("status", "estimate", "n", "labelled"),
    [("pass", 1.0, 3, True), ("pass", None, 3, True), ("inconclusive", 1.0, 3, True), ("inconclusive", None, 0, False),
     ("not-measured", None, 0, False), ("not-measured", None, 9, False), ("not-applicable", None, 0, False)],
)  # fmt: skip
def test_nothing_that_was_not_measured_is_labelled_measured(
    records: RunRecords, shared_run: SyntheticRun, status: Any, estimate: float | None, n: int, labelled: bool
) -> None:
    gate = GateResult("memory", status, "why", estimate=estimate, n=n)
    text = render(build_page(records, replace(shared_run.verdict, gates=(gate,))), [], "0")
    article = text[text.index('<article class="gate" id="gate-memory"') :]
    assert ('class="label measured"' in article[: article.index("</article>")]) == labelled


def with_audits(records: RunRecords, **audits: Any) -> RunRecords:
    bodies = {name: [{"name": name, "ok": True, "n": 0, "detail": detail}] for name, detail in audits.items()}
    return RunRecords(records.path, replace(records.evidence, audits={**records.evidence.audits, **bodies}))


def test_a_champion_step_beside_the_draft_says_what_it_is_a_multiple_of(records: RunRecords) -> None:
    detail = {"alone_ns": 4_000_000, "alternating_ns": 5_000_000, "alternating_ratio": 1.25}
    said = dict(measurement_notes(with_audits(records, contention=detail)))
    assert said["time of a champion step, a draft step before each"] == (
        "1.250× its time with no draft running (5 ms against 4 ms)"
    )
    said = dict(measurement_notes(with_audits(records, contention={"alternating_ratio": 0.283})))
    assert said["time of a champion step, a draft step before each"] == "0.283× its time with no draft running"


def test_an_audit_that_measured_nothing_resolves_nothing(records: RunRecords) -> None:
    asked = "Whether the draft competes with the champion for the same memory bandwidth"

    def answer(**detail: Any) -> tuple[bool, str]:
        found = answers(with_audits(records, contention=detail), {})
        return next((resolved, how) for fact, resolved, how in found if fact == asked)

    resolved, how = answer(measured=False, reason="this draft has no states of its own")
    assert not resolved and how.endswith("measured nothing: this draft has no states of its own")
    assert answer(measured=True)[0]


def test_an_interval_that_no_sample_gives_is_said_in_words(records: RunRecords, shared_run: SyntheticRun) -> None:
    row = {"gate": "speedup", "variant": "plain-t interval", "status": "inconclusive", "estimate": 0.8, "flips": False}
    rows = [{**row, "interval": None, "no_interval": "2 prompts"}, {**row, "interval": [0.7, 0.9], "no_interval": ""}]
    verdict = replace(shared_run.verdict, extra={**shared_run.verdict.extra, "multiverse": rows})
    page = build_page(records, verdict)
    assert [line.interval for line in page.robustness.multiverse] == [
        "not estimable from 2 prompts",
        "[0.700×, 0.900×]",
    ]
    assert "not estimable from 2 prompts" in render(page, [], "0")


def test_first_things_first(records: RunRecords, shared_run: SyntheticRun) -> None:
    noted = replace(shared_run.verdict, extra={**shared_run.verdict.extra, "deviations": [{"kind": "retry",
    "reason": "a worker died"}]},
                    exploratory=True)  # fmt: skip
    html = render(build_page(records, noted), [], "0")
    places = [
        html.index(x) for x in ("Verdict: ", shared_run.plan_id, "a worker died", 'class="gates"', 'id="results"')
    ]
    assert places == sorted(places) or places[2] < places[4]
    assert "Exploratory." in html and html.index("Exploratory.") < html.index('id="results"')


def test_a_verdict_about_another_plan_and_a_foreign_card_are_said_at_the_top(
    records: RunRecords, shared_run: SyntheticRun
) -> None:
    card = {**shared_run.verdict.extra["decision_card"], "seed": 8}
    page = build_page(
        records,
        replace(shared_run.verdict, plan_id="e" * 64, extra={**shared_run.verdict.extra, "decision_card": card}),
    )
    assert any("about plan eeeeeeeeeeee" in p for p in page.problems)
    assert any("not the one that the plan binds" in p for p in page.problems)
    assert not build_page(records, shared_run.verdict).problems


def test_flips_are_printed_beside_the_verdict(records: RunRecords, shared_run: SyntheticRun) -> None:
    rows = [{"gate": "speedup", "variant": "equal weights", "status": "inconclusive", "flips": True}]
    page = build_page(records, replace(shared_run.verdict, extra={"multiverse": rows}))
    assert page.robustness.flips == "speedup is inconclusive with equal weights."
    assert "Not robust:" in render(page, [], "0")


@pytest.mark.parametrize(
    "extra", [{}, {"multiverse": "x", "decision_card": [], "self_check": 3, "not_shown": None, "splits": {"a": 1}}]
)
def test_extras_of_any_shape_do_not_take_the_report_down(
    records: RunRecords, shared_run: SyntheticRun, extra: Any
) -> None:
    assert shared_run.plan_id in render(build_page(records, replace(shared_run.verdict, extra=extra)), [], "0")


def test_the_pace_of_each_stratum_is_told_from_the_gates_own_numbers(records: RunRecords, written: Any) -> None:
    from draftgate.gates.performance import burst_gaps, per_token
    from draftgate.reports.pace import pace_rows

    rows = {r.stratum: r for r in pace_rows(records)}
    assert list(rows) == records.strata
    own = per_token(records.evidence).set_index(["arm", "stratum"])
    gaps = burst_gaps(records.table("rounds"), records.candidate).set_index("stratum")
    for stratum, row in rows.items():
        first, second = (f"{own.loc[(a, stratum), 'tpot_ms']:.3g}" for a in ("champion_alone", records.candidate))
        assert row.per_token == f"{first} → {second} ms"
        assert row.gap == f"{gaps.loc[stratum, 'p95_ms']:.3g} ms" and row.ratios.count("·") == 2
    page = written["report.html"].read_text("utf-8")
    assert page.index('id="exploratory"') < page.index('id="pace"') and rows["adversarial"].per_token in page


def test_per_token_by_hand() -> None:
    from draftgate.gates.evidence import Evidence
    from draftgate.gates.performance import per_token

    rows = {"arm": "a", "stratum": "s", "entry": ["warm", "warm", "cold"], "ttft_ns": [10e6, 20e6, 9e9],
            "total_ns": [110e6, 20e6, 9e9], "new_tokens": [11, 1, 5]}  # fmt: skip
    found = per_token(Evidence.without_tables({}).replace(requests=pd.DataFrame(rows))).iloc[0]
    assert (found["ttft_ms"], found["tpot_ms"], found["n"]) == (15.0, 10.0, 2)
    assert found["tokens_per_s"] == pytest.approx(12 / 0.13)
