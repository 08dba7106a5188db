"""The long-context stratum, made to measure: real questions over documents of a wanted number of tokens.

    draftgate strata generate-long --model smollm2-135m-instruct --out prompts.jsonl

The lengths are those of one tokenizer and template, counted by a callable that is passed in; the committed file was
made with SmolLM2-135M-Instruct's. Answers are known because the documents are made from facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from .errors import StrataError
from .long_documents import KINDS, Entry, entries
from .long_words import PLACES
from .schema import Prompt, from_record

Count = Callable[[Prompt], int]
"""Tokens of a rendered prompt, generation prompt included."""

CHAMPION_LIMIT = 8192
DRAFT_LIMIT = 2048
TRUNCATION = 1024
"""A draft that keeps the last 1,024 tokens only: the rule the truncation prompts sit on."""
MOST_INDEX_WORDS = 200
SLACK_TOKENS = 3
"""How far below its wanted length a prompt may end."""

NEEDLES = (
    ("the spare key of the boathouse hangs", "behind the portrait of the admiral", "admiral"),
    ("the prize marrow was hidden", "in the bathtub of the schoolmistress", "bathtub"),
    ("the missing ledger was found", "under the third stair of the bakery", "bakery"),
    ("the parrot that answers to Gustav was last seen", "on the weathercock of the chapel", "chapel"),
    ("the seed of the white beans is kept", "in a mustard tin marked 'nails'", "mustard"),
    ("the bell rope was borrowed", "by the circus for its tightrope", "circus"),
    ("the map of the tunnels lies", "folded inside the harmonium", "harmonium"),
    ("the old password of the cellar club was", "'cinnamon before noon'", "cinnamon"),
)


@dataclass(frozen=True)
class Task:
    kind: str
    question: str
    """find, larger, largest, smallest, last, summarise, find_then."""
    tokens: int
    depth: float
    """Where the needle lies, from 0 (start) to 1 (end)."""
    seed: int
    tags: tuple[str, ...] = ()
    max_new_tokens: int = 48


TASKS = (
    Task("light_log", "find", 1000, 0.5, 11),
    Task("allotments", "larger", 1000, 0.2, 12),
    Task("tickets", "largest", 1000, 0.8, 13),
    Task("letters", "summarise", 1000, 0.4, 14, max_new_tokens=96),
    Task("minutes", "find_then", 1000, 0.7, 15),
    Task("inventory", "find", 2000, 0.1, 21),
    Task("minutes", "larger", 2000, 0.5, 22),
    Task("allotments", "smallest", 2000, 0.5, 23),
    Task("letters", "find", 2000, 0.9, 24),
    Task("tickets", "summarise", 2000, 0.6, 25, max_new_tokens=96),
    Task("tickets", "find", 4000, 0.25, 41),
    Task("light_log", "largest", 4000, 0.5, 42),
    Task("inventory", "larger", 4000, 0.5, 43),
    Task("letters", "last", 4000, 0.5, 44),
    Task("minutes", "find", 6000, 0.75, 61),
    Task("allotments", "summarise", 6000, 0.5, 62, max_new_tokens=96),
    Task("light_log", "larger", 6000, 0.5, 63),
    Task("inventory", "find", CHAMPION_LIMIT - 64, 0.6, 81, ("edge-champion", "just-fits"), 64),
    Task("letters", "find", CHAMPION_LIMIT - 24, 0.3, 82, ("edge-champion", "context-edge"), 64),
    Task("tickets", "smallest", CHAMPION_LIMIT - 4, 0.5, 83, ("edge-champion", "context-edge"), 64),
    Task("allotments", "find", DRAFT_LIMIT - 12, 0.4, 91, ("edge-draft-2048",), 64),
    Task("light_log", "last", DRAFT_LIMIT + 6, 0.5, 92, ("edge-draft-2048",)),
    Task("inventory", "largest", TRUNCATION - 8, 0.5, 93, ("edge-truncation-1024",)),
    Task("minutes", "find", TRUNCATION + 40, 0.02, 94, ("edge-truncation-1024", "needle-outside-window")),
)


def generate(count: Count) -> Iterator[dict[str, Any]]:
    """Records of the stratum, one for each task, in order. Raises StrataError when a length cannot be met."""
    for index, task in enumerate(TASKS):
        yield _fit(task, index, count)


def _fit(task: Task, index: int, count: Count) -> dict[str, Any]:
    """The longest document that fits, then places named in its index until the wanted length is reached."""

    def size(n: int, words: int) -> int:
        return count(from_record(_record(task, index, n, words)))

    few = size(2, 0)
    guess = 2 + 8 * (task.tokens - few) // max(size(10, 0) - few, 1)  # entries are of much the same length
    low, high = max(2, guess * 9 // 10), guess * 11 // 10 + 2
    while low > 2 and size(low, 0) > task.tokens:
        low //= 2
    while size(high, 0) <= task.tokens:
        high *= 2
    most = _last(lambda n: size(n, 0) <= task.tokens, low, high)
    for n in range(most, 1, -1):
        words = _last(partial(_fits, size, task.tokens, n), 0, min(task.tokens - size(n, 0) + 1, MOST_INDEX_WORDS))
        if task.tokens - size(n, words) <= SLACK_TOKENS:
            return _record(task, index, n, words)
    raise StrataError(f"long-context task {index + 1}: cannot end within {SLACK_TOKENS} tokens of {task.tokens}")


def _fits(size: Callable[[int, int], int], tokens: int, n: int, words: int) -> bool:
    return size(n, words) <= tokens


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest n in [low, high) for which it holds, given that it holds for low and stops holding once."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _record(task: Task, index: int, n: int, words: int) -> dict[str, Any]:
    kind = KINDS[task.kind]
    items = entries(task.kind, task.seed, n)
    subject, where, answer = NEEDLES[index % len(NEEDLES)]
    at = min(int(task.depth * n), n - 1)
    texts = [entry.text for entry in items]
    texts[at] += f" For the record: {subject} {where}."
    document = f"{kind.title}\n\n" + "\n".join(texts)
    if words:
        document += "\nIndex of places: " + " ".join(map(_place, range(words))) + "."
    turns, check = _ask(task, items, at, subject, answer, document)
    return {
        "id": f"long_context-{index + 1:03d}",
        "stratum": "long_context",
        "turns": turns,
        "check": check,
        "split": "reserve" if index % 3 == 2 else "open",
        "max_new_tokens": task.max_new_tokens,
        "tags": [f"tokens-{task.tokens}", task.question, *task.tags],
    }


def _place(index: int) -> str:
    """Single words of the place names, over and over: fine steps towards an exact length."""
    return PLACES[index % len(PLACES)].split()[0]


def _ask(
    task: Task, items: list[Entry], at: int, subject: str, answer: str, document: str
) -> tuple[list[str], dict[str, Any]]:
    """User texts of the turns, and the check of the last answer. Every other question stands before the document."""
    kind = KINDS[task.kind]
    by_value = sorted(items, key=lambda entry: entry.value)
    here, there = items[len(items) // 4], items[3 * len(items) // 4]
    question, right = {
        "find": (f"Somewhere in this text it says where or what: {subject} ... Complete that sentence.", answer),
        "find_then": (f"Somewhere in this text it says: {subject} ... Complete that sentence.", answer),
        "larger": (
            f"Which has the larger {kind.measure}, {here.key} or {there.key}? Name it and give its number only.",
            str(max(here.value, there.value)),
        ),
        "largest": (f"Which {kind.entry} has the largest {kind.measure}, and how much is it?", str(by_value[-1].value)),
        "smallest": (
            f"Which {kind.entry} has the smallest {kind.measure}, and how much is it?",
            str(by_value[0].value),
        ),
        "last": (f"What is the {kind.measure} in the last entry?", str(items[-1].value)),
        "summarise": (f"Summarise this text in three sentences; mention where or what: {subject} ...", answer),
    }[task.question]
    check: dict[str, Any] = {"kind": "contains", "all": [right]}
    if task.question == "larger":
        check["none"] = [str(min(here.value, there.value))]
    if task.question == "summarise":
        check = {"kind": "all", "checks": [check, {"kind": "length", "unit": "sentences", "min": 2, "max": 4}]}
    first = f"{question}\n\n{document}" if task.seed % 2 else f"{document}\n\n{question}"
    if task.question == "find_then":
        entry = items[at]
        follow = f"And in that same entry, {entry.key}, what is the {kind.measure}? Number only."
        return [first, follow], {"kind": "contains", "all": [str(entry.value)]}
    return [first], check
