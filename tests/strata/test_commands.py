"""`draftgate strata …`, through the front door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness.cli import main
from draftgate.strata.coverage import EVENTS, events, repeats
from draftgate.strata.examine import EDGES, histogram, quantile
from draftgate.strata.load import load_stratum, names
from draftgate.strata.schema import from_record


def strata(*words: str) -> int:
    return main(["strata", *words])


def test_list_names_every_stratum(capsys: pytest.CaptureFixture[str]) -> None:
    assert strata("list", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["strata"]}
    assert sorted(rows) == names()
    assert sum(row["designated"] for row in rows.values()) == 4
    assert rows["code"]["prompts"] == len(load_stratum("code"))
    assert strata("list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in rows)


def test_show_prints_prompts_and_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert strata("show", "code", "--json", "--split", "reserve") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records and all(from_record(r).split == "reserve" for r in records)
    assert strata("show", "casual_chat", "--id", "casual_chat-003") == 0
    shown = capsys.readouterr().out
    assert "rainy Sunday" in shown and "(answer)" in shown
    assert strata("show", "code", "--id", "nope") == 2
    assert strata("show", "nowhere") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_markup_in_prompts_is_shown_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"id": "a", "prompt": "[bold]x[/bold] [/nothing] [red]"}\n')
    assert strata("show", str(path)) == 0
    assert "[bold]x[/bold] [/nothing] [red]" in capsys.readouterr().out
    assert strata("check", str(path)) == 0


def test_check_of_all_sets_finds_no_problem_and_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert strata("check", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["sets"]) == 14
    assert {event for part in report["sets"] for event, n in part["events"].items() if n} >= set(EVENTS) - {
        "context_edge"
    }
    for part in report["sets"]:
        assert not part["problems"] and not part["near_duplicates"]
        assert sum(part["histogram"].values()) == part["prompts"] == part["compared"]


def test_check_by_the_real_tokenizer(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert strata("check", "long_context", "code", "--model", str(smollm2), "--json") == 0
    long, code = json.loads(capsys.readouterr().out)["sets"]
    assert 8180 <= long["tokens"]["max"] <= 8192 and long["over_limit"] == 0
    assert long["events"]["context_edge"] >= 2
    assert 20 < code["tokens"]["min"] < code["tokens"]["max"] < 600


def test_check_names_bad_lines_and_keeps_counting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    good = [
        json.dumps({"id": f"p{i}", "prompt": f"Tell me about number {i} and the colour of {i * i}."}) for i in range(5)
    ]
    twin = json.dumps({"id": "twin", "prompt": "Tell me about number 3 and the colour of 9!"})
    sibling = json.dumps({"id": "sib", "family_id": "p4", "prompt": "Tell me about number 4 and the colour of 16?"})
    path.write_text("\n".join([*good, "{", twin, sibling, '{"id": "p1", "prompt": "again"}']))
    assert strata("check", str(path), "--json") == 2
    captured = capsys.readouterr()
    (part,) = json.loads(captured.out)["sets"]
    assert part["prompts"] == 7 and part["problem_count"] == 2
    assert [p["line"] for p in part["problems"]] == [6, 9]
    assert [(d["first"], d["second"]) for d in part["near_duplicates"]] == [("p3", "twin")]
    assert "2 bad record" in captured.err
    assert strata("check", str(path)) == 2
    assert "mine.jsonl:6:" in capsys.readouterr().out.replace("\n", "")


def test_check_of_a_file_without_prompts_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert strata("check", str(path)) == 2
    assert "empty.jsonl: no prompts" in capsys.readouterr().err


def test_import_writes_prompts_and_says_where_they_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "q.jsonl", tmp_path / "deep" / "out.jsonl"
    source.write_text('{"question_id": 1, "category": "qa", "turns": ["Why?"]}\n{"question_id": 2}\n')
    assert strata("import", "spec-bench", str(source), "--out", str(out), "--licence", "MIT") == 2
    captured = capsys.readouterr()
    assert "q.jsonl:2:" in captured.err and "1 prompts" in captured.out
    (prompt,) = load_stratum(out)
    assert prompt.source["licence"] == "MIT"
    sidecar = json.loads((tmp_path / "deep" / "out.jsonl.source.json").read_text())
    assert (
        sidecar["sha256"] == prompt.source["sha256"] and sidecar["not_imported"] == 1 and "turns" in sidecar["mapping"]
    )


def test_import_of_nothing_leaves_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "q.jsonl", tmp_path / "out.jsonl"
    source.write_text("{}\n")
    out.write_text("precious")
    assert strata("import", "mt-bench", str(source), "--out", str(out)) == 2
    assert out.read_text() == "precious"
    assert strata("import", "mt-bench", str(source), "--out", str(source)) == 2
    assert source.read_text() == "{}\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "q.jsonl"]
    capsys.readouterr()


def test_seal_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, folder = tmp_path / "mine.jsonl", tmp_path / "sealed"
    records = [p.record() for p in load_stratum("rewrites")]
    write = lambda: mine.write_text("".join(json.dumps(r) + "\n" for r in records))  # noqa: E731
    write()
    assert strata("seal", str(mine), "--out", str(folder)) == 0
    assert (folder / "salt.hex").stat().st_mode & 0o077 == 0
    words = ("verify-seal", str(mine), str(folder / "seal.json"), str(folder / "salt.hex"))
    assert strata(*words) == 0
    assert strata("seal", str(mine), "--out", str(folder)) == 2  # never over an older salt
    changed = next(r for r in records if r["split"] == "reserve")
    changed["language"] = "fr"
    write()
    capsys.readouterr()
    assert strata(*words) == 5
    assert f"changed: {changed['id']}" in capsys.readouterr().out
    (folder / "seal.json").write_text("{")
    assert strata(*words) == 2


def test_hashes_of_a_users_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from draftgate.strata.contamination import is_contaminated, read_hashes

    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "a", "prompt": "the quick brown fox went over to the lazy dog for its tea"}\n')
    assert strata("hashes", str(path), "--out", str(tmp_path / "h.bin")) == 0
    assert is_contaminated(
        "The quick brown fox went over to the lazy dog for its tea.", read_hashes(tmp_path / "h.bin")
    )
    capsys.readouterr()


CASES: list[tuple[dict[str, Any], int, set[str], set[str]]] = [
    ({"prompt": "Why is it so?"}, 10, {"stop", "length", "reject", "no_proposal"}, {"grammar", "context_edge"}),
    ({"prompt": "x", "max_new_tokens": 100}, 8100, {"context_edge", "draft_edge"}, set()),
    ({"prompt": "x", "max_new_tokens": 92}, 8100, {"draft_edge"}, {"context_edge"}),
    ({"raw": "a b a b a b"}, 6, {"full_accept", "length"}, {"stop", "no_proposal"}),
    ({"turns": ["x", "y"]}, 6, {"second_turn"}, set()),
    ({"prompt": "x", "check": {"kind": "json_schema", "schema": {}}}, 6, {"grammar", "stop_string"}, set()),
    ({"prompt": "ቡና"}, 6, {"rare_bytes"}, set()),
    ({"prompt": "“naïve” café – привет"}, 6, set(), {"rare_bytes"}),
    (
        {"prompt": "Copy ABC-123-XYZ", "check": {"kind": "extraction", "expected": "ABC-123-XYZ"}},
        6,
        {"full_accept"},
        {"reject"},
    ),
]


@pytest.mark.parametrize(("fields", "tokens", "has", "lacks"), CASES)
def test_events_are_read_off_the_prompt(fields: dict[str, Any], tokens: int, has: set[str], lacks: set[str]) -> None:
    found = set(events(from_record({"id": "a", "stratum": "s", **fields}), tokens, 8192))
    assert has <= found <= set(EVENTS)
    assert not lacks & found


def test_repeats_and_histogram_count_exactly() -> None:
    assert repeats("a b a b".split()) == pytest.approx(1 / 3)
    assert repeats([]) == repeats(["a"]) == 0.0
    counts = histogram([1, 32, 33, EDGES[-1], EDGES[-1] + 1])
    assert (counts["<=32"], counts["<=64"], counts["<=8192"], counts[">8192"]) == (2, 1, 1, 1)
    assert [quantile([1, 2, 3, 4], q) for q in (0.0, 0.5, 0.9, 1.0)] == [1, 3, 4, 4]
