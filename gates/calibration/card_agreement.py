"""Power: what the decision card promises, and what whole simulated runs through the judge then give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..judge import judge_evidence
from ..power import SIMULATED, Variation, decision_card
from ..registry import default_gates
from .cells import Cell
from .simulate import Truth, World, plan_of, simulate

TABLE = "power"
VARIATION = Variation(0.10, 0.02, 0.01, "the truth")
SPEEDUPS = (1.0, 1.15, 1.25, 1.4)


def world(speedup: float) -> World:
    sd: dict[str, Any] = {"noise_sd": VARIATION.noise_sd, "block_sd": VARIATION.block_sd}
    arms = {
        "prompt_lookup": Truth(mean=-math.log(speedup), prompt_sd=VARIATION.prompt_sd, **sd),
        "champion_again": Truth(prompt_sd=0.0, **sd),
        "slowed_dummy": Truth(mean=math.log(1.05), prompt_sd=0.0, **sd),
    }
    asked = [g for g in default_gates() if g["id"] in ("identity", "complete", "exact-greedy", *SIMULATED)]
    return World(strata=tuple("abcdefgh"), prompts=40, arms=arms, designated=("a", "b"), gates=asked)


def cells(replicates: int, seed: int) -> Iterator[Cell]:
    n = max(40, replicates // 20)
    card = decision_card(plan_of(world(1.0)), variation=VARIATION, replicates=max(100, n), speedups=SPEEDUPS, seed=seed)
    for index, truth in enumerate(card["truths"]):
        rng = np.random.default_rng([seed, index])
        plan = plan_of(world(truth["speedup"]))
        go = nogo = 0
        for _ in range(n):
            verdict = judge_evidence(simulate(world(truth["speedup"]), rng, plan), look_back=False).verdict
            go, nogo = go + (verdict == "GO"), nogo + (verdict == "NO-GO")
        words = f"8 strata of 40 prompts, 3 blocks, true speed-up {truth['speedup']:g}"
        yield Cell(TABLE, words, "decision card", "GO", truth["GO"], truth["replicates"])
        yield Cell(TABLE, words, "whole runs", "GO", go / n, n)
        yield Cell(TABLE, words, "decision card", "NO-GO", truth["NO-GO"], truth["replicates"])
        yield Cell(TABLE, words, "whole runs", "NO-GO", nogo / n, n)
