"""What a worker does with a message: load, describe, render, generate, end. The same code runs inside a test's
process."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import time
from typing import Any

from .identity import arithmetic_golden, model_identity
from .machine import energy_between, energy_counters, steal_ticks
from .timeline import Timeline

PROTOCOL = "draftgate-worker/1"
_PROBE = bytes(range(256)) * 2048
"""512 KiB: hashed just before a request; its time tells of the machine, never of the arm."""


def probe() -> int:
    """Nanoseconds of a fixed computation."""
    before = time.perf_counter_ns()
    hashlib.sha256(_PROBE).digest()
    return time.perf_counter_ns() - before


class WorkerSession:
    """The state of one worker. ``handle`` answers one message with one JSON value."""

    def __init__(self) -> None:
        self.champion: Any = None
        self.draft: Any = None
        self.arm: Any = None
        self.backend: Any = None
        self.energy = False
        self._kv = 0
        self.timeline: Timeline | None = None

    def handle(self, message: dict[str, Any]) -> dict[str, Any]:
        """Raises KeyError for an unknown type; exceptions of the arms pass through."""
        actions = {
            "load": self.load,
            "describe": self.describe,
            "render": self.render,
            "continue": self.continue_turn,
            "generate": self.generate,
            "call": self.call,
            "end": self.end,
        }
        return actions[message["type"]](message)

    def _kv_of(self, tokens: int) -> int:
        """Keys and values of sequences of that many tokens, as the engines of this arm count them."""
        models = [self.champion] + ([self.draft] if self.draft is not None else [])
        total = 0
        for model in models:
            count = getattr(model.engine, "kv_bytes", None)
            total += int(count(min(tokens, model.engine.context_limit))) if callable(count) else 0
        return total

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Load what the arm needs: the champion always, the draft only where it must be resident."""
        self.timeline = Timeline(int(message["memory_interval_ms"]), lambda: self._kv)
        self.energy = bool(message["energy"])
        self.backend = importlib.import_module(message["backend"])
        options = {"threads": message["threads"], "kernel": message["kernel"]}
        times = {"champion": 0, "draft": 0}
        for which in ("champion", "draft"):
            if message[which] is None:
                continue
            self.timeline.enter(f"load_{which}")
            before = time.perf_counter_ns()
            if which == "champion":
                self.champion = self.backend.load_model(message[which], **options)
            else:
                self.draft = self.backend.load_draft(message[which], self.champion, **options)
            times[which] = time.perf_counter_ns() - before
        if message["arm"] is not None:
            kept = {}
            if message["preamble_tokens"] is not None:
                from ..arms.prefix_cache import PrefixCache

                kept = {"prefix_cache": PrefixCache(message["preamble_tokens"])}
            self.arm = self.backend.build_arm(message["arm"], self.champion, self.draft, message["decoding"], **kept)
        self.timeline.enter("idle")
        return {"load_ns": times["champion"], "draft_load_ns": times["draft"], "protocol": PROTOCOL}

    def describe(self, message: dict[str, Any]) -> dict[str, Any]:
        """Identities of the loaded models, stop ids, arithmetic with its golden, the tokenizers' first difference."""
        found: dict[str, Any] = {
            "champion": model_identity(self.champion, message["champion_name"]),
            "draft": None,
            "stop_token_ids": [int(i) for i in self.champion.tokenizer.stop_ids],
            "arithmetic": arithmetic_golden(self.champion),
            "preamble_tokens": len(self.champion.preamble()),
            "tokenizer_difference": None,
        }
        if self.draft is not None:
            found["draft"] = model_identity(self.draft, message["draft_name"])
            compare = getattr(
                importlib.import_module(type(self.champion.tokenizer).__module__), "first_difference", None
            )
            if compare is not None:
                found["tokenizer_difference"] = compare(self.champion.tokenizer, self.draft.tokenizer)
        return found

    def kv_per_token(self, model: Any) -> int:
        """Bytes of keys and values a token by formula: 2 · layers · kv heads · head width · 2 bytes; 0 when not
        stated."""
        m = model.file.metadata
        arch = str(m.get("general.architecture", ""))
        layers, heads = m.get(f"{arch}.block_count", 0), m.get(f"{arch}.attention.head_count", 0)
        kv_heads = m.get(f"{arch}.attention.head_count_kv", heads)
        width = m.get(f"{arch}.embedding_length", 0)
        return int(2 * layers * kv_heads * (width // heads) * 2) if heads else 0

    def render(self, message: dict[str, Any]) -> dict[str, Any]:
        """Token ids of the first request of each prompt."""
        ids = []
        for prompt in message["prompts"]:
            if prompt["raw"] is not None:
                ids.append(self.champion.encode_raw(prompt["raw"]))
            else:
                ids.append(self.champion.encode_chat(prompt["messages"], add_generation_prompt=True))
        return {"ids": [[int(t) for t in row] for row in ids]}

    def continue_turn(self, message: dict[str, Any]) -> dict[str, Any]:
        """Ids to append after an answer for the next turn's messages."""
        return {"ids": [int(t) for t in self.champion.encode_turn(message["messages"])]}

    def generate(self, message: dict[str, Any]) -> dict[str, Any]:
        """One request, with the machine's state read around it, outside the timed part."""
        from ..arms.request import Request, StopPolicy

        assert self.timeline is not None
        self.timeline.enter(message["phase"])
        forced = message["forced"]
        request = Request(
            request_id=message["request_id"],
            prompt=tuple(message["prompt"]),
            max_new_tokens=message["max_new_tokens"],
            seed=int(message["seed"], 16),
            stop=StopPolicy(tuple(message["stop_token_ids"]), tuple(message["stop_strings"])),
            stream=message["stream"],
            continues=message["continues"],
            forced=None if forced is None else tuple(forced),
        )
        self._kv = self._kv_of(len(request.prompt) + request.max_new_tokens)
        energy, steal = (energy_counters() if self.energy else {}), steal_ticks()
        probed, started = probe(), time.monotonic_ns()
        completion = self.arm.generate(request)
        wall = time.monotonic_ns() - started
        stolen, joules = steal_ticks() - steal, energy_between(energy, energy_counters() if self.energy else {})
        self.timeline.enter("idle")
        self._kv = 0
        tokens = [int(t) for t in completion.tokens]
        return {
            "completion": {
                "tokens": tokens,
                "rounds": [dataclasses.asdict(r) for r in completion.rounds],
                **{
                    name: getattr(completion, name)
                    for name in (
                        "finish_reason", "ttft_ns", "total_ns", "prefill_ns", "draft_prefill_ns", "cached_tokens",
                        "finalise_ns",
                        "champion_calls", "draft_calls", "failure", "fallback", "counters",
                    )
                },
            },
            "trace": getattr(completion, "trace", None),
            "receipt": getattr(completion, "receipt", None),
            "quality": self._quality(message["check"], completion, tokens),
            "probe_ns": probed,
            "steal_ticks": stolen if steal >= 0 else -1,
            "energy_uj": joules,
            "started_ns": started,
            "wall_ns": wall,
        }  # fmt: skip

    def _quality(self, check: dict[str, Any] | None, completion: Any, tokens: list[int]) -> float | None:
        if check is None:
            return None
        from ..strata.checks import run_check

        text = completion.text
        if text is None:
            stops = set(self.champion.tokenizer.stop_ids)
            text = self.champion.tokenizer.decode([t for t in tokens if t not in stops])
        return float(run_check(check, text))

    def call(self, message: dict[str, Any]) -> dict[str, Any]:
        """A measurement off the clock (`harness.offclock`), by name, on this session's models and arm."""
        from . import offclock

        return offclock.MEASUREMENTS[message["name"]](self, message)

    def end(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.timeline is not None
        return {"samples": self.timeline.end()}
