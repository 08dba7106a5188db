"""Task checks: each scores 1 for a right answer, less for a wrong one, and never leaves [0, 1]."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from draftgate.strata.checks import KINDS, run_check, validate_check
from draftgate.strata.checks.data import find_json
from draftgate.strata.checks.text import measure, script_of
from draftgate.strata.errors import StrataError
from hypothesis import given, settings
from hypothesis import strategies as st

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
BIRDS = "CREATE TABLE b(name TEXT, g INT); INSERT INTO b VALUES ('wren', 9), ('crow', 510), ('heron', 1500);"

# kind -> cases of (parameters, right answers, (wrong answer, its score))
CASES: list[tuple[dict[str, Any], list[str], list[tuple[str, float]]]] = [
    (
        {"kind": "json_schema", "schema": SCHEMA},
        ['{"n": 3}', 'Sure!\n```json\n{"n": 3}\n```\nAnything else?', 'Here: {"n": 3} as asked', '```\n{"n":3}'],
        [
            ('{"n": "3"}', 0.5),
            ('{"n": 3, "m": 1}', 0.5),
            ('{"n": 3', 0.0),
            ("three", 0.0),
            ("", 0.0),
            ('{"n": NaN}', 0.0),
        ],
    ),
    (
        {"kind": "extraction", "expected": {"date": "9 May", "n": 2}},
        ['{"date": "9 May", "n": 2}', "date: 9 may\nn: 2", "**Date:** 9 May.\n**N:** 2", '{"Date": "9 May", "n": "2"}'],
        [('{"date": "9 May"}', 0.5), ("no", 0.0), ('{"date": "10 May", "n": 3}', 0.0), ("", 0.0)],
    ),
    (
        {"kind": "extraction", "expected": ["a@b.example", "c@d.example"]},
        [
            "a@b.example\nc@d.example",
            '["a@b.example", "c@d.example"]',
            "1. a@b.example\n2. c@d.example",
            "a@b.example, c@d.example",
        ],
        [("a@b.example", 2 / 3), ("x\ny", 0.0), ("", 0.0), ("a@b.example\na@b.example", 0.5)],
    ),
    (
        {"kind": "extraction", "expected": "RX 44"},
        ["RX 44", " rx  44. ", '"RX 44"'],
        [("The number is RX 44", 0.0), ("RX 45", 0.0), ("", 0.0)],
    ),
    (
        {"kind": "extraction", "expected": 16, "mode": "contains"},
        ["16", "It is 16 crowns."],
        [("It is 416.", 0.0), ("sixteen", 0.0)],
    ),
    (
        {"kind": "number", "value": 600},
        ["600", "2000 * 0.3 = 600", "It's 600.0 euros", "600,"],
        [("60", 0.0), ("", 0.0)],
    ),
    ({"kind": "number", "value": -1234.5}, ["-1,234.5", "−1234.5"], [("1234.5", 0.0)]),
    ({"kind": "number", "value": 10, "tolerance": 1}, ["10.9", "9"], [("11.5", 0.0)]),
    (
        {"kind": "python"},
        ["x = 1", "```python\nprint('hi')\n```", "def f(): pass"],
        [("def f(:", 0.0), ("hello", 0.0), ("42", 0.0), ("", 0.0)],
    ),
    (
        {"kind": "python", "tests": ["assert f(2) == 4", "assert f(0) == 0"]},
        ["def f(x): return 2 * x", "Here you go:\n```python\ndef f(x):\n    return x + x\n```\nIt doubles."],
        [
            ("def f(x): return x * x + x - x", 1.0),
            ("def f(x): return 4", 0.625),
            ("def g(x): return x", 0.25),
            ("f(x) =", 0.0),
        ],
    ),
    (
        {"kind": "sql", "setup": BIRDS, "rows": [["crow"], ["heron"]]},
        ["SELECT name FROM b WHERE g > 500", "```sql\nSELECT name FROM b WHERE g >= 510 ORDER BY g DESC;\n```"],
        [("SELECT name FROM b", 0.25), ("SELEC name", 0.0), ("", 0.0)],
    ),
    (
        {"kind": "sql", "setup": BIRDS, "rows": [["heron"], ["crow"], ["wren"]], "ordered": True},
        ["SELECT name FROM b ORDER BY g DESC"],
        [("SELECT name FROM b ORDER BY g", 0.25)],
    ),
    (
        {"kind": "script", "script": "Cyrillic"},
        ["Маяк светит."],
        [("The lighthouse shines", 0.0), ("", 0.0), ("123", 0.0)],
    ),
    ({"kind": "script", "script": "Kana"}, ["東京まで二時間です。"], [("东京很远", 0.0), ("Tokyo", 0.0)]),
    ({"kind": "script", "script": "Han"}, ["因为天冷了。"], [("because", 0.0), ("ひらがなだけ", 0.0)]),
    (
        {"kind": "length", "unit": "words", "min": 2, "max": 4},
        ["one two", "it's a well-known fact"],
        [("one", 0.5), ("a b c d e f g h", 0.5), ("", 0.0)],
    ),
    ({"kind": "length", "unit": "sentences", "max": 1}, ["One.", "One"], [("One. Two.", 0.5), ("!", 0.0), ("  ", 0.0)]),
    (
        {"kind": "list_of_n", "n": 3},
        ["- a\n- b\n- c", "1. a\n2. b\n3. c", "a\nb\nc", "Here:\n* a\n* b\n* c\nBye"],
        [("- a\n- b", 2 / 3), ("- a\n" * 6, 0.5), ("", 0.0)],
    ),
    (
        {"kind": "contains", "all": ["Kofi", "42"], "none": ["Osei"]},
        ["Morning, KOFI, it is 42 today"],
        [("Kofi Osei 42", 0.0), ("Kofi", 0.5), ("Kofi 142", 0.5), ("", 0.0)],
    ),
    ({"kind": "contains", "any": ["a)", "b)"]}, ["b) soup"], [("soup", 0.0)]),
    ({"kind": "contains", "none": ["\n- "]}, ["plain text"], [("list:\n- a", 0.0), ("", 0.0)]),
    ({"kind": "equals", "text": "Yes"}, ["yes.", '"Yes"'], [("Yes, it is", 0.0), ("", 0.0)]),
    (
        {"kind": "all", "checks": [{"kind": "contains", "all": ["x"]}, {"kind": "length", "unit": "words", "max": 2}]},
        ["x y"],
        [("a b", 0.5), ("x a b c", 0.75), ("", 0.0)],
    ),
]


@pytest.mark.parametrize(("check", "right", "wrong"), CASES, ids=lambda v: v.get("kind") if isinstance(v, dict) else "")
def test_right_answers_score_one_and_wrong_ones_less(
    check: dict[str, Any], right: list[str], wrong: list[tuple[str, float]]
) -> None:
    validate_check(check)
    for answer in right:
        assert run_check(check, answer) == 1.0, answer
    for answer, score in wrong:
        assert run_check(check, answer) == pytest.approx(score), answer


def test_every_kind_has_a_case_that_passes_and_one_that_fails() -> None:
    covered = {check["kind"] for check, right, wrong in CASES if right and any(score < 1 for _, score in wrong)}
    assert covered == {*KINDS, "all"}


@pytest.mark.parametrize(
    "check", [c for c, _, _ in CASES if c["kind"] not in ("python", "sql")], ids=lambda c: c["kind"]
)
@settings(max_examples=40, deadline=None)
@given(answer=st.text(max_size=300))
def test_any_answer_scores_in_the_unit_interval(check: dict[str, Any], answer: str) -> None:
    assert 0.0 <= run_check(check, answer) <= 1.0


MALFORMED = [
    {},
    {"kind": "nope"},
    {"kind": 3},
    {"kind": "length", "unit": "words"},
    {"kind": "length", "unit": "furlongs", "max": 3},
    {"kind": "length", "unit": "words", "min": 5, "max": 3},
    {"kind": "length", "unit": "words", "max": True},
    {"kind": "length", "unit": "words", "max": 3, "mx": 4},
    {"kind": "contains"},
    {"kind": "contains", "all": []},
    {"kind": "contains", "all": [1]},
    {"kind": "contains", "none": [" "]},
    {"kind": "script", "script": "Klingon"},
    {"kind": "script", "script": "Latin", "share": 0},
    {"kind": "number", "value": "5"},
    {"kind": "number", "value": float("nan")},
    {"kind": "list_of_n"},
    {"kind": "list_of_n", "n": 0},
    {"kind": "extraction", "expected": {}},
    {"kind": "extraction", "expected": "x", "mode": "fuzzy"},
    {"kind": "json_schema", "schema": {"$ref": "https://example.org/s.json"}},
    {"kind": "json_schema", "schema": {"pattern": "("}},
    {"kind": "python", "tests": ["assert ("]},
    {"kind": "python", "tests": [1]},
    {"kind": "python", "seconds": 0},
    {"kind": "python", "seconds": 3600},
    {"kind": "sql", "setup": "", "rows": ["a"]},
    {"kind": "all", "checks": []},
    {"kind": "all", "checks": [{"kind": "nope"}]},
]


@pytest.mark.parametrize("check", MALFORMED, ids=repr)
def test_malformed_checks_are_refused(check: dict[str, Any]) -> None:
    with pytest.raises(StrataError):
        validate_check(check)


HOSTILE = {
    "early exit": "import sys\ndef f(x): return 4\nsys.exit(0)",
    "hard exit": "import os\nos._exit(0)",
    "endless loop": "while True: pass",
    "sleep": "import time\ntime.sleep(600)",
    "memory": "x = bytearray(10**10)",
    "memory by halves": "x = 'a'\nwhile True: x += x",
    "reads a file": "f = lambda x: 4\nopen('/etc/passwd').read()",
    "writes a file": "f = lambda x: 4\nopen('evil', 'w').write('x')",
    "lists a folder": "import os\nf = lambda x: 4\nos.listdir('/')",
    "socket": "import socket\nf = lambda x: 4\nsocket.socket()",
    "process": "import subprocess\nf = lambda x: 4\nsubprocess.run(['true'])",
    "fork": "import os\nf = lambda x: 4\nos.fork()",
    "shell": "import os\nf = lambda x: 4\nos.system('true')",
    "foreign library": "import ctypes\nf = lambda x: 4\nctypes.CDLL(None)",
    "signals its parent": "import os\nf = lambda x: 4\nos.kill(os.getppid(), 15)",
    "deep recursion": "def g(n): return g(n + 1)\ng(0)",
    "catches everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "package of the parent": "import draftgate\nf = lambda x: 4",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_passes_no_test_and_returns_in_time(name: str) -> None:
    check = {"kind": "python", "tests": ["assert f(2) == 4"], "seconds": 1}
    start = time.monotonic()
    assert run_check(check, HOSTILE[name]) <= 0.25
    assert time.monotonic() - start < 600  # the sleeper would have taken this long


def test_code_runs_without_the_environment_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "x")
    check = {"kind": "python", "tests": ["import os\nassert 'SECRET_OF_THE_PARENT' not in os.environ"]}
    assert run_check(check, "x = 1") == 1.0


def test_a_query_cannot_leave_memory() -> None:
    check = {"kind": "sql", "setup": "", "rows": [[1]]}
    assert run_check(check, "ATTACH 'file.db' AS f; SELECT 1") == 0.0
    assert (
        run_check(
            {**check, "seconds": 1},
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT count(*) FROM t",
        )
        == 0.0
    )


@pytest.mark.parametrize("page", ["{" * 50_000, "[" * 50_000, "{}x" * 50_000, "{[" * 50_000], ids=len)
def test_a_page_of_braces_is_tried_at_a_bounded_number_of_places(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    real = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, text: str, idx: int = 0) -> Any:
        tried.append(idx)
        return real(self, text, idx)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    find_json(page)
    assert 0 < len(tried) < 100


def test_scripts_are_told_by_letters_only() -> None:
    assert [script_of(c) for c in "aЖλक漢あア한א1 .é"] == [
        "Latin",
        "Cyrillic",
        "Greek",
        "Devanagari",
        "Han",
        "Hiragana",
        "Katakana",
        "Hangul",
        "Hebrew",
        None,
        None,
        None,
        "Latin",
    ]


@pytest.mark.parametrize(
    ("text", "unit", "n"),
    [
        ("Dr. Who? Yes!", "sentences", 3),
        ("一。二。", "sentences", 2),
        ("a\n\n\nb", "paragraphs", 2),
        ("a\n\nb\n", "lines", 2),
    ],
)
def test_lengths_are_counted_as_readers_do(text: str, unit: str, n: int) -> None:
    assert measure(text, unit) == n
