"""What a plan would run, and how long it takes: from one short measurement on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..arms.kinds import BASELINE, WITH_DRAFT
from .bound import Bound
from .freeze import load_message
from .process import Executor
from .schedule import Schedule

PROBE_TOKENS = 24
"""New tokens of the measured request."""
AUDITED_TOKENS = 8000
"""About so many tokens are computed again after the requests: replay, the battery of ends, fresh states."""
START_S = 0.25
"""A fresh Python with numpy; the model's load is measured."""


@dataclass(frozen=True)
class Estimate:
    units: int
    processes: int
    requests: int
    """Warm and cold; warm-ups and canaries not counted."""
    tokens: int
    """At most: every answer at its limit."""
    seconds: float
    """Every answer at its limit, every arm as fast as champion alone; audits, shadow replay and scoring included."""


def estimate(plan: Mapping[str, Any], bound: Bound, backend: str, executor: Executor, kernel: str | None) -> Estimate:
    """Time one answer of champion alone and multiply. An upper bound where answers stop early or a draft helps."""
    schedule = Schedule(plan)
    prefill_s, token_s = _measure(plan, bound, backend, executor, kernel)
    tokens = requests = prompt_tokens = 0
    lengths = {(s["name"], p["id"]): p["prompt_tokens"] for s in plan["strata"] for p in s["prompts"]}
    extra = 0 if plan["decoding"]["temperature"] == 0 else 1  # the untimed pass that draws the texts
    for item in schedule.requests():
        requests += 1
        tokens += item.max_new_tokens
        prompt_tokens += lengths[item.stratum, item.prompt_id]
    arms = len(schedule.arms)
    processes = len(schedule.units) * (arms + extra) + (3 * arms if plan["schedule"]["canaries"] else 0)
    share = (arms + extra) / arms * (1 + _overhead(plan))
    work = share * (tokens * token_s + prompt_tokens * prefill_s)
    loads = processes * (START_S + bound.load_ns / 1e9 + plan["schedule"]["rest_s"])
    cold = plan["measurement"]["cold_loads"] * (START_S + bound.load_ns / 1e9)
    after = off_clock_seconds(
        plan, tokens // arms, prompt_tokens // (arms * plan["schedule"]["blocks"]), prefill_s, token_s
    )
    return Estimate(len(schedule.units), processes, requests, tokens, work + loads + cold + after)


def off_clock_seconds(
    plan: Mapping[str, Any], answer_tokens: int, prompt_tokens: int, prefill_s: float, token_s: float
) -> float:
    """Seconds off the clock; ``answer_tokens`` of one arm, ``prompt_tokens`` of one arm in one block."""
    measure = plan["measurement"]
    drafting = sum(arm["kind"] in WITH_DRAFT for arm in plan["arms"]) if measure["shadow_k"] else 0
    scored = 0 if plan["decoding"]["temperature"] == 0 else min(measure["score_tokens"], answer_tokens)
    return drafting * prompt_tokens * prefill_s + (AUDITED_TOKENS + 2 * scored) * token_s


def _overhead(plan: Mapping[str, Any]) -> float:
    """Warm-ups and canaries as a share of the requests."""
    prompts = sum(len(s["prompts"]) for s in plan["strata"])
    units = len(plan["strata"]) * plan["schedule"]["blocks"]
    extra = units * plan["schedule"]["warmup_requests"] + 3 * plan["schedule"]["canaries"]
    return float(extra / max(1, prompts * plan["schedule"]["blocks"]))


def _measure(
    plan: Mapping[str, Any], bound: Bound, backend: str, executor: Executor, kernel: str | None
) -> tuple[float, float]:
    """Seconds per prompt token and per new token of champion alone, on the plan's median prompt."""
    keys = sorted(bound.ids, key=lambda k: len(bound.ids[k]))
    prompt = bound.ids[keys[len(keys) // 2]]
    arm = next(a for a in plan["arms"] if a["name"] == BASELINE)
    with executor.start() as worker:
        paths = {**bound.paths, "draft": None}
        worker.ask(
            load_message(backend, paths, plan["schedule"]["threads"], kernel, arm=arm, decoding=plan["decoding"])
        )
        message = {
            "type": "generate", "phase": "warmup", "request_id": "estimate", "prompt": prompt,
            "max_new_tokens": PROBE_TOKENS,
            "seed": "0" * 16, "stream": "estimate", "stop_token_ids": [], "stop_strings": [],
            "continues": False, "forced": None, "check": None,
        }  # fmt: skip
        worker.ask(message)
        done = worker.ask(message)["completion"]
        worker.ask({"type": "end"})
    decode = max(1, done["total_ns"] - done["prefill_ns"])
    return done["prefill_ns"] / 1e9 / len(prompt), decode / 1e9 / max(1, len(done["tokens"]))
