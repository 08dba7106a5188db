"""Which pairs the plan's exclusion rules drop: from the machine's state before and beside a request, never from
its duration."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Pair = tuple[str, str, int, int, str]
"""Stratum, prompt, block, turn, entry: the same request on every arm."""


def pair_of(row: Mapping[str, Any]) -> Pair:
    return (row["stratum"], row["prompt_id"], row["block"], row["turn"], row["entry"])


def excluded_pairs(plan: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> dict[Pair, str]:
    """`excluded` over rows of the requests table."""
    return excluded(plan, ((pair_of(row), row["probe_ns"], row["steal_ticks"]) for row in rows))


def excluded(plan: Mapping[str, Any], readings: Iterable[tuple[Pair, int, int]]) -> dict[Pair, str]:
    """Pair to the rule that drops it on every arm, from pair, probe (ns) and steal (ticks) of every request.

    ``probe``: the largest probe over the arms exceeds ``limit`` times the run's median. ``steal``: more than ``limit``
    ticks were stolen during one of the requests. Blind to arm: the rule looks at the worst of the pair, whichever arm
    it was.
    """
    rules = {e["rule"]: float(e["limit"]) for e in plan["exclusions"]}
    if not rules:
        return {}
    probes: array[int] = array("q")
    worst: dict[Pair, tuple[int, int]] = {}
    for pair, probe, steal in readings:
        probes.append(probe)
        before = worst.get(pair, (0, 0))
        if probe > before[0] or steal > before[1]:
            worst[pair] = (max(before[0], probe), max(before[1], steal))
    median = float(np.median(np.asarray(probes))) if probes else 0.0
    dropped: dict[Pair, str] = {}
    for pair, (most_probe, most_steal) in worst.items():
        if "probe" in rules and most_probe > rules["probe"] * median:
            dropped[pair] = "probe"
        elif "steal" in rules and most_steal > rules["steal"]:
            dropped[pair] = "steal"
    return dropped
