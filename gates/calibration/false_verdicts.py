"""How often each gate says the wrong thing when the truth sits exactly on its bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..checks.break_even import BreakEven
from ..checks.control import Control
from ..checks.law import ExactLaw
from ..checks.lookup import BeatsLookup
from ..checks.speed import NoRegression, Speedup
from ..checks.tail import Tail
from ..checks.ttft import TimeToFirstToken
from ..evidence import Evidence
from ..pairs import Paired
from ..result import GateResult
from .cells import Cell
from .simulate import AUDITS, Truth, World, log_ratios, plan_of

TABLE = "false-verdicts"
ALPHA = 0.025
STRATA = tuple("abcdefgh")
SHAPE = {"prompt_sd": 0.12, "noise_sd": 0.02, "block_sd": 0.01}
CONTROL = {"prompt_sd": 0.0, "noise_sd": 0.02, "block_sd": 0.01}
Draw = Callable[[np.random.Generator], GateResult]


def pairs_of(truths: dict[str, Truth], prompts: int, rng: np.random.Generator) -> Paired:
    values = {s: log_ratios(t, prompts, 3, rng) for s, t in truths.items()}
    ids = tuple(map(str, range(prompts)))
    return Paired(values, dict.fromkeys(values, ids), {}, {s: (np.exp(y), np.ones_like(y)) for s, y in values.items()})


def evidence_of(plan: dict[str, Any], **pairs: Paired) -> Evidence:
    """Pairs by "arm__baseline__column"."""
    given = {tuple(k.split("__")): v for k, v in pairs.items()}
    return Evidence.without_tables(plan).replace(given=given)


def worlds() -> Iterator[tuple[str, str, Draw, float | None]]:
    """(words, the wrong answer, one replicate, what is claimed)."""
    world = World(strata=STRATA, prompts=40, designated=("a", "b"))
    plan = plan_of(world)
    lookup = "prompt_lookup__champion_alone__total_ns"

    def strata(at: float, others: float, everywhere: bool = False) -> dict[str, Truth]:
        return {s: Truth(mean=at if everywhere or s == "a" else others, **SHAPE) for s in STRATA}

    def timed(check: Any, truths: dict[str, Truth], key: str = lookup) -> Draw:
        return lambda rng: check.evaluate(evidence_of(plan, **{key: pairs_of(truths, 40, rng)}))

    at, fast = -math.log(1.15), -math.log(1.6)
    yield (
        "speedup: true 1.15 in one designated stratum, 1.6 elsewhere",
        "pass",
        timed(Speedup(), strata(at, fast)),
        ALPHA,
    )
    yield "speedup: true 1.15 everywhere", "pass", timed(Speedup(), strata(at, at, True)), ALPHA
    yield "speedup: true 1.15 everywhere", "fail", timed(Speedup(), strata(at, at, True)), ALPHA
    slow = math.log(1.05)
    yield "no-regression: true 1/1.05 in one stratum", "pass", timed(NoRegression(), strata(slow, fast)), ALPHA
    yield "no-regression: true 1/1.05 in all 8 strata", "fail", timed(NoRegression(), strata(slow, slow, True)), ALPHA
    late = timed(TimeToFirstToken(), strata(math.log(1.1), 0.0, True), "prompt_lookup__champion_alone__ttft_ns")
    yield "ttft: true ratio 1.10 in every class", "pass", late, ALPHA
    yield "tail: 5 % of requests slower", "pass", _tail(plan), ALPHA
    yield "tail: 5 % of requests slower", "fail", _tail(plan), ALPHA
    yield "break-even: D(M) = 0", "pass", _break_even(plan), ALPHA
    yield "beats-lookup: true 1.05 overall", "pass", _lookup(), ALPHA
    for what, aa, dummy in (("A/A off by 1 %", 1.01, 1.05), ("dummy off by 1 %", 1.0, 1.06)):
        yield f"control: {what}", "pass", _control(aa, dummy, 0.0), ALPHA
    yield "control: drift of 2 %", "pass", _control(1.0, 1.05, math.log(1.02)), ALPHA
    yield "control: nothing wrong", "inconclusive", _control(1.0, 1.05, 0.0), None
    yield "exact-law: shift of 1 % of TV, 20,000 tokens", "pass", _law(0.01), ALPHA
    yield "exact-law: exact, 20,000 tokens", "fail", _law(0.0), ALPHA


def _tail(plan: dict[str, Any]) -> Draw:
    def draw(rng: np.random.Generator) -> GateResult:
        y = {s: np.where(rng.random((40, 1)) < 0.05, 0.3, -0.2) + rng.normal(0, 0.02, (40, 3)) for s in STRATA}
        return Tail().evaluate(evidence_of(plan, prompt_lookup__champion_alone__total_ns=Paired(y, {})))

    return draw


def _break_even(plan: dict[str, Any]) -> Draw:
    def draw(rng: np.random.Generator) -> GateResult:
        raw = {}
        for s in STRATA:
            gain = log_ratios(Truth(mean=0.0, skew=1.0, **SHAPE), 40, 3, rng)
            raw[s] = (np.ones_like(gain), 1 + gain)
        pairs = Paired({s: a for s, (a, _) in raw.items()}, {}, {}, raw)
        return BreakEven().evaluate(evidence_of(plan, prompt_lookup__champion_alone__session_ns=pairs))

    return draw


def _lookup() -> Draw:
    arms = {"neural_draft": Truth(), "prompt_lookup": Truth()}
    plan = plan_of(World(strata=STRATA, arms=arms, candidate="neural_draft", designated=("a",)))

    def draw(rng: np.random.Generator) -> GateResult:
        pairs = pairs_of({s: Truth(mean=-math.log(1.05), **SHAPE) for s in STRATA}, 40, rng)
        return BeatsLookup().evaluate(evidence_of(plan, neural_draft__prompt_lookup__total_ns=pairs))

    return draw


def _control(aa: float, dummy: float, drift: float) -> Draw:
    arms = {"prompt_lookup": Truth(), "champion_again": Truth(), "slowed_dummy": Truth()}
    plan = plan_of(World(strata=STRATA, arms=arms))

    def draw(rng: np.random.Generator) -> GateResult:
        return Control().evaluate(evidence_of(
            plan,
            prompt_lookup__champion_alone__total_ns=pairs_of(
                {s: Truth(mean=-0.3, drift=drift, **SHAPE) for s in STRATA}, 40, rng),
            champion_again__champion_alone__total_ns=pairs_of(
                {s: Truth(mean=math.log(aa), **CONTROL) for s in STRATA}, 40, rng),
            slowed_dummy__champion_alone__total_ns=pairs_of(
                {s: Truth(mean=math.log(dummy), **CONTROL) for s in STRATA}, 40, rng),
        ))  # fmt: skip

    return draw


def _law(shift: float, tokens: int = 20_000) -> Draw:
    plan = plan_of(World(plan={"decoding": {"temperature": 0.7}}))
    audits = {name: ({"name": name, "ok": True, "n": 1},) for name in AUDITS}

    def draw(rng: np.random.Generator) -> GateResult:
        mass = rng.beta(2, 3, size=tokens)
        scores = pd.DataFrame({
            "arm": "prompt_lookup", "stratum": "a", "prompt_id": np.arange(tokens) // 200, "excess_mass": mass,
            "in_excess": rng.random(tokens) < np.minimum(1.0, mass + shift),
            "pit_ratio": rng.random(tokens), "pit_id": rng.random(tokens), "tv": 0.3,
        })  # fmt: skip
        return ExactLaw().evaluate(Evidence.without_tables(plan).replace(scores=scores, audits=audits))

    return draw


def cells(replicates: int, seed: int) -> Iterator[Cell]:
    for index, (words, wrong, draw, limit) in enumerate(worlds()):
        rng = np.random.default_rng([seed, index])
        n = replicates if not words.startswith("exact-law") else max(50, replicates // 4)
        hits = sum(draw(rng).status == wrong for _ in range(n))
        yield Cell(TABLE, words, "ours", f"the gate says {wrong}", hits / n, n, limit)
