"""Monte Carlo with the real draws: counts against exact probabilities, in one family at one level.

Enumeration has the round's arithmetic; this has what it replaces, the generator and its counters: a shared counter, a
biased uniform or a correlation between a round and the next would show here. The exact law of every table comes from
the enumeration of the same arm. Sizes follow from a stated power.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .enumeration import arms_of, decoding_of, enumerate_arm, request_of
from .families import Family
from .family import g_test, g_test_power, judge_family, sample_size
from .finding import Finding
from .toy_models import models_of, toy_arm

MONTE_CARLO = ("generic-v3-k2", "lesson-one", "sharp-mismatch")
"""Families tried."""


@dataclass(frozen=True)
class Size:
    """What the counts must be able to see: a total variation, at a level, with a power."""

    tv: float
    level: float
    power: float


QUICK = Size(tv=0.06, level=0.005, power=0.9)
FULL = Size(tv=0.015, level=0.005, power=0.9)


def tables(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is counted of one request, read off its private trace."""
    first = steps[0]
    second = steps[1] if len(steps) > 1 else None
    rejected = first["outcome"] == "rejected"
    return {
        "sequence": tuple(t for s in steps for t in s["tokens"]),
        "first rejection": first["accepted"] if rejected else None,
        "corrected token": first["tokens"][-1] if rejected else None,
        "accept × correction": (first["accepted"], first["tokens"][-1]),
        "proposal × accept": (first["proposals"][0] if first["proposals"] else None, first["accepted"] > 0),
        "round × next round": (first["accepted"], None if second is None else second["accepted"]),
        "token × next round's proposal": (
            first["tokens"][-1],
            second["proposals"][0] if second is not None and second["proposals"] else None,
        ),
    }


def count(family: Family, n: int, first_seed: int = 0) -> tuple[dict[str, Counter[Any]], dict[str, Mapping[Any, Any]]]:
    """Counts of ``n`` runs with seeds from ``first_seed``, and the exact laws of the same tables."""
    champion, draft = models_of(family)
    spec = next(iter(arms_of(family)))
    arm = toy_arm(spec, champion, draft, decoding_of(family))
    request = request_of(family)
    counts: dict[str, Counter[Any]] = {}
    for seed in range(first_seed, first_seed + n):
        done = arm.generate(replace(request, seed=seed, stream="monte carlo"))
        for name, value in tables(done.trace).items():
            counts.setdefault(name, Counter())[value] += 1
    laws: dict[str, Mapping[Any, Any]] = dict(enumerate_arm(arm, request, observe=tables).observed)
    return counts, laws


def check_monte_carlo(families: Iterable[Family], size: Size = QUICK, first_seed: int = 0) -> Finding:
    """All tables of all families, Holm at the size's level; each table is as large as its stated power asks."""
    listed = [f for f in families if f.name in MONTE_CARLO]
    p_values: dict[str, float] = {}
    said: list[dict[str, Any]] = []
    runs = 0
    tests = 7 * max(1, len(listed))
    for family in listed:
        champion, draft = models_of(family)
        arm = toy_arm(next(iter(arms_of(family))), champion, draft, decoding_of(family))
        cells = max(len(law) for law in enumerate_arm(arm, request_of(family), observe=tables).observed.values())
        n = sample_size(size.tv, cells, size.level / tests, size.power)
        counts, laws = count(family, n, first_seed)
        runs += n
        for name, law in laws.items():
            values = sorted(set(law) | set(counts[name]), key=repr)
            test = g_test([counts[name][v] for v in values], [float(law.get(v, 0)) for v in values])
            key = f"{family.name}: {name}"
            p_values[key] = test.p_value
            power = g_test_power(size.tv, max(2, len(law)), n, size.level / tests)
            said.append(
                {"table": key, "cells": len(law), "n": n, "g": test.statistic, "p": test.p_value, "power": power}
            )
    if not p_values:
        return Finding("monte_carlo", False, 0, "runs", {"reason": "no family to run"})
    result = judge_family(p_values, size.level)
    detail = {
        "tables": said,
        "level": size.level,
        "tv": size.tv,
        "least_power": min(float(row["power"]) for row in said),
        "rejected": list(result.rejected),
    }
    return Finding("monte_carlo", result.ok, runs, "runs", detail)
