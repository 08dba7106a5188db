"""The verdict in a terminal: first line first, within the width, no colour codes in a pipe."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from draftgate.gates.result import GateResult, combine
from draftgate.reports.terminal import print_verdict
from rich.cells import cell_len
from support.synthetic_run import SyntheticRun


def shown(verdict: object, width: int) -> str:
    file = io.StringIO()
    print_verdict(verdict, file, width)  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize("width", [50, 80, 100, 160])
def test_it_fits_and_is_plain_in_a_pipe(shared_run: SyntheticRun, width: int) -> None:
    text = shown(shared_run.verdict, width)
    assert "\x1b" not in text
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "GO" in text.splitlines()[1]
    for gate in shared_run.verdict.gates:
        assert gate.id in text


def test_markup_in_a_reason_is_text_and_open_gates_are_explained(shared_run: SyntheticRun) -> None:
    gates = (GateResult("speedup", "inconclusive", "[red]too few[/red] prompts"), GateResult("[b]x", "fail", "slow"))
    name, reasons = combine(gates)
    text = shown(replace(shared_run.verdict, verdict=name, gates=gates, reasons=reasons), 100)
    assert "[red]too few[/red] prompts" in text and "[b]x" in text
    assert "What would change it" in text and "NO-GO" in text.splitlines()[1]


def test_colours_only_where_they_are_wanted(shared_run: SyntheticRun, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = Terminal()
    print_verdict(shared_run.verdict, file, 100)
    assert "\x1b[" in file.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_verdict(shared_run.verdict, plain, 100)
    assert "\x1b[32" not in plain.getvalue() and "\x1b[1;7;32" not in plain.getvalue()
