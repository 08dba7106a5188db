"""The long-context stratum: lengths that land where they should, and answers that the documents bear out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draftgate.strata.checks import run_check
from draftgate.strata.errors import StrataError
from draftgate.strata.generate_long import CHAMPION_LIMIT, DRAFT_LIMIT, NEEDLES, TASKS, TRUNCATION, Task, generate
from draftgate.strata.load import data_folder, load_stratum
from draftgate.strata.long_documents import KINDS, entries
from draftgate.strata.schema import Prompt

FILE = data_folder() / "long_context" / "prompts.jsonl"
PROMPTS = load_stratum("long_context")


def by_words(prompt: Prompt) -> int:
    return sum(len(text.split()) for text in prompt.texts())


def test_the_committed_file_is_what_the_generator_makes_for_the_real_tokenizer(smollm2: Path) -> None:
    from draftgate.harness.cli import Services

    count = Services().token_counter(smollm2)
    assert [json.dumps(r, ensure_ascii=False) for r in generate(count)] == FILE.read_text("utf-8").splitlines()
    for task, prompt in zip(TASKS, PROMPTS, strict=True):
        assert task.tokens - 3 <= count(prompt) <= task.tokens, prompt.id


def test_every_length_class_and_edge_is_there() -> None:
    wanted = [task.tokens for task in TASKS]
    assert all(wanted.count(n) >= 3 for n in (1000, 2000, 4000, 6000))
    edges = {
        "edge-champion": (CHAMPION_LIMIT, 3),
        "edge-draft-2048": (DRAFT_LIMIT, 2),
        "edge-truncation-1024": (TRUNCATION, 2),
    }
    for tag, (limit, least) in edges.items():
        near = [task for task in TASKS if tag in task.tags]
        assert len(near) >= least
        assert all(abs(task.tokens - limit) <= 64 for task in near)
    passing = [t for t in TASKS if t.tokens + t.max_new_tokens > CHAMPION_LIMIT]
    assert len(passing) >= 2 and all("context-edge" in t.tags for t in passing)
    assert max(wanted) <= CHAMPION_LIMIT - 3
    assert FILE.stat().st_size < 1_500_000


def test_the_same_seed_begins_the_same_document() -> None:
    for kind in KINDS:
        long = entries(kind, 7, 60)
        assert entries(kind, 7, 20) == long[:20] != entries(kind, 8, 20)
        assert len({e.key for e in long}) == len({e.value for e in long}) == 60


@pytest.mark.parametrize("index", range(len(TASKS)), ids=lambda i: PROMPTS[i].id)
def test_the_answer_stands_in_the_document_once(index: int) -> None:
    task, prompt = TASKS[index], PROMPTS[index]
    document = prompt.turns[0][0].content
    subject, where, answer = NEEDLES[index % len(NEEDLES)]
    assert document.count(f"For the record: {subject} {where}.") == 1
    assert document.count(where) == 1
    assert prompt.check is not None
    if task.question in ("find", "summarise"):
        assert run_check(prompt.check, f"It says that {subject} {where}. That is one. And another.") == 1.0
        assert run_check(prompt.check, f"It says that {subject} in the tower. That is one. And another.") < 1.0
        assert answer in where
    else:
        assert run_check(prompt.check, document.split("\n\n", 1)[0]) < 1.0


@pytest.mark.parametrize(
    "index", [i for i, t in enumerate(TASKS) if t.question in ("largest", "smallest", "larger", "last")]
)
def test_numbers_asked_for_are_right_when_read_back_from_the_text(index: int) -> None:
    """An oracle that parses the prose, not the facts it was made from."""
    import re

    pattern = {
        "light_log": r"^(\d+ \w+(?: of the second year)?)\. Wind .*?Glass (\d+) tenths",
        "allotments": r"^(Plot \d+)\. .*?Yearly rent (\d+) crowns",
        "tickets": r"^(Ticket \d+)\. .*?Charged (\d+) crowns",
        "minutes": r"^(Meeting \d+), .*? by (\d+) votes",
        "inventory": r"^(M\.\d+)\. .*?Weight (\d+) grams",
        "letters": r"^(Letter \d+)\. .*?brought (\d+) pence",
    }[TASKS[index].kind]
    prompt = PROMPTS[index]
    text = prompt.turns[0][0].content
    values = {key.casefold(): int(n) for key, n in re.findall(pattern, text, re.MULTILINE)}
    assert len(values) > 10
    if TASKS[index].question == "larger":
        match = re.search(r"Which has the larger .*?, (.+?) or (.+?)\?", text)
        assert match is not None
        pair = [values[key.casefold()] for key in match.groups()]
        right, wrong = max(pair), min(pair)
    else:
        ordered = list(values.values())
        right = {"largest": max, "smallest": min, "last": lambda v: v[-1]}[TASKS[index].question](ordered)
        wrong = sorted(ordered)[len(ordered) // 2]
    assert prompt.check is not None
    assert run_check(prompt.check, f"It is {right}.") == 1.0
    assert run_check(prompt.check, f"It is {wrong}.") == 0.0


def test_a_needle_for_the_truncation_window_lies_outside_it() -> None:
    index = next(i for i, task in enumerate(TASKS) if "needle-outside-window" in task.tags)
    document = PROMPTS[index].turns[0][0].content
    assert document.index("For the record") < 0.1 * len(document)


def test_another_way_of_counting_gives_other_documents_of_the_wanted_length() -> None:
    records = list(generate(by_words))
    assert len(records) == len(TASKS)
    for task, record in zip(TASKS, records, strict=True):
        words = sum(len(str(turn).split()) for turn in record["turns"])
        assert task.tokens - 3 <= words <= task.tokens


def test_a_length_that_cannot_be_met_is_refused() -> None:
    def coarse(prompt: Prompt) -> int:
        return 100 * (by_words(prompt) // 10)

    assert isinstance(TASKS[0], Task)
    with pytest.raises(StrataError, match="tokens of"):
        list(generate(lambda prompt: coarse(prompt) + 50))
