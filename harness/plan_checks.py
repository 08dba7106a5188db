"""What must hold of a composed plan before it freezes. Every problem is listed, not the first alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..arms.kinds import BASELINE, WITH_DRAFT

ORDERS = ("interleaved", "williams")
PREFIX_CACHES = ("none", "conversation")
SPLITS = ("open", "reserve", "all")
STOPPING_RULES = ("fixed",)
EXCLUSION_RULES = ("probe", "steal")
MAX_DESIGNATED = 4
MAX_INTEGER = 2**53 - 1
"""What every reader of a canonical plan holds exactly."""
MAX_TOKENS = 10**6
MAX_SIGMA = 5
MOST = {
    "schedule.blocks": 1000, "schedule.max_new_tokens": MAX_TOKENS, "schedule.warmup_requests": 1000,
    "schedule.canaries": 1000, "schedule.rest_s": 3600, "measurement.shadow_k": 64, "measurement.cold_loads": 1000,
    "measurement.memory_interval_ms": 60_000, "measurement.shadow_rounds_per_request": MAX_TOKENS,
    "measurement.score_tokens": MAX_TOKENS,
}  # fmt: skip
"""Above these a number is a slip of the hand, and the run would never end."""
SESSION_LENGTHS = {
    "fixed": ({"tokens"},),
    "lognormal": ({"median_tokens", "sigma"}, {"median", "sigma"}),
    "table": ({"tokens", "weights"}, {"tokens"}),
}
"""Kinds and the fields each may have; the break-even reads them (`gates/breakeven.py`)."""


def plan_problems(plan: dict[str, Any]) -> list[str]:
    """One line per problem of the confirmatory part as composed; empty when it can be frozen."""
    return list(_unstorable(plan, "")) or [
        *_texts(plan), *_numbers(plan), *_arms(plan), *_strata(plan), *_decoding(plan), *_rules(plan),
        *_sessions(plan),
    ]  # fmt: skip


def _unstorable(node: Any, where: str) -> Iterator[str]:
    """Values that canonical JSON cannot hold, by path."""
    if isinstance(node, dict):
        for key, child in node.items():
            yield from _unstorable(str(key), f"a key of {where or 'the plan'}")
            yield from _unstorable(child, f"{where}.{key}" if where else str(key))
    elif isinstance(node, list):
        for i, child in enumerate(node):
            yield from _unstorable(child, f"{where}[{i}]")
    elif isinstance(node, str) and any("\ud800" <= c <= "\udfff" or c == "\0" for c in node):
        yield f"{where} holds a NUL or half a surrogate pair: write plain text"
    elif isinstance(node, float) and not math.isfinite(node):
        yield f"{where} is {node}: a finite number"
    elif isinstance(node, int) and abs(node) > MAX_INTEGER:
        yield f"{where} is an integer beyond ±2^53"


def _texts(plan: dict[str, Any]) -> list[str]:
    problems = [f"{key} is empty" for key in ("name", "title") if not str(plan[key]).strip()]
    problems += [f"{key} holds control characters: one printable line" for key in ("name", "title")
                 if not plan[key].isprintable()]  # fmt: skip
    problems += [
        f"{key} is empty: say at least one"
        for key in ("hypotheses", "outcomes")
        if not any(s.strip() for s in plan[key])
    ]
    seed = plan["seed"]
    if len(seed) != 16 or any(c not in "0123456789abcdef" for c in seed):
        problems.append(f"seed {seed!r} is not 16 hexadecimal digits")
    return problems


def _numbers(plan: dict[str, Any]) -> list[str]:
    schedule, size, measure = plan["schedule"], plan["sample_size"], plan["measurement"]
    at_least_one = {
        "schedule.blocks": schedule["blocks"],
        "schedule.max_new_tokens": schedule["max_new_tokens"],
        "attempts_budget": plan["attempts_budget"],
        "memory_envelope_bytes": plan["memory_envelope_bytes"],
        "sample_size.prompts_per_stratum": size["prompts_per_stratum"],
        "sample_size.blocks": size["blocks"],
    }
    not_negative = {
        f"schedule.{k}": schedule[k] for k in ("warmup_requests", "canaries", "rest_s", "threads")
    } | {
        f"measurement.{k}": measure[k]
        for k in ("memory_interval_ms", "shadow_k", "shadow_rounds_per_request", "score_tokens", "cold_loads")
    }  # fmt: skip
    problems = [f"{name} is {value}: at least 1" for name, value in at_least_one.items() if value < 1]
    problems += [f"{name} is {value}: not below 0" for name, value in not_negative.items() if not value >= 0]
    problems += [
        f"{name} is {value}: at most {most}"
        for name, most in MOST.items()
        if (value := plan[name.partition(".")[0]][name.partition(".")[2]]) > most
    ]
    if not 0 < plan["alpha"] < 0.5:
        problems.append(f"alpha is {plan['alpha']}: between 0 and 0.5")
    if not 0 <= size["power"] < 1:
        problems.append(f"sample_size.power is {size['power']}: from 0 to below 1")
    if size["blocks"] != schedule["blocks"]:
        problems.append(
            f"sample_size.blocks is {size['blocks']} and schedule.blocks {schedule['blocks']}: they must agree"
        )
    if schedule["order"] not in ORDERS:
        problems.append(f"schedule.order {schedule['order']!r} is none of {', '.join(ORDERS)}")
    if schedule["prefix_cache"] not in PREFIX_CACHES:
        problems.append(f"schedule.prefix_cache {schedule['prefix_cache']!r} is none of {', '.join(PREFIX_CACHES)}")
    return problems


def _arms(plan: dict[str, Any]) -> list[str]:
    arms, problems = plan["arms"], []
    entries = arms["entries"]
    if entries.get(BASELINE, {}).get("kind") != BASELINE:
        problems.append(f"arms.entries has no {BASELINE} of kind {BASELINE}: nothing to compare with")
    if arms["candidate"] not in entries:
        problems.append(f"arms.candidate {arms['candidate']!r} is not among the arms {', '.join(entries)}")
    elif entries[arms["candidate"]]["kind"] == BASELINE:
        problems.append(f"arms.candidate {arms['candidate']!r} is the champion itself")
    drafting = [name for name, arm in entries.items() if arm["kind"] in WITH_DRAFT]
    if drafting and plan["draft"] is None:
        problems.append(f"arm {drafting[0]} needs a draft: give --draft PATH")
    if plan["draft"] is not None and not drafting:
        problems.append("a draft is given and no arm uses it: choose arms=neural, or draft=null")
    for name, arm in entries.items():
        if not _is_name(name):
            problems.append(f"arm name {name!r}: letters, digits, _ and - only")
        if arm["slowdown"] is not None and not 0 < arm["slowdown"] < 10:
            problems.append(f"arm {name}: slowdown {arm['slowdown']} is not between 0 and 10")
        if arm["k"] is not None and not 1 <= arm["k"] <= 64:
            problems.append(f"arm {name}: k {arm['k']} is not from 1 to 64")
    return problems


def _is_name(text: str) -> bool:
    return text.replace("_", "").replace("-", "").isalnum()


def _strata(plan: dict[str, Any]) -> list[str]:
    strata, problems = plan["strata"], []
    if not strata["entries"]:
        problems.append("strata.entries is empty: no prompts, no evidence")
    if strata["split"] not in SPLITS:
        problems.append(f"strata.split {strata['split']!r} is none of {', '.join(SPLITS)}")
    if strata["prompts_per_stratum"] < 0:
        problems.append(f"strata.prompts_per_stratum is {strata['prompts_per_stratum']}: not below 0")
    for name, stratum in strata["entries"].items():
        if not _is_name(name):
            problems.append(f"stratum name {name!r}: letters, digits, _ and - only")
        if not (math.isfinite(stratum["weight"]) and stratum["weight"] > 0):
            problems.append(f"strata.entries.{name}.weight is {stratum['weight']}: a positive number")
    designated = [name for name, stratum in strata["entries"].items() if stratum["designated"]]
    if len(designated) > MAX_DESIGNATED:
        problems.append(f"{len(designated)} designated strata: at most {MAX_DESIGNATED}")
    return problems


def _decoding(plan: dict[str, Any]) -> list[str]:
    d, problems = plan["decoding"], []
    limits = {
        "temperature": (0.0, 100.0), "min_p": (0.0, 1.0), "top_k": (0, 2**31), "min_new_tokens": (0, 2**31),
    }  # fmt: skip
    for key, (low, high) in limits.items():
        if not low <= d[key] <= high:
            problems.append(f"decoding.{key} is {d[key]}: from {low} to {high}")
    for key in ("top_p", "typical_p"):
        if not 0 < d[key] <= 1:
            problems.append(f"decoding.{key} is {d[key]}: above 0, at most 1")
    if not d["repetition_penalty"] > 0:
        problems.append(f"decoding.repetition_penalty is {d['repetition_penalty']}: above 0")
    if any(not text for text in [*d["stop_strings"], *d["bad_words"]]):
        problems.append("decoding.stop_strings and bad_words may not hold an empty string")
    return problems


def _rules(plan: dict[str, Any]) -> list[str]:
    problems = []
    if plan["stopping"]["rule"] not in STOPPING_RULES:
        problems.append(f"stopping.rule {plan['stopping']['rule']!r} is none of {', '.join(STOPPING_RULES)}")
    for exclusion in plan["exclusions"]:
        if exclusion["rule"] not in EXCLUSION_RULES:
            problems.append(f"exclusions: rule {exclusion['rule']!r} is none of {', '.join(EXCLUSION_RULES)}")
        if not exclusion["limit"] > 0:
            problems.append(f"exclusions: limit {exclusion['limit']} of {exclusion['rule']} is not above 0")
    if not plan["gates"]:
        problems.append("gates is empty: nothing would be judged")
    for name, gate in plan["gates"].items():
        if gate["requirement"] not in ("required", "if-available", "not-applicable"):
            problems.append(f"gate {name}: requirement {gate['requirement']!r} is none of the three")
    return problems


def _sessions(plan: dict[str, Any]) -> list[str]:
    declared, problems = plan["session_lengths"], []
    if not declared:
        return ["session_lengths is empty: give at least '*'"]
    for name, entry in declared.items():
        kind, where = entry.get("kind"), f"session_lengths.{name}"
        if kind not in SESSION_LENGTHS:
            problems.append(f"{where}: kind {kind!r} is none of {', '.join(SESSION_LENGTHS)}")
            continue
        fields = {k: v if kind == "table" and isinstance(v, list) else [v] for k, v in entry.items() if k != "kind"}
        if set(fields) not in SESSION_LENGTHS[kind]:
            problems.append(f"{where}: {kind} has the fields {', '.join(sorted(SESSION_LENGTHS[kind][0]))}")
        elif not all(type(v) in (int, float) and 0 < v for row in fields.values() for v in row):
            problems.append(f"{where}: {', '.join(sorted(fields))} must be positive numbers")
        elif len({len(row) for row in fields.values()}) != 1 or not fields.get("tokens", [1]):
            problems.append(f"{where}: tokens and weights must be lists of one length, not empty")
        elif entry.get("sigma", 1) > MAX_SIGMA:
            problems.append(f"{where}: sigma {entry['sigma']} is above {MAX_SIGMA}")
    missing = [name for name in plan["strata"]["entries"] if name not in declared and "*" not in declared]
    return problems + [f"session_lengths has neither {name} nor '*'" for name in missing]
