"""Which kinds of events a prompt can exercise, read off the prompt itself: what a plan needs before it asks for them.

These are opportunities, not outcomes: whether a stop falls inside a block is the model's doing, and the run counts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from .contamination import words
from .schema import Prompt

EVENTS: dict[str, str] = {
    "stop": "the answer can end by itself with the template's stop token",
    "stop_string": "the answer has lines, items or fences, where a stop string can be put",
    "length": "the answer can run into its token budget: open-ended, or a tight budget of its own",
    "context_edge": "prompt and budget together pass the context limit",
    "draft_edge": "the prompt passes a draft's shorter limit or truncation window (1,024 or 2,048 tokens)",
    "full_accept": "the answer repeats the prompt or itself, so whole blocks can be accepted",
    "reject": "the answer is the model's own wording, so proposals get rejected",
    "no_proposal": "nothing in the prompt repeats, so lookup starts with nothing to propose",
    "second_turn": "a later turn continues after the first answer's stop token",
    "grammar": "a schema can drive constrained decoding",
    "rare_bytes": "characters outside common vocabularies, spelt in byte pieces",
}
DRAFT_EDGES = (1024, 2048)
TIGHT_BUDGET = 64
DEFAULT_BUDGET = 128
"""New tokens assumed where a prompt sets no bound of its own."""
COPY_SHARE = 0.2


def events(prompt: Prompt, tokens: int, context_limit: int) -> Iterator[str]:
    """The events of EVENTS that this prompt can exercise, given its length in tokens and the champion's limit."""
    check = prompt.check or {}
    kinds = set(_kinds(check))
    text = prompt.text()
    sequence = words(text)
    if prompt.raw is None:
        yield "stop"
    if kinds & {"list_of_n", "python", "sql", "json_schema"} or _asks_for_lines(check):
        yield "stop_string"
    budget = prompt.max_new_tokens or DEFAULT_BUDGET
    if prompt.raw is not None or budget <= TIGHT_BUDGET or not kinds:
        yield "length"
    if tokens + budget > context_limit:
        yield "context_edge"
    if any(tokens + budget > edge for edge in DRAFT_EDGES):
        yield "draft_edge"
    copies = "copies" in prompt.tags or _copies(check, text) or repeats(sequence) >= COPY_SHARE
    if copies:
        yield "full_accept"
    else:
        yield "reject"
    if sequence and repeats(sequence) == 0:
        yield "no_proposal"
    if len(prompt.turns) > 1:
        yield "second_turn"
    if "json_schema" in kinds:
        yield "grammar"
    if any(ord(character) > 0x52F and not "\u2010" <= character <= "\u2044" for character in text):
        yield "rare_bytes"


def repeats(sequence: list[str]) -> float:
    """Share of the word pairs of a text that have occurred before in it."""
    seen: set[tuple[str, str]] = set()
    again = 0
    pairs = list(pairwise(sequence))
    for pair in pairs:
        again += pair in seen
        seen.add(pair)
    return again / len(pairs) if pairs else 0.0


def _parts(check: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if check.get("kind") == "all":
        for part in check["checks"]:
            yield from _parts(part)
    elif check:
        yield check


def _kinds(check: Mapping[str, Any]) -> Iterator[str]:
    return (part["kind"] for part in _parts(check))


def _asks_for_lines(check: Mapping[str, Any]) -> bool:
    return any(part.get("unit") in ("lines", "paragraphs") for part in _parts(check))


def _copies(check: Mapping[str, Any], text: str) -> bool:
    """The right answer stands in the prompt: every text the check expects is found there."""
    expected = [str(value) for part in _parts(check) for value in _expected(part)]
    return bool(expected) and all(value in text for value in expected) and max(map(len, expected)) >= 7


def _expected(part: Mapping[str, Any]) -> list[Any]:
    if part["kind"] == "extraction":
        value = part["expected"]
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return list(part.get("all", ())) if part["kind"] == "contains" else []
