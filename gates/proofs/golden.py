"""Golden vectors read by the auditor's own interpreter: draws, rows, rounds; and the engine's pinned logits.

The vectors under `fixtures/golden/` are written by the code they pin. Here they are derived again from the descriptions
alone, so that a vector file regenerated after an unnoticed change of the law is noticed too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from .finding import Finding
from .guessers import DraftGuesser, LookupGuesser
from .history import law_after, processed
from .interpreter import Case, Interpreter
from .law import Chance, Logits, best
from .reading import Reading

PACKAGE = __name__.rsplit(".gates.", 1)[0]
FORMATS = {
    "draws-v1.json": "draftgate-golden-draws/1",
    "rows-v1.json": "draftgate-golden-rows/1",
    "rounds-v1.json": "draftgate-golden-rounds/1",
}
K, LOOKUP = 3, {"k": 3, "min_ngram": 1, "max_ngram": 3}
"""How the sessions of the rounds file were set up, beside what it says itself."""
MAX_NEW, CONTEXT = 16, 64


def stored(name: str) -> Any:
    """One golden file. Raises ValueError for another format than this version reads."""
    text = (resources.files(f"{PACKAGE}.fixtures") / "golden" / name).read_text("utf-8")
    found = json.loads(text)
    if name in FORMATS and found.get("format") != FORMATS[name]:
        raise ValueError(f"{name}: format {found.get('format')!r}, this version reads {FORMATS[name]}")
    return found


def written_logits(vocabulary: int, salt: str, unit: int) -> Callable[[Sequence[int]], Logits]:
    """The logits the vectors were made from: bytes of hashes, less 128, over ``unit``."""

    def logits(prefix: Sequence[int]) -> Logits:
        tail, stream = tuple(prefix[-3:]), b""
        while len(stream) < vocabulary:
            stream += hashlib.sha256(f"{salt}|{tail}|{len(stream) // 32}".encode()).digest()
        return (np.frombuffer(stream[:vocabulary], np.uint8).astype(np.float32) - 128) / np.float32(unit)

    return logits


class _ListCache:
    def __init__(self) -> None:
        self.tokens: list[int] = []

    def begin(self) -> _ListTransaction:
        return _ListTransaction(self)

    def close(self) -> None:
        return None


class _ListTransaction:
    def __init__(self, cache: _ListCache) -> None:
        self.cache, self.tail = cache, list[int]()

    def commit_prefix(self, n: int) -> None:
        self.cache.tokens += self.tail[:n]

    def rollback(self) -> None:
        self.tail = []


class _Written:
    """An engine over a function of the prefix, as much of one as a reading needs."""

    def __init__(self, vocabulary: int, salt: str) -> None:
        self.vocabulary, self.context_limit = vocabulary, CONTEXT
        self.logits = written_logits(vocabulary, salt, 128)

    def new_cache(self, capacity: int | None = None) -> _ListCache:
        return _ListCache()

    def verify_linear(self, tx: _ListTransaction, tokens: Sequence[int], rows: str) -> Any:
        tx.tail += tokens
        return np.stack([self.logits([*tx.cache.tokens, *tx.tail])])


def check_draws() -> tuple[int, list[str]]:
    found = stored("draws-v1.json")
    wrong = []
    for seed, stream, key in found["keys"]:
        if Chance(int(seed), stream).key != int(key):
            wrong.append(f"key of seed {seed}, stream {stream!r}")
    for seed, stream, domain, round, position, n, value in found["draws"]:
        if Chance(int(seed), stream).uniform(int(n), domain, round, position) != int(value):
            wrong.append(f"draw {domain} of seed {seed}, round {round}, position {position}")
    return len(found["keys"]) + len(found["draws"]), wrong


def check_rows() -> tuple[int, list[str]]:
    found = stored("rows-v1.json")
    prompt, stops, wrong = found["history"], found["stop_ids"], []
    for size, entries in ((9, found["small"]), (49152, found["large"])):
        for entry in entries:
            name = entry["decoding"]
            decoding = found["decodings"][name]
            logits = written_logits(size, name, 16)(prompt)
            masses = law_after(logits, decoding, prompt, [], stops)
            if size == 9:
                same = [str(m) for m in masses] == entry["masses"]
            else:
                same = hashlib.sha256(masses.astype("<u8").tobytes()).hexdigest() == entry["sha256"]
            same &= best(processed(logits, decoding, prompt, [], stops)) == entry["argmax"]
            if not same:
                wrong.append(f"row {name} of {size} tokens")
    return len(found["small"]) + len(found["large"]), wrong


def check_rounds() -> tuple[int, list[str]]:
    found = stored("rounds-v1.json")
    decodings = {"greedy": {"temperature": 0.0}, **stored("rows-v1.json")["decodings"]}
    count, wrong = 0, []
    for session in found["sessions"]:
        case = Case(
            prompt=found["prompt"],
            max_new_tokens=MAX_NEW,
            context_limit=CONTEXT,
            stop_ids=found["stop_ids"],
            decoding=decodings[session["decoding"]],
        )
        champion, draft = (_Written(9, salt) for salt in ("q", "p"))
        guesser: Any = None
        if session["arm"] == "prompt_lookup":
            guesser = LookupGuesser(LOOKUP, case.stop_ids)
        elif session["arm"] == "neural_draft":
            guesser = DraftGuesser(draft, {"k": K}, case, 9)  # type: ignore[arg-type]
        chance = Chance(int(found["seed"]), f"golden|0|{session['arm']}")
        reading = Reading(champion, CONTEXT)  # type: ignore[arg-type]
        interpreter = Interpreter(case, chance, reading, guesser)
        rounds = [[s.proposals, s.accepted, s.tokens] for s in interpreter.steps()]
        count += len(rounds)
        if rounds != session["rounds"] or interpreter.finish != session["finish_reason"]:
            wrong.append(f"session {session['decoding']} of {session['arm']}")
    return count, wrong


def check_logits(model: Any | None = None) -> tuple[int, list[str]]:
    """The engine's self-test against its pinned hash; with the pinned model, its golden logits too."""
    from ...arms.engine.self_test import GOLDEN, arithmetic_self_test

    wrong = [] if arithmetic_self_test() == GOLDEN else ["the engine's arithmetic self-test"]
    count = 1
    pinned = stored("engine-logits-v1.json")
    if model is not None and model.engine.identity.model_sha256 == pinned["model_sha256"]:
        engine = model.engine
        ids = [(i * 7919 + 17) % engine.vocabulary for i in range(140)]
        reading = Reading(engine, len(ids) + 1, chunk=1)
        last = None
        digest = hashlib.sha256()
        for n in range(1, len(ids) + 1):
            last = reading.after(ids[:n])
            digest.update(np.asarray(last, "<f4").tobytes())
        reading.close()
        count += len(ids)
        if digest.hexdigest() != pinned["logits_sha256"]:
            wrong.append("the pinned model's logits, read one token at a time")
    return count, wrong


def check_golden(model: Any | None = None) -> Finding:
    """Every golden file, derived again."""
    parts: dict[str, int] = {}
    wrong: list[str] = []
    for name, check in (("draws", check_draws), ("rows", check_rows), ("rounds", check_rounds)):
        parts[name], found = check()
        wrong += found
    parts["logits"], found = check_logits(model)
    wrong += found
    return Finding("golden", not wrong, sum(parts.values()), "vectors", {"vectors": parts, "differences": wrong[:20]})
