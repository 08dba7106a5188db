"""Importers: hand-made files in each format become our prompts, with source, licence and hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draftgate.strata.errors import StrataError
from draftgate.strata.importers import IMPORTERS, import_file
from draftgate.strata.load import Problem, load_stratum
from draftgate.strata.schema import Message, Prompt, from_record


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def imported(kind: str, path: Path, **options: Any) -> list[Prompt]:
    return list(import_file(kind, path, licence="CC0-1.0", **options))


def users(prompt: Prompt) -> list[str]:
    return [turn[-1].content for turn in prompt.turns]


@pytest.mark.parametrize("kind", ["spec-bench", "mt-bench"])
def test_questions_with_turns(tmp_path: Path, kind: str) -> None:
    path = write(
        tmp_path / "question.jsonl",
        {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."], "reference": ["x"]},
        {"question_id": 82, "category": "math reasoning", "turns": ["1+1?"]},
    )
    first, second = imported(kind, path)
    assert (first.id, first.stratum, users(first)) == (f"{kind}-81", "writing", ["Write.", "Again."])
    assert second.stratum.startswith("math_reasoning")
    assert first.source == {
        "kind": kind,
        "file": "question.jsonl",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "licence": "CC0-1.0",
        "record": 1,
    }
    assert all(from_record(p.record()) == p for p in (first, second))


def test_a_given_stratum_turns_the_category_into_a_tag(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question_id": 1, "category": "qa", "turns": ["Why?"]})
    (prompt,) = imported("spec-bench", path, stratum="bench")
    assert (prompt.stratum, prompt.tags) == ("bench", ("qa",))


SPEED = {
    "question_id": "ab12",
    "category": "coding",
    "sub_category": "python",
    "turns": ["Write f.", "Now g."],
    "source": "made up",
    "src_id": "7",
    "difficulty": "hard",
    "multiturn": True,
}


def test_speed_bench_rows_from_parquet_and_from_lines_are_the_same(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([SPEED]), tmp_path / "test.parquet")
    write(tmp_path / "test.jsonl", SPEED)
    (a,) = imported("speed-bench", tmp_path / "test.parquet")
    (b,) = imported("speed-bench", tmp_path / "test.jsonl")
    assert (a.id, a.stratum, a.turns, a.tags) == (b.id, b.stratum, b.turns, b.tags)
    assert (a.id, a.stratum, users(a)) == ("speed-bench-ab12", "coding", ["Write f.", "Now g."])
    assert {"python", "hard"} <= set(a.tags)


CONVERSATION = {
    "id": "QWJ_0",
    "conversations": [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "Hello"},
        {"from": "gpt", "value": "Hi!"},
        {"from": "human", "value": "Bye"},
        {"from": "gpt", "value": "Bye!"},
    ],
}


@pytest.mark.parametrize("array", [False, True])
def test_sharegpt_keeps_the_humans_turns_only(tmp_path: Path, array: bool) -> None:
    path = tmp_path / "sharegpt.json"
    if array:
        path.write_text(json.dumps([CONVERSATION, {**CONVERSATION, "id": "b"}], indent=2))
    else:
        write(path, CONVERSATION, {**CONVERSATION, "id": "b"})
    first, second = imported("sharegpt", path)
    assert users(first) == ["Hello", "Bye"]
    assert first.turns[0][0] == Message("system", "Be brief.")
    assert "Hi!" not in first.text()
    assert (first.id, second.id) == ("sharegpt-QWJ_0", "sharegpt-b")


def test_openai_chats_keep_their_history_up_to_the_last_question(tmp_path: Path) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "Bye"},
        {"role": "assistant", "content": "Bye!"},
    ]
    path = write(
        tmp_path / "chat.jsonl",
        {"messages": messages},
        {"custom_id": "r-2", "body": {"model": "m", "messages": messages[:2], "max_completion_tokens": 9}},
    )
    first, second = imported("openai-chat", path)
    assert [(m.role, m.content) for m in first.turns[0]] == [
        ("system", "Be brief."),
        ("user", "Hello\nthere"),
        ("assistant", "Hi!"),
        ("user", "Bye"),
    ]
    assert (first.id, second.id, second.max_new_tokens) == ("openai-chat-1", "openai-chat-r-2", 9)
    assert first.stratum == "chat"


def test_plain_text_is_a_prompt_a_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("Où est le pont ?\r\n\n  Why?  \n".encode())
    prompts = imported("text", path)
    assert [users(p) for p in prompts] == [["Où est le pont ?"], ["Why?"]]
    assert [p.source["record"] for p in prompts] == [1, 3]


BAD: dict[str, list[Any]] = {
    "spec-bench": [{"question_id": 1}, {"question_id": 1, "turns": "x"}, {"question_id": 1, "turns": [1]}, "x", []],
    "mt-bench": [{"turns": []}],
    "speed-bench": [{"turns": [""]}],
    "sharegpt": [
        {"id": "a"},
        {"conversations": [{"from": "robot", "value": "x"}]},
        {"conversations": []},
        {"conversations": [{"from": "gpt", "value": "only an answer"}]},
    ],
    "openai-chat": [
        {},
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
        {"messages": [{"role": "user", "content": "x"}], "max_tokens": "many"},
    ],
}
GOOD = {
    "spec-bench": {"question_id": 9, "turns": ["x"]},
    "mt-bench": {"question_id": 9, "turns": ["x"]},
    "speed-bench": {"question_id": 9, "turns": ["x"]},
    "sharegpt": {"id": 9, "conversations": [{"from": "human", "value": "x"}]},
    "openai-chat": {"messages": [{"role": "user", "content": "x"}]},
}


@pytest.mark.parametrize("kind", BAD)
def test_a_record_that_cannot_be_mapped_costs_no_other(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "in.jsonl", *BAD[kind], GOOD[kind])
    with path.open("ab") as handle:
        handle.write(b"\xff\xfe\n{]\n")
    problems: list[Problem] = []
    assert [users(p) for p in imported(kind, path, on_problem=problems.append)] == [["x"]]
    n = len(BAD[kind])
    assert [p.line for p in problems] == [*range(1, n + 1), n + 2, n + 3]
    with pytest.raises(StrataError, match=r"in\.jsonl:1: "):
        imported(kind, path)


@pytest.mark.parametrize("text", ["[", "[{}", '[{"id": 1}, ', "[1, 2", '[{"a": "' + "x" * 200_000, "[nope]"])
def test_a_broken_array_ends_with_a_problem_not_a_crash(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    problems: list[Problem] = []
    assert imported("sharegpt", path, on_problem=problems.append) == []
    assert problems


def test_a_large_array_is_read_across_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    said = [f"é{i} " + "long " * (i % 97) + "end" for i in range(3000)]
    records = [{"id": i, "conversations": [{"from": "human", "value": text}]} for i, text in enumerate(said)]
    path.write_text(json.dumps(records, ensure_ascii=False))
    prompts = imported("sharegpt", path)
    assert [users(p)[0] for p in prompts] == said


def test_the_reserve_does_not_depend_on_the_order(tmp_path: Path) -> None:
    records = [{"question_id": i, "turns": ["x"]} for i in range(300)]
    there = imported("mt-bench", write(tmp_path / "a.jsonl", *records))
    back = imported("mt-bench", write(tmp_path / "b.jsonl", *records[::-1]))
    reserve = {p.id for p in there if p.split == "reserve"}
    assert reserve == {p.id for p in back if p.split == "reserve"}
    assert 70 <= len(reserve) <= 130
    assert all(p.split == "open" for p in imported("mt-bench", tmp_path / "a.jsonl", reserve_every=0))


def test_the_same_key_twice_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"question_id": 1, "turns": ["x"]}, {"question_id": 1, "turns": ["y"]})
    with pytest.raises(StrataError, match="duplicate id"):
        imported("mt-bench", path)


def test_strange_keys_become_ids_and_stay_apart(tmp_path: Path) -> None:
    keys = ["a/b", "a b", "a\nb", "é", "x" * 300, "../../etc"]
    path = write(tmp_path / "a.jsonl", *({"question_id": k, "turns": ["x"]} for k in keys))
    assert len({p.id for p in imported("mt-bench", path)}) == len(keys)


def test_unknown_kinds_and_missing_files_are_user_errors(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match="mt-bench"):
        imported("mtbench", tmp_path / "a")
    for kind in IMPORTERS:
        with pytest.raises(StrataError, match="No such file"):
            imported(kind, tmp_path / "missing")


def test_what_was_written_loads_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"question_id": 1, "category": "c", "turns": ["x", "y"]})
    prompts = imported("mt-bench", path)
    out = write(tmp_path / "out.jsonl", *(p.record() for p in prompts))
    assert load_stratum(out) == prompts
