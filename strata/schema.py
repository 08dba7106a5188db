"""One prompt of a stratum: what it holds, what a record may say, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from .errors import StrataError

Role = Literal["system", "user", "assistant"]
Split = Literal["open", "reserve"]

ROLES = ("system", "user", "assistant")
SPLITS = ("open", "reserve")
FIELDS = frozenset(
    {
        "id",
        "family_id",
        "stratum",
        "prompt",
        "messages",
        "turns",
        "raw",
        "check",
        "checks",
        "language",
        "split",
        "max_new_tokens",
        "tags",
        "source",
    }
)
CONTENT_FIELDS = ("prompt", "messages", "turns", "raw")
MAX_PROMPT_CHARACTERS = 400_000
"""Far above any context this engine serves; a longer one is a mistake in the file, not a workload."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,119}")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Message:
    role: Role
    content: str


@dataclass(frozen=True)
class Prompt:
    """A request of a workload. Text lives here; ids, hashes and counts are what leaves for tables."""

    id: str
    family_id: str
    """Hand-written siblings share it; it is the cluster of the statistics."""
    stratum: str
    turns: tuple[tuple[Message, ...], ...]
    """Messages added before each answer: turn 2 continues after the answer to turn 1. Empty when ``raw`` is given."""
    raw: str | None = None
    """Text for the model as it stands, without the chat template."""
    check: Mapping[str, Any] | None = None
    """A task check (`strata/checks`), or None where no answer is right or wrong."""
    language: str = "en"
    """BCP 47 tag of the answer asked for; ``und`` or ``mul`` where it has none or several."""
    split: Split = "open"
    """``reserve`` stays sealed until the confirmatory look."""
    max_new_tokens: int | None = None
    """A bound of this prompt's own, under the plan's; None leaves it to the plan."""
    tags: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where it came from: importers put ``kind``, ``file``, ``sha256``, ``licence`` and ``record`` here."""

    def check_for(self, turn: int) -> Mapping[str, Any] | None:
        """The check of the answer to one turn (0-based). A check without ``turn`` is about the last answer."""
        if self.check is None:
            return None
        last = max(len(self.turns), 1) - 1
        return self.check if self.check.get("turn", last) == turn else None

    def texts(self) -> Iterable[str]:
        """Every piece of text in it, in order."""
        if self.raw is not None:
            yield self.raw
        for turn in self.turns:
            for message in turn:
                yield message.content

    def text(self) -> str:
        return "\n".join(self.texts())

    def record(self) -> dict[str, Any]:
        """The canonical record: JSON values only, every field present, the shape that is sealed and written."""
        return {
            "id": self.id,
            "family_id": self.family_id,
            "stratum": self.stratum,
            "turns": [[{"role": m.role, "content": m.content} for m in turn] for turn in self.turns],
            "raw": self.raw,
            "check": dict(self.check) if self.check is not None else None,
            "language": self.language,
            "split": self.split,
            "max_new_tokens": self.max_new_tokens,
            "tags": list(self.tags),
            "source": dict(self.source),
        }


def from_record(record: object, *, stratum: str | None = None) -> Prompt:
    """A prompt from one decoded JSON object.

    ``stratum`` stands in where the record names none. Raises StrataError that says what is wrong with the record; the
    caller adds the file and the line.
    """
    if not isinstance(record, dict):
        raise StrataError(f"a record is a JSON object, this is {_kind(record)}")
    unknown = sorted(map(str, set(record) - FIELDS))
    if unknown:
        raise StrataError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(FIELDS))}")
    identifier = _name(record.get("id"), "id")
    named = record.get("stratum")
    if named is None and stratum is None:
        raise StrataError("no stratum: give the field, or load the file under a name")
    turns, raw = _content(record)
    prompt = Prompt(
        id=identifier,
        family_id=_name(record.get("family_id") or identifier, "family_id"),
        stratum=_name(named if named is not None else stratum, "stratum"),
        turns=turns,
        raw=raw,
        check=_check(record, len(turns)),
        language=_language(record.get("language")),
        split=_split(record.get("split")),
        max_new_tokens=_limit(record.get("max_new_tokens")),
        tags=_tags(record.get("tags")),
        source=_source(record.get("source")),
    )
    length = sum(map(len, prompt.texts()))
    if length > MAX_PROMPT_CHARACTERS:
        raise StrataError(f"over-long: {length:,} characters of text, at most {MAX_PROMPT_CHARACTERS:,}")
    return prompt


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(value), repr(value))


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise StrataError(f"{what} is missing or not a string")
    if not _NAME.fullmatch(value):
        raise StrataError(f"{what} {value[:60]!r}: letters, digits and . _ : + - only, at most 120")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise StrataError(f"{where} is {_kind(value)}, not a string")
    if not value.strip():
        raise StrataError(f"empty: {where} has no text")
    if "\x00" in value:
        raise StrataError(f"NUL character in {where} at character {value.index(chr(0))}")
    if bad := _SURROGATE.search(value):
        raise StrataError(f"{where} holds half a surrogate pair at character {bad.start()}: not a Unicode text")
    return value


def _content(record: Mapping[str, Any]) -> tuple[tuple[tuple[Message, ...], ...], str | None]:
    given = [name for name in CONTENT_FIELDS if record.get(name) is not None]
    if len(given) != 1:
        raise StrataError(
            f"exactly one of {', '.join(CONTENT_FIELDS)} is needed, this record has {', '.join(given) or 'none'}"
        )
    value = record[given[0]]
    if given[0] == "raw":
        return (), _text(value, "raw")
    if given[0] == "prompt":
        return ((Message("user", _text(value, "prompt")),),), None
    if given[0] == "messages":
        return (_turn(value, "messages", first=True),), None
    if not isinstance(value, list) or not value:
        raise StrataError("empty: turns has to be a list with at least one turn")
    return tuple(_turn(turn, f"turns[{i}]", first=i == 0) for i, turn in enumerate(value)), None


def _turn(value: object, where: str, *, first: bool) -> tuple[Message, ...]:
    """A turn is a user's text, one message, or a list of messages that ends with the user's."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise StrataError(f"empty: {where} has no message")
    messages = tuple(_message(item, f"{where}[{i}]") for i, item in enumerate(items))
    if messages[-1].role != "user":
        raise StrataError(f"{where} ends with a {messages[-1].role} message; the answer follows a user's")
    for i, message in enumerate(messages):
        if message.role == "system" and not (first and i == 0):
            raise StrataError(f"{where}[{i}] is a system message; it may only open the conversation")
    return messages


def _message(value: object, where: str) -> Message:
    if isinstance(value, str):
        return Message("user", _text(value, where))
    if not isinstance(value, dict) or set(value) != {"role", "content"}:
        raise StrataError(f"{where} has to be an object with exactly role and content, or the user's text")
    if value["role"] not in ROLES:
        raise StrataError(f"{where}: role {value['role']!r} is none of {', '.join(ROLES)}")
    return Message(cast(Role, value["role"]), _text(value["content"], f"{where}.content"))


def _check(record: Mapping[str, Any], turns: int) -> Mapping[str, Any] | None:
    """One check, or several joined into one that scores their mean."""
    one, several = record.get("check"), record.get("checks")
    if one is None and several is None:
        return None
    if one is not None and several is not None:
        raise StrataError("check and checks together: give one of them")
    if several is not None:
        if not isinstance(several, list) or not several:
            raise StrataError("checks has to be a list with at least one check")
        one = several[0] if len(several) == 1 else {"kind": "all", "checks": several}
    if not isinstance(one, dict):
        raise StrataError(f"a check is an object, this is {_kind(one)}")
    from .checks import validate_check

    validate_check(one)
    turn = one.get("turn")
    if turn is not None and not (type(turn) is int and 0 <= turn < max(turns, 1)):
        raise StrataError(f"check.turn {turn!r}: there is no such turn")
    return one


def _language(value: object) -> str:
    if value is None:
        return "en"
    if not isinstance(value, str) or not _LANGUAGE.fullmatch(value):
        raise StrataError(f"language {value!r} is no BCP 47 tag such as en, pt-BR or zh-Hant")
    return value


def _split(value: object) -> Split:
    if value is None:
        return "open"
    if value not in SPLITS:
        raise StrataError(f"split {value!r} is none of {', '.join(SPLITS)}")
    return cast(Split, value)


def _limit(value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= 1_000_000:
        raise StrataError(f"max_new_tokens {value!r} has to be a whole number from 1 to 1,000,000")
    return value


def _tags(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise StrataError(f"tags is {_kind(value)}, not a list of names")
    return tuple(_name(tag, "tag") for tag in value)


def _source(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(v, str | int) for v in value.values()):
        raise StrataError("source has to be an object of strings and whole numbers")
    return value
