"""The comment fits, is cut between lines, and nothing in it can become markup."""

from __future__ import annotations

import re
from dataclasses import replace

from draftgate.gates.result import GateResult
from draftgate.reports.markdown import LIMIT, code, fit, render_markdown, safe
from draftgate.reports.page import build_page
from draftgate.reports.records import RunRecords
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic_run import SyntheticRun

lines = st.lists(
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r"), max_size=60),
    min_size=1,
    max_size=9,
)


@given(st.lists(lines.map("\n".join), min_size=1, max_size=6), st.integers(150, 600))
def test_what_does_not_fit_is_cut_between_lines_and_said(blocks: list[str], limit: int) -> None:
    text = fit(blocks, limit)
    assert len(text.encode()) <= limit
    whole = "\n\n".join(blocks) + "\n"
    if len(whole.encode()) <= limit:
        assert text == whole
    else:
        assert text.rstrip().endswith("report.html.*")
        body = text[: text.rindex("\n\n*Shortened")]
        kept = set("\n\n".join(blocks).split("\n"))
        assert all(line in kept for line in body.split("\n"))


def test_a_huge_report_still_fits(records: RunRecords, shared_run: SyntheticRun) -> None:
    many = tuple(GateResult(f"gate-{i}", "fail", "é" * 900) for i in range(200))
    text = render_markdown(build_page(records, replace(shared_run.verdict, gates=many, verdict="NO-GO")))
    assert len(text.encode()) <= LIMIT and "Shortened" in text and text.startswith("## ✕ NO-GO")


@given(st.text())
def test_text_from_outside_stays_text(text: str) -> None:
    assert not re.search(r"(?<!\\)[`*_\[\]<>|#~@]", safe(text))
    assert "\n" not in safe(text) and "\n" not in code(text)
    assert code(text).count("`") == 2


def test_a_hostile_name_does_not_add_a_cell(records: RunRecords, shared_run: SyntheticRun) -> None:
    bad = GateResult("x|y`z", "fail", "a | b\n| c | <img src=x> @all [t](http://e.x)")
    text = render_markdown(build_page(records, replace(shared_run.verdict, gates=(bad,), verdict="NO-GO")))
    row = next(line for line in text.splitlines() if line.startswith("| `x"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 7
    assert "<img" not in text.replace("\\<img", "") and "](http" not in text.replace("\\]", "")


def test_the_verdict_comes_first_and_every_stratum_is_there(records: RunRecords, shared_run: SyntheticRun) -> None:
    text = render_markdown(build_page(records, shared_run.verdict))
    assert text.splitlines()[0].endswith("GO: `neural_draft`")
    for stratum in records.strata:
        assert safe(stratum) in text
    assert shared_run.plan_id in text
