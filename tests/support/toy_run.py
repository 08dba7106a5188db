"""A backend of the harness made of toys: models are small JSON files, arms decode a toy engine, and times are a
function of the
request, so that a run is the same however often it is interrupted. `DRAFTGATE_TOY_SLEEP_MS` makes a request last."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftgate.arms.prefix_cache import Kept, PrefixCache
from draftgate.arms.request import Completion, Request, RoundRecord

from support.toy import ToyEngine, hashed_logits

STOP = 0
VOCABULARY = 40


class ToyUserError(Exception):
    exit_code = 2


@dataclass
class ToyFile:
    path: Path
    sha256: str
    bytes: int
    metadata: dict[str, Any] = field(default_factory=lambda: {"general.license": "Apache-2.0"})
    tensors: dict[str, Any] = field(default_factory=dict)


class ToyTokenizer:
    stop_ids = (STOP,)
    sha256 = hashlib.sha256(b"toy").hexdigest()
    identity: Mapping[str, str] = {"vocabulary": sha256}

    def encode(self, text: str) -> list[int]:
        return [1 + ord(c) % (VOCABULARY - 1) for c in text[:30]]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(97 + i % 26) for i in ids)


class ToyModel:
    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        try:
            said = json.loads(raw)
        except ValueError:
            raise ToyUserError(f"{path}: not a toy model") from None
        self.file = ToyFile(path, hashlib.sha256(raw).hexdigest(), len(raw))
        self.engine = ToyEngine(hashed_logits(VOCABULARY, said["seed"], order=2), VOCABULARY, said.get("context", 128))
        self.engine.position_policy = "none"
        self.tokenizer = ToyTokenizer()

    def encode_chat(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> list[int]:
        return [2, *self.tokenizer.encode(" ".join(m["content"] for m in messages)), 3]

    def encode_turn(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode_chat(messages)

    def preamble(self) -> list[int]:
        return [2]

    def encode_raw(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)


class ToyArm:
    """Greedy (or drawn by hash, for stochastic plans); a lookup arm accepts whatever repeats the last bigram."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        champion: ToyModel,
        decoding: Mapping[str, Any],
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        if spec["kind"] not in ("champion_alone", "prompt_lookup", "neural_draft"):
            raise ToyUserError(f"unknown arm kind {spec['kind']!r}")
        self.spec, self.champion, self.greedy = spec, champion, decoding["temperature"] == 0
        self.prefix_cache = prefix_cache

    def _kept(self, request: Request) -> int:
        kept = self.prefix_cache.take() if self.prefix_cache is not None else None
        return 0 if kept is None else self.prefix_cache.usable(kept, request.prompt, request.continues)

    def _next(self, history: list[int], request: Request) -> int:
        if self.greedy:
            return int(self.champion.engine.logits(tuple(history)).argmax())
        drawn = hashlib.sha256(f"{request.seed}|{request.stream}|{history[-3:]}|{len(history)}".encode()).digest()
        return drawn[0] % VOCABULARY

    def generate(self, request: Request, on_tokens: Any = None) -> Completion:
        if "DRAFTGATE_TOY_SLEEP_MS" in os.environ:
            time.sleep(float(os.environ["DRAFTGATE_TOY_SLEEP_MS"]) / 1000)
        history, emitted, rounds = list(request.prompt), [], []
        cached = self._kept(request)
        fast = self.spec["kind"] != "champion_alone"
        finish = "length"
        while len(emitted) < request.max_new_tokens:
            if len(history) >= self.champion.engine.context_limit:
                finish = "context"
                break
            block = 0
            proposed = 0 if not fast else min(3, request.max_new_tokens - len(emitted))
            accepted = 0
            while block <= accepted and len(emitted) < request.max_new_tokens:
                place = len(emitted)
                token = request.forced[place] if request.forced is not None else self._next(history, request)
                history.append(token)
                emitted.append(token)
                block += 1
                if fast and block <= proposed and (token % 2 == 0):
                    accepted += 1
                if token == STOP or (request.forced is not None and len(emitted) == len(request.forced)):
                    break
            spent = 1000 + 10 * block + int(1000 * float(self.spec.get("slowdown") or 0))
            accepted = min(accepted, block)
            rounds.append(
                RoundRecord(
                    round=len(rounds), context_tokens=len(history) - block, requested=proposed, proposed=proposed,
                    tested=min(proposed, accepted + 1), accepted=accepted, emitted=block,
                    outcome="champion_step" if not fast else "stop" if emitted[-1] == STOP else "rejected",
                    verify_ns=spent, total_ns=spent,
                )
            )  # fmt: skip
            if emitted[-1] == STOP or (request.forced is not None and len(emitted) == len(request.forced)):
                finish = "stop" if emitted[-1] == STOP else "length"
                break
        if self.prefix_cache is not None:
            self.prefix_cache.give(Kept(history[:-1], self.champion.engine.new_cache(1), None))
        total = 500 + sum(r.total_ns for r in rounds)
        return Completion(
            emitted,
            finish,
            rounds,
            ttft_ns=1500,
            total_ns=total,
            prefill_ns=500,
            cached_tokens=cached,
            champion_calls=len(rounds),  # type: ignore[arg-type]
        )


def resolve(name: str) -> Path:
    path = Path(os.environ.get("DRAFTGATE_TOY_MODELS", ".")) / name
    if not path.is_file():
        raise ToyUserError(f"no toy model {name!r}")
    return path


pull = resolve


def load_draft(path: str, champion: ToyModel, *, threads: int | None, kernel: str | None) -> ToyModel:
    return load_model(path, threads=threads, kernel=kernel)


def load_model(path: str, *, threads: int | None, kernel: str | None) -> ToyModel:
    return ToyModel(Path(path))


def build_arm(
    spec: Mapping[str, Any], champion: Any, draft: Any, decoding: Mapping[str, Any], prefix_cache: Any = None
) -> ToyArm:
    return ToyArm(spec, champion, decoding, prefix_cache)
