"""Prompt files: every bad line is named by file and line, and none costs the good ones."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from draftgate.strata.errors import StrataError
from draftgate.strata.load import MAX_LINE_BYTES, Problem, load_stratum, names, parse_object, prompt_file, read_jsonl
from draftgate.strata.schema import MAX_PROMPT_CHARACTERS
from hypothesis import given
from hypothesis import strategies as st

GOOD = b'{"id": "g%d", "stratum": "s", "prompt": "How deep is the well?"}'

BAD: dict[str, tuple[bytes, str]] = {
    "over-long line": (b'{"id":"x","prompt":"' + b"a" * MAX_LINE_BYTES + b'"}', "over-long"),
    "over-long text": (json.dumps({"id": "x", "prompt": "a" * (MAX_PROMPT_CHARACTERS + 1)}).encode(), "over-long"),
    "empty line": (b"", "empty"),
    "blank line": (b"  \t ", "empty"),
    "empty prompt": (b'{"id": "x", "prompt": ""}', "empty"),
    "blank prompt": (b'{"id": "x", "prompt": " \\n "}', "empty"),
    "no turns": (b'{"id": "x", "turns": []}', "empty"),
    "no messages": (b'{"id": "x", "messages": []}', "empty"),
    "duplicate id": (GOOD % 0, "duplicate id 'g0'"),
    "bad UTF-8": (b'{"id": "x", "prompt": "caf\xe9"}', "not UTF-8 at byte 26"),
    "truncated UTF-8": (b'{"id": "x", "prompt": "\xf0\x9f\x98', "not UTF-8"),
    "unknown field": (b'{"id": "x", "prompt": "p", "promt": "q"}', "unknown field 'promt'"),
    "NUL byte": (b'{"id": "x", "prompt": "a\x00b"}', "NUL"),
    "escaped NUL": (b'{"id": "x", "prompt": "a\\u0000b"}', "NUL"),
    "lone surrogate": (b'{"id": "x", "prompt": "\\ud800"}', "surrogate"),
    "not JSON": (b'{"id": "x", "prompt": ', "not JSON"),
    "not an object": (b'["x"]', "a list"),
    "two objects": (b'{"id": "x", "prompt": "p"} {"id": "y", "prompt": "p"}', "not JSON"),
    "key twice": (b'{"id": "x", "id": "y", "prompt": "p"}', "twice"),
    "NaN": (b'{"id": "x", "prompt": "p", "max_new_tokens": NaN}', "NaN"),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "huge number": (b'{"id": "x", "prompt": "p", "max_new_tokens": ' + b"9" * 5000 + b"}", "not usable JSON"),
    "no id": (b'{"prompt": "p"}', "id is missing"),
    "id with a slash": (b'{"id": "../x", "prompt": "p"}', "id '../x'"),
    "two contents": (b'{"id": "x", "prompt": "p", "raw": "p"}', "exactly one"),
    "no content": (b'{"id": "x"}', "exactly one"),
    "unknown role": (b'{"id": "x", "messages": [{"role": "tool", "content": "p"}]}', "role 'tool'"),
    "ends with assistant": (b'{"id": "x", "messages": [{"role": "assistant", "content": "p"}]}', "ends with"),
    "system in the middle": (
        b'{"id": "x", "turns": ["a", [{"role": "system", "content": "s"}, {"role": "user", "content": "b"}]]}',
        "system",
    ),
    "bad split": (b'{"id": "x", "prompt": "p", "split": "test"}', "split 'test'"),
    "bad language": (b'{"id": "x", "prompt": "p", "language": "English"}', "language 'English'"),
    "bad budget": (b'{"id": "x", "prompt": "p", "max_new_tokens": 0}', "max_new_tokens 0"),
    "boolean budget": (b'{"id": "x", "prompt": "p", "max_new_tokens": true}', "max_new_tokens True"),
    "unknown check": (b'{"id": "x", "prompt": "p", "check": {"kind": "vibes"}}', "check kind 'vibes'"),
    "check of no turn": (b'{"id": "x", "prompt": "p", "check": {"kind": "number", "value": 1, "turn": 3}}', "turn 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_and_costs_no_good_one(tmp_path: Path, name: str) -> None:
    line, says = BAD[name]
    path = tmp_path / "set.jsonl"
    path.write_bytes(b"\n".join([GOOD % 0, GOOD % 1, line, GOOD % 2, b""]))
    problems: list[Problem] = []
    assert [p.id for p in read_jsonl(path, on_problem=problems.append)] == ["g0", "g1", "g2"]
    assert [(p.line, says in p.text) for p in problems] == [(3, True)], problems
    with pytest.raises(StrataError, match=r"set\.jsonl:3: ") as raised:
        load_stratum(path)
    assert raised.value.exit_code == 2
    assert len(str(raised.value)) < 500


def test_all_bad_lines_together_leave_all_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    bad = [line for name, (line, _) in BAD.items() if name != "duplicate id"]
    path.write_bytes(b"\n".join(part for i, line in enumerate(bad) for part in (line, GOOD % i)))
    problems: list[Problem] = []
    good = [p.id for p in read_jsonl(path, on_problem=problems.append)]
    assert good == [f"g{i}" for i in range(len(bad))]
    assert [p.line for p in problems] == list(range(1, 2 * len(bad), 2))


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_line_ends_and_byte_order_mark_do_not_matter(tmp_path: Path, ending: bytes) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD % 0 + (ending or b"\n") + GOOD % 1 + ending)
    assert [p.id for p in load_stratum(path)] == ["g0", "g1"]


def test_a_record_without_a_stratum_takes_the_name_of_file_or_folder(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for path in (folder / "prompts.jsonl", tmp_path / "mine.jsonl"):
        path.write_text('{"id": "a", "prompt": "p"}\n')
        assert load_stratum(path)[0].stratum == "mine"
    assert load_stratum(folder)[0].stratum == "mine"


def test_unknown_names_and_empty_files_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match="casual_chat"):
        load_stratum("casual_chatt")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(StrataError, match="no prompts"):
        load_stratum(tmp_path / "empty.jsonl")
    assert prompt_file("code").name == "prompts.jsonl"
    assert len(names()) == 14


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_strata_error(line: bytes) -> None:
    try:
        parse_object(line)
    except StrataError:
        pass


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    path, lines, text = tmp_path / "set.jsonl", 4000, "x" * 4000
    with path.open("w") as handle:
        for i in range(lines):
            handle.write(json.dumps({"id": f"p{i}", "stratum": "s", "prompt": text}) + "\n")
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_jsonl(path)) == lines
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 10


@pytest.mark.long
def test_a_million_lines_stream_in_200_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    with path.open("w") as handle:
        for i in range(1_000_000):
            handle.write(f'{{"id": "user-{i}", "stratum": "s", "prompt": "Question {i}: what is over the hill?"}}\n')
    program = (
        "import resource, sys; from draftgate.strata.load import read_jsonl\n"
        "n = sum(1 for _ in read_jsonl(sys.argv[1]))\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    count, peak = map(int, done.stdout.split())
    assert count == 1_000_000
    assert peak <= 200e6


@pytest.mark.long
def test_the_check_command_streams_a_million_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    with path.open("w") as handle:
        for i in range(1_000_000):
            handle.write(f'{{"id": "user-{i}", "stratum": "s", "prompt": "Question {i}: what is over the hill?"}}\n')
    program = (
        "import resource, sys; from draftgate.harness.cli import main\n"
        "code = main(['strata', 'check', sys.argv[1], '--json'])\n"
        "print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    *report, last = done.stdout.strip().splitlines()
    assert json.loads("\n".join(report))["sets"][0]["prompts"] == 1_000_000
    code, peak = map(int, last.split())
    assert code == 0
    assert peak <= 200e6
