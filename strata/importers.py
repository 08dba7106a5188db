"""Other people's prompt files into our schema: by path, without a network, by a declared mapping.

Every imported prompt carries in ``source`` the kind, the file's name and sha256, the licence the user states, and which
record it came from. A record that cannot be mapped is named and skipped; the good ones are kept. Recorded answers of
ShareGPT-like and Spec-Bench-like files are dropped, since the champion has to give its own; OpenAI conversations keep
their history up to the last user message.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import StrataError
from .import_readers import Record, json_values, parquet_rows, text_lines
from .load import Problem, prompts_of
from .schema import Prompt, from_record

Mapper = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A decoded record to the fields ``key``, ``category`` (or None) and one of ``turns`` / ``messages`` / ``prompt``."""


@dataclass(frozen=True)
class Importer:
    mapping: Mapping[str, str]
    """Their field -> what becomes of it; shown by ``draftgate strata import --help`` and stored beside the output."""
    read: Callable[[Path], Iterator[Record]]
    map: Mapper


def file_sha256(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise StrataError(f"{path}: {error.strerror or error}") from None


def import_file(
    kind: str,
    path: str | Path,
    *,
    licence: str,
    stratum: str | None = None,
    reserve_every: int = 3,
    on_problem: Callable[[Problem], None] | None = None,
) -> Iterator[Prompt]:
    """The prompts of a file of this kind, one at a time.

    ``stratum`` names the workload; without it a record's category does, or the file's name. One prompt in
    ``reserve_every`` goes to the reserve, chosen by a hash of its key so that the choice does not depend on order; 0
    reserves none. ``on_problem`` takes records that could not be mapped; without it the first raises StrataError.
    """
    if kind not in IMPORTERS:
        raise StrataError(f"importer {kind!r} is none of {', '.join(sorted(IMPORTERS))}")
    importer, path = IMPORTERS[kind], Path(path)
    origin = {"kind": kind, "file": path.name, "sha256": file_sha256(path), "licence": licence}

    def read(number: int, value: Any) -> Prompt:
        return _prompt(importer.map(_object(value)), number, origin, stratum or "", reserve_every)

    return prompts_of(path, importer.read(path), read, on_problem)


def _prompt(mapped: dict[str, Any], number: int, origin: Mapping[str, Any], stratum: str, reserve_every: int) -> Prompt:
    given = mapped.pop("key")
    key = str(number if given is None else given)
    category = mapped.pop("category", None)
    name = stratum or _slug(str(category or Path(origin["file"]).stem))
    digest = int.from_bytes(hashlib.sha256(f"{origin['kind']}\n{key}".encode()).digest()[:8])
    record = {
        "id": _slug(f"{origin['kind']}-{key}"),
        "stratum": name,
        "split": "reserve" if reserve_every and digest % reserve_every == 0 else "open",
        "source": {**origin, "record": number},
        **mapped,
    }
    if category is not None and stratum:
        record["tags"] = [_slug(str(category))]
    return from_record(record)


def _slug(text: str) -> str:
    """A valid id; what was cut or replaced is kept apart by a short hash."""
    plain = re.sub(r"[^A-Za-z0-9._:+-]+", "_", text).strip("._:+-") or "x"
    if plain == text and len(plain) <= 100:
        return plain
    return f"{plain[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise StrataError(f"a record is a JSON object, this is a {type(value).__name__}")
    return value


def _question(record: Mapping[str, Any]) -> dict[str, Any]:
    turns = record.get("turns")
    if not isinstance(turns, list) or not turns:
        raise StrataError("turns has to be a list of the user's texts")
    return {"key": _key(record, "question_id"), "category": record.get("category"), "turns": list(turns)}


def _speed_bench(record: Mapping[str, Any]) -> dict[str, Any]:
    mapped = _question(record)
    tags = [_slug(str(record[name])) for name in ("sub_category", "difficulty", "source") if record.get(name)]
    return {**mapped, "tags": tags} if tags else mapped


_FROM = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


def _sharegpt(record: Mapping[str, Any]) -> dict[str, Any]:
    said = record.get("conversations", record.get("conversation"))
    if not isinstance(said, list):
        raise StrataError("conversations has to be a list")
    turns: list[list[dict[str, str]]] = []
    pending: list[dict[str, str]] = []
    for item in said:
        role = _FROM.get(str(_object(item).get("from", item.get("role"))))
        text = item.get("value", item.get("content"))
        if role is None or not isinstance(text, str):
            raise StrataError("each part of a conversation needs from (human, gpt or system) and value (text)")
        if role == "assistant":
            continue
        pending.append({"role": role, "content": text})
        if role == "user":
            turns.append(pending)
            pending = []
    return {"key": _key(record, "id"), "category": None, "turns": turns}


def _openai(record: Mapping[str, Any]) -> dict[str, Any]:
    body = record.get("body", record)
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages:
        raise StrataError("messages has to be a list with at least one message")
    plain = [_chat_message(item) for item in messages]
    while plain and plain[-1]["role"] == "assistant":
        plain.pop()
    mapped = {"key": _key(record, "custom_id", "id"), "category": None, "messages": plain}
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return {**mapped, "max_new_tokens": limit} if limit is not None else mapped


def _chat_message(item: Any) -> dict[str, str]:
    role, content = _object(item).get("role"), item.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            raise StrataError("a message holds an image, audio or file; only text can be imported")
        content = "\n".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str):
        raise StrataError(f"a {role} message has no text (a tool call cannot be imported)")
    return {"role": "system" if role == "developer" else str(role), "content": content}


def _text(record: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": None, "category": None, "prompt": record["text"]}


def _key(record: Mapping[str, Any], *names: str) -> Any:
    """Their identifier, when it is a text or a whole number."""
    found: Iterable[Any] = (record[name] for name in names if isinstance(record.get(name), str | int))
    return next(iter(found), None)


_QUESTION = {
    "question_id": "id, with the importer's kind before it",
    "category": "stratum, or a tag when --stratum is given",
    "turns": "one user message a turn",
    "reference": "dropped",
}
IMPORTERS: dict[str, Importer] = {
    "spec-bench": Importer(_QUESTION, json_values, _question),
    "mt-bench": Importer(_QUESTION, json_values, _question),
    "speed-bench": Importer(
        {**_QUESTION, "sub_category, difficulty, source": "tags", "src_id, multiturn": "dropped"},
        parquet_rows,
        _speed_bench,
    ),
    "sharegpt": Importer(
        {
            "id": "id",
            "conversations[].from human": "one turn each; a system part joins the turn after it",
            "conversations[].from gpt": "dropped: the champion gives its own answers",
        },
        json_values,
        _sharegpt,
    ),
    "openai-chat": Importer(
        {
            "custom_id or id": "id",
            "messages or body.messages": "messages, developer as system, trailing assistant messages dropped",
            "max_completion_tokens or max_tokens": "max_new_tokens",
        },
        json_values,
        _openai,
    ),
    "text": Importer({"line": "one user message; blank lines are skipped"}, text_lines, _text),
}
