"""What the strata that ship promise: sizes, reserve, variety, checks that can be met and can be failed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from draftgate.strata.checks import run_check
from draftgate.strata.checks.data import deep_validate_schema
from draftgate.strata.contamination import words
from draftgate.strata.defaults import DESIGNATED
from draftgate.strata.load import data_folder, load_stratum, names
from draftgate.strata.near import near_duplicates, sketch
from draftgate.strata.schema import Prompt
from support.strata_answers import CODE, JSON

EXPECTED = """casual_chat ambiguous_requests source_conflict current_preference distrust_of_memory summaries rewrites
structured_json extraction code repetitive_text multilingual long_context adversarial""".split()
SETS = {name: load_stratum(name) for name in EXPECTED}
ALL = [prompt for prompts in SETS.values() for prompt in prompts]


def test_the_fourteen_strata_are_there() -> None:
    assert names() == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_stratum_is_large_enough_and_has_a_reserve(name: str) -> None:
    prompts = SETS[name]
    families = {prompt.family_id for prompt in prompts}
    assert len(families) >= (40 if name in DESIGNATED else 20)
    for split, least in (("reserve", 0.25), ("open", 0.25)):
        assert sum(prompt.split == split for prompt in prompts) >= least * len(prompts)
    assert {prompt.stratum for prompt in prompts} == {name}


def test_ids_are_unique_over_all_strata_and_families_do_not_straddle_the_seal() -> None:
    assert max(Counter(prompt.id for prompt in ALL).values()) == 1
    splits: dict[str, set[str]] = {}
    for prompt in ALL:
        splits.setdefault(prompt.family_id, set()).add(prompt.split)
        assert prompt.family_id.startswith(prompt.stratum)
    assert all(len(found) == 1 for found in splits.values())


def test_no_two_prompts_are_alike_beyond_their_family() -> None:
    short = [p for p in ALL if p.stratum != "long_context"]
    pairs = near_duplicates([sketch(p.text()) for p in short], 0.4)
    alike = [
        (short[p.first].id, short[p.second].id, p.similarity)
        for p in pairs
        if short[p.first].family_id != short[p.second].family_id
    ]
    assert not alike
    texts = Counter(" ".join(words(p.text())) for p in ALL)
    again = {text for text, n in texts.items() if n > 1}
    assert all(len({p.family_id for p in ALL if " ".join(words(p.text())) == text}) == 1 for text in again)


def test_long_documents_differ_from_each_other() -> None:
    prompts = SETS["long_context"]
    pairs = near_duplicates([sketch(p.text()) for p in prompts], 0.6)
    assert not [(prompts[p.first].id, prompts[p.second].id) for p in pairs]


def test_lengths_and_openings_vary() -> None:
    for name, prompts in SETS.items():
        lengths = [len(p.text()) for p in prompts]
        assert max(lengths) > 2 * min(lengths), name
        openings = Counter(tuple(words(p.text())[:2]) for p in prompts)
        assert openings.most_common(1)[0][1] <= len(prompts) / 3, name


def test_people_write_as_people_do() -> None:
    """Some begin in lower case, some shout, some ask, some do not end their sentences."""
    text = [next(p.texts()) for p in SETS["casual_chat"]]
    assert sum(t[0].islower() for t in text) >= 5
    assert sum(t.rstrip()[-1] not in ".?!" for t in text) >= 3
    assert sum("!" in t for t in text) >= 3
    assert max(map(len, text)) > 500 and min(map(len, text)) < 20


def test_at_least_five_strata_have_conversations() -> None:
    assert sum(any(len(p.turns) > 1 for p in prompts) for prompts in SETS.values()) >= 5


def test_tasks_with_a_right_answer_have_checks() -> None:
    for name in ("summaries", "rewrites", "structured_json", "extraction", "code", "long_context"):
        checked = sum(p.check is not None for p in SETS[name])
        assert checked >= 0.9 * len(SETS[name]), name


def parts(check: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if check["kind"] == "all":
        for part in check["checks"]:
            yield from parts(part)
    else:
        yield check


def answer_by_rule(check: Mapping[str, Any]) -> str:
    """A text that meets one check of a kind that only looks at texts."""
    kind = check["kind"]
    if kind == "contains":
        return "\n".join([*check.get("all", ()), *check.get("any", ())[:1]]) or "Something else"
    if kind == "length":
        unit = {"words": "word ", "sentences": "A word. ", "characters": "a", "lines": "a\n", "paragraphs": "a\n\n"}
        return unit[check["unit"]] * (check.get("min") or check["max"])
    if kind == "list_of_n":
        return "- item\n" * check["n"]
    if kind == "number":
        return str(check["value"])
    if kind == "script":
        letter = {
            "Latin": "a",
            "Cyrillic": "ж",
            "Greek": "λ",
            "Arabic": "ع",
            "Hebrew": "א",
            "Han": "天",
            "Kana": "あ",
            "Hangul": "한",
            "Devanagari": "क",
            "Bengali": "ক",
            "Tamil": "க",
            "Thai": "ก",
            "Georgian": "ა",
            "Armenian": "ա",
            "Ethiopic": "ሀ",
            "Khmer": "ក",
            "Tibetan": "ཀ",
        }
        return letter[check["script"]] * 20
    assert kind == "extraction"
    expected = check["expected"]
    return expected if isinstance(expected, str) else json.dumps(expected, ensure_ascii=False)


BY_HAND = {f"structured_json-{n}": text for n, text in JSON.items()} | {f"code-{n}": text for n, text in CODE.items()}
CHECKED = [prompt for prompt in ALL if prompt.check is not None]


@pytest.mark.parametrize("prompt", CHECKED, ids=lambda p: p.id)
def test_each_check_passes_a_right_answer_and_fails_a_wrong_one(prompt: Prompt) -> None:
    assert prompt.check is not None
    if prompt.id in BY_HAND:
        assert run_check(prompt.check, BY_HAND[prompt.id]) == 1.0
        assert run_check(prompt.check, f"Sure, here it is:\n\n```\n{BY_HAND[prompt.id]}\n```\n") == 1.0
    for part in parts(prompt.check):
        assert prompt.id in BY_HAND or run_check(part, answer_by_rule(part)) == 1.0, part
        assert run_check(part, "") == 0.0, part
    assert run_check(prompt.check, "§") < 1.0


def test_json_schemas_are_schemas_and_refuse_an_empty_object() -> None:
    for prompt in CHECKED:
        for part in parts(prompt.check or {}):
            if part["kind"] == "json_schema":
                assert deep_validate_schema(part["schema"]) is None, prompt.id
                assert run_check(part, "{}") == 0.5, prompt.id


def test_what_is_to_be_extracted_stands_in_the_text() -> None:
    inferred = {"Eva Novak", "Petr Novak"}  # named apart in the chat: "Novaks", then "Eva and Petr"
    for prompt in SETS["extraction"]:
        for part in parts(prompt.check or {}):
            if part["kind"] != "extraction":
                continue
            expected = part["expected"]
            values = expected.values() if isinstance(expected, dict) else expected
            for value in [expected] if isinstance(expected, str) else values:
                pieces = re.findall(r"\w+", str(value)) if str(value) in inferred else [str(value)]
                if str(value) == "Wilhelmina Achterberg":  # a nickname stands between
                    pieces = str(value).split()
                assert all(piece in prompt.text() or f"{piece}0" in prompt.text() for piece in pieces), (
                    prompt.id,
                    value,
                )


@pytest.mark.parametrize("name", EXPECTED)
def test_each_stratum_says_what_it_is_for_and_what_it_misses(name: str) -> None:
    text = (data_folder() / name / "README.md").read_text(encoding="utf-8")
    for heading in ("What it is for.", "What a draft finds hard in it.", "How it was made.", "What it does not cover."):
        section = text.partition(f"**{heading}**")[2].partition("**")[0]
        assert len(section.split()) >= 12, heading


def test_found_adversarial_prompts_are_marked() -> None:
    tags = Counter(tag for prompt in SETS["adversarial"] for tag in prompt.tags)
    assert tags["found"] >= 10 and tags["random-string"] >= 4 and tags["cipher"] >= 4 and tags["rare-words"] >= 4


def test_copying_pays_in_extraction_and_repetition_and_not_in_adversarial_prompts() -> None:
    share = {name: sum("copies" in p.tags for p in SETS[name]) / len(SETS[name]) for name in EXPECTED}
    assert share["extraction"] == share["repetitive_text"] == 1.0
    assert share["adversarial"] == 0.0
