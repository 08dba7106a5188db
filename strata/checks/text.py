"""Checks on the text itself: its script, its length, its list items, what it must and must not say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import StrataError

SCRIPTS = (
    "Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hangul Han Hebrew Hiragana "
    "Kana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Sinhala Tamil Telugu Thai Tibetan"
).split()
"""``Kana`` stands for running Japanese: Hiragana, Katakana and Han together, with some kana."""

_PREFIX = {"CJK": "Han", "HANGUL": "Hangul"}
_ITEM = re.compile(r"^\s{0,6}(?:[-*+•–]|\(?\d{1,3}[.):]|[a-zA-Z][.)])\s+\S", re.MULTILINE)
_WORD = re.compile(r"\w+(?:['’\-]\w+)*")
_SENTENCE_END = re.compile(r"[.!?…。！？।؟]+[\"'”’)\]]*(?=\s|$)|[。！？]")
UNITS = ("words", "sentences", "characters", "lines", "paragraphs")


@lru_cache(maxsize=8192)
def script_of(character: str) -> str | None:
    """Unicode script of a letter by its name; None for what is no letter or mark of a script."""
    if unicodedata.category(character)[0] != "L":
        return None
    first = unicodedata.name(character, "").split(" ", 1)[0].split("-", 1)[0]
    found = _PREFIX.get(first, first.capitalize())
    return found if found in SCRIPTS else None


def script_shares(text: str) -> dict[str, float]:
    """Share of each script among the letters that belong to one. Empty for a text without letters."""
    counts: dict[str, int] = {}
    for character in text:
        if found := script_of(character):
            counts[found] = counts.get(found, 0) + 1
    total = sum(counts.values())
    return {name: n / total for name, n in counts.items()}


def script(check: Mapping[str, Any], answer: str) -> float:
    """1 when at least ``share`` (0.7) of the letters are of the script, else in proportion."""
    shares = script_shares(answer)
    wanted = check["script"]
    if wanted == "Kana":
        kana = shares.get("Hiragana", 0.0) + shares.get("Katakana", 0.0)
        got = kana + shares.get("Han", 0.0) if kana > 0.1 else 0.0
    else:
        got = shares.get(wanted, 0.0)
    return min(got / float(check.get("share", 0.7)), 1.0)


def validate_script(check: Mapping[str, Any]) -> None:
    if check["script"] not in SCRIPTS:
        raise StrataError(f"check script: {check['script']!r} is none of {', '.join(SCRIPTS)}")
    if not 0 < check.get("share", 0.7) <= 1:
        raise StrataError("check script: share has to lie in (0, 1]")


def measure(text: str, unit: str) -> int:
    """Length of a text in words, sentences, characters, non-empty lines or paragraphs."""
    stripped = text.strip()
    if unit == "characters":
        return len(stripped)
    if unit == "words":
        return len(_WORD.findall(stripped))
    if unit == "lines":
        return sum(1 for line in stripped.splitlines() if line.strip())
    if unit == "paragraphs":
        return sum(1 for part in re.split(r"\n\s*\n", stripped) if part.strip())
    ends = list(_SENTENCE_END.finditer(stripped))
    tail = stripped[ends[-1].end() :] if ends else stripped
    return len(ends) + (1 if _WORD.search(tail) else 0)


def length(check: Mapping[str, Any], answer: str) -> float:
    """1 inside [min, max]; outside it falls with the ratio to the nearer bound. An answer without a word scores 0."""
    n = measure(answer, check["unit"])
    low, high = check.get("min", 1), check.get("max")
    if n == 0 or not _WORD.search(answer):
        return 0.0
    if n < low:
        return float(n / low)
    if high is not None and n > high:
        return float(high / n)
    return 1.0


def validate_length(check: Mapping[str, Any]) -> None:
    if check["unit"] not in UNITS:
        raise StrataError(f"check length: unit {check['unit']!r} is none of {', '.join(UNITS)}")
    low, high = check.get("min"), check.get("max")
    if low is None and high is None:
        raise StrataError("check length: give min, max or both")
    if (low is not None and low < 1) or (high is not None and high < max(low or 1, 1)):
        raise StrataError("check length: needs 1 <= min <= max")


def list_of_n(check: Mapping[str, Any], answer: str) -> float:
    """1 for exactly n bulleted or numbered items (or n bare lines where nothing is marked), else the smaller ratio."""
    n = check["n"]
    found = len(_ITEM.findall(answer)) or measure(answer, "lines")
    return min(found / n, n / found) if found else 0.0


def validate_list(check: Mapping[str, Any]) -> None:
    if check["n"] < 1:
        raise StrataError("check list_of_n: n has to be at least 1")


def contains(check: Mapping[str, Any], answer: str) -> float:
    """Share of the conditions met, case and spaces aside: each of ``all``, one of ``any``, and 0 if one of ``none``."""
    text = folded(answer)
    raw = unicodedata.normalize("NFKC", answer).casefold()
    if any(says(raw if word != word.strip() else text, word) for word in check.get("none", ())):
        return 0.0
    met = [says(text, word) for word in check.get("all", ())]
    if "any" in check:
        met.append(any(says(text, word) for word in check["any"]))
    if not met:
        return float(bool(_WORD.search(text)))
    return sum(met) / len(met)


def validate_contains(check: Mapping[str, Any]) -> None:
    lists = [check[key] for key in ("all", "any", "none") if key in check]
    if not lists or not all(words and all(isinstance(w, str) and w.strip() for w in words) for words in lists):
        raise StrataError("check contains: all, any or none, each a list of at least one text")


def equals(check: Mapping[str, Any], answer: str) -> float:
    """1 when the answer is the text, spaces, case, quotes and a closing full stop aside."""
    return float(_bare(answer) == _bare(check["text"]))


def says(text: str, word: str) -> bool:
    """Whether a folded text holds a word. A number is not found inside a longer one; edge spaces of the word count."""
    edge = word != word.strip()
    wanted = unicodedata.normalize("NFKC", word).casefold() if edge else folded(word)
    before = r"(?<!\d)(?<!\d[.,])" if wanted[:1].isdigit() else ""
    after = r"(?![.,]?\d)" if wanted[-1:].isdigit() else ""
    return re.search(before + re.escape(wanted) + after, text) is not None


def folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _bare(text: str) -> str:
    return folded(text).strip("\"'“”‘’`*. ")
