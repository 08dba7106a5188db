"""Measurements that are not part of any request's time, run in a worker by name."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .canonical import digest
from .machine import resident_bytes

if TYPE_CHECKING:
    from .session import WorkerSession

Measurement = Callable[["WorkerSession", dict[str, Any]], dict[str, Any]]
STEPS = 24
"""Decode steps per condition of the contention measurement."""
CONTEXT = 64


def build_arms(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """Build every arm once, so that a plan with an impossible arm does not freeze."""
    for entry in message["arms"]:
        session.backend.build_arm(entry, session.champion, session.draft, message["decoding"])
    return {"arms": len(message["arms"])}


def first_forward(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """Time of a model's first forward pass after loading: pages touched, pools started."""
    model = session.champion if session.draft is None else session.draft
    if _on_features(model):
        return {"first_forward_ns": None}
    before = time.perf_counter_ns()
    cache = model.engine.new_cache(8)
    model.engine.verify_linear(cache.begin(), [1], "last")
    cache.close()
    return {"first_forward_ns": time.perf_counter_ns() - before}


def _on_features(model: Any) -> bool:
    """Whether a draft reads the champion's hidden states and cannot run by itself."""
    return any(kind.__name__ == "FeatureEngine" for kind in type(model.engine).__mro__)


class _Decoder:
    """One model decoding its own argmax, step by step."""

    def __init__(self, model: Any) -> None:
        self.engine = model.engine
        self.cache = self.engine.new_cache(min(self.engine.context_limit, CONTEXT + 8 * STEPS))
        tx = self.cache.begin()
        prompt = [1 + i % (self.engine.vocabulary - 1) for i in range(CONTEXT)]
        self.engine.verify_linear(tx, prompt, "none")
        tx.commit_prefix(len(prompt))
        self.pending = 1

    def step(self) -> int:
        """Nanoseconds of one forward call."""
        if self.cache.length + 1 >= self.cache.capacity:
            self.cache.close()
            self.cache = self.engine.new_cache(self.cache.capacity)
        before = time.perf_counter_ns()
        tx = self.cache.begin()
        row = self.engine.verify_linear(tx, [self.pending], "last")[0]
        took = time.perf_counter_ns() - before
        tx.commit_prefix(1)
        self.pending = int(row.argmax())
        return took


def contention(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """Champion decode alone, and alternating with the draft as an arm does. Never both at once: they share threads."""
    if _on_features(session.draft):
        return {"measured": False, "steps": 0, "reason": "this draft runs on the champion's own hidden states alone"}
    champion, draft = _Decoder(session.champion), _Decoder(session.draft)
    for _ in range(4):
        champion.step()
        draft.step()
    alone = [champion.step() for _ in range(STEPS)]
    alternating = []
    for _ in range(STEPS):
        draft.step()
        alternating.append(champion.step())
    medians = {"alone_ns": statistics.median(alone), "alternating_ns": statistics.median(alternating)}
    return medians | {
        "alternating_ratio": medians["alternating_ns"] / medians["alone_ns"],
        "measured": True,
        "steps": STEPS,
    }


def memory_formula(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """Bytes by formula beside bytes as measured; tensors counted once by content where two files share them."""
    models = {"champion": session.champion} | ({"draft": session.draft} if session.draft is not None else {})
    found: dict[str, Any] = {"tokens": message["tokens"]}
    contents: dict[str, int] = {}
    for name, model in models.items():
        tensors = _tensor_bytes(model)
        found[name] = {
            "artifact_bytes": int(model.file.bytes),
            "tensor_bytes": sum(size for _, size in tensors),
            "weight_bytes": _number(model.engine, "weight_bytes"),
            "scratch_bytes": _number(model.engine, "scratch_bytes"),
            "kv_formula_bytes": session.kv_per_token(model) * message["tokens"],
            "kv_engine_bytes": _kv(model.engine, message["tokens"]),
            "kv_measured_bytes": _kv_measured(model, message["tokens"]),
        }
        contents |= dict(tensors)
    champion = sum(size for _, size in _tensor_bytes(session.champion))
    found["logical_bytes"] = sum(f["artifact_bytes"] for k, f in found.items() if k in models)
    found["physical_bytes"] = sum(contents.values())
    found["incremental_bytes"] = found["physical_bytes"] - champion
    found["resident_bytes"] = resident_bytes()
    return found


def _tensor_bytes(model: Any) -> list[tuple[str, int]]:
    """Content hash and size of every tensor."""
    data = getattr(model.file, "map", None)
    found = []
    for tensor in model.file.tensors.values():
        key = tensor.name
        if data is not None:
            key = digest(bytes(data[tensor.offset : tensor.offset + tensor.bytes]))
        found.append((key, int(tensor.bytes)))
    return list(dict(found).items())


def _number(engine: Any, name: str) -> int | None:
    value = getattr(engine, name, None)
    return int(value) if isinstance(value, int) else None


def _kv(engine: Any, tokens: int) -> int | None:
    count = getattr(engine, "kv_bytes", None)
    return int(count(tokens)) if callable(count) else None


def _kv_measured(model: Any, tokens: int) -> int:
    """Growth of the resident set when a cache of so many tokens is made and filled."""
    engine = model.engine
    tokens = min(tokens, engine.context_limit)
    before = resident_bytes()
    cache = engine.new_cache(tokens)
    for begin in range(0, tokens, 256):
        tx = cache.begin()
        block = [1 + i % (engine.vocabulary - 1) for i in range(min(256, tokens - begin))]
        if _on_features(model):
            engine.draft(tx, np.zeros((len(block), engine.state_width), np.float32), block, "none")
        else:
            engine.verify_linear(tx, block, "none")
        tx.commit_prefix(len(block))
    grown = resident_bytes() - before
    cache.close()
    return grown


def tracing(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """What recording one round costs: eight readings of the clock, its record and its trace."""
    from ..arms.request import RoundRecord

    count = 2000
    trace: list[dict[str, Any]] = []
    before = time.perf_counter_ns()
    for i in range(count):
        for _ in range(8):
            time.perf_counter_ns()
        record = RoundRecord(i, 100, 5, 5, 3, 2, 3, "rejected")
        trace.append({"round": record.round, "requested": 5, "proposals": [1, 2, 3, 4, 5], "tokens": [1, 2, 3]})
    return {"tracing_ns_per_round": (time.perf_counter_ns() - before) / count}


def shadow(session: WorkerSession, message: dict[str, Any]) -> dict[str, Any]:
    """Survival of full blocks from sampled round starts of finished requests (`harness.shadow`)."""
    from ..arms.request import Request, StopPolicy
    from .shadow import replay_request

    if not hasattr(session.arm, "open_proposer"):
        return {"requests": []}
    found = []
    for item in message["requests"]:
        request = Request(
            item["request_id"], tuple(item["prompt"]), item["max_new_tokens"], int(item["seed"], 16),
            StopPolicy(tuple(message["stop_token_ids"]), tuple(message["stop_strings"])), item["stream"],
        )  # fmt: skip
        survival = replay_request(session.arm, request, item["output"], item["starts"], message["k"], message["greedy"])
        found.append({"request_id": item["request_id"], "survival": survival})
    return {"requests": found}


MEASUREMENTS: Mapping[str, Measurement] = {
    "build_arms": build_arms,
    "contention": contention,
    "first_forward": first_forward,
    "memory_formula": memory_formula,
    "shadow": shadow,
    "tracing": tracing,
}
