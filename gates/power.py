"""The decision card: chances of each verdict over a grid of truths, through the real gate code, before anything is
run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from .calibration.simulate import HARDWARE, Truth, log_ratios
from .check import Check
from .checks.speed import TimingCheck
from .drift import same_model_arms
from .evidence import BASELINE, Evidence, Ledger
from .intervals import spread
from .judge import evaluate
from .pairs import Paired, paired
from .registry import build_check, checks
from .result import GateResult, combine

FORMAT = "draftgate-card/1"
SIMULATED = ("control", "speedup", "no-regression", "tail")
SPEEDUPS = (0.9, 1.0, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0)
REPLICATES = 100
UNANIMOUS = 40
"""A truth under which so many replicates all end alike is not simulated further."""
UPPER = 0.80


@dataclass(frozen=True)
class Variation:
    """Standard deviations of log time ratios; as assumed, or the 80 % upper limits from a pilot."""

    prompt_sd: float = 0.15
    noise_sd: float = 0.02
    block_sd: float = 0.01
    source: str = "assumed: no pilot"


def pilot_variation(evidence: Evidence) -> Variation:
    """Upper 80 % limits of the standard deviations in a pilot run, pooled over strata.

    Raises ValueError when the pilot has fewer than two prompts a stratum or one block.
    """
    pairs = paired(evidence, evidence.candidate)
    prompt = noise = block = 0.0
    df_prompt = df_noise = df_block = 0
    for y in pairs.values.values():
        if y.shape[0] < 2 or y.shape[1] < 2 or np.isnan(y).any():
            continue
        n, b = y.shape
        residual = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
        noise, df_noise = noise + float((residual**2).sum()), df_noise + (n - 1) * (b - 1)
        own = spread(y)
        prompt, df_prompt = prompt + own.prompt_variance * n * (n - 1), df_prompt + n - 1
        block, df_block = block + own.block_variance * (b - 1), df_block + b - 1
    if not df_prompt or not df_block:
        raise ValueError("a pilot needs two prompts a stratum and two blocks: " + "; ".join(pairs.problems.values()))

    def upper(total: float, df: int) -> float:
        return math.sqrt(total / float(special.chdtri(df, UPPER)))

    return Variation(upper(prompt, df_prompt), upper(noise, df_noise), upper(block, df_block),
                     f"pilot: {UPPER:.0%} upper limits, {df_prompt} and {df_block} degrees of freedom")  # fmt: skip


def decision_card(
    plan: Mapping[str, Any], *, variation: Variation | None = None, replicates: int = REPLICATES,
    speedups: Sequence[float] = SPEEDUPS, seed: int = 7,
) -> dict[str, Any]:  # fmt: skip
    """P(GO / NO-GO / INCONCLUSIVE) for each true speed-up, the same in every stratum; JSON values.

    Control, speed-up, no-regression and tail run on simulated pairs of the plan's shape; every other gate is assumed to
    hold. ``variation`` defaults to the plan's pilot (``sample_size.pilot``), else to assumed values.
    """
    found = variation or _declared(plan)
    asked = [build_check(g) for g in plan.get("gates", ()) if g.get("id") in checks()]
    rng = np.random.default_rng(seed)
    truths = [_at(plan, asked, s, found, replicates, rng) for s in speedups]
    best = max((t["GO"] for t in truths), default=0.0)
    blocked = [c for c in asked if c.requirement == "required" and c.unmeasurable(plan)]
    return {
        "format": FORMAT, "replicates": replicates, "seed": seed,
        "variation": {"prompt_sd": found.prompt_sd, "noise_sd": found.noise_sd, "block_sd": found.block_sd,
                      "source": found.source},
        "simulated": [c.id for c in asked if c.id in SIMULATED and c.requirement != "not-applicable"],
        "assumed": [c.id for c in asked if c.id not in SIMULATED and c.requirement != "not-applicable"],
        "truths": truths, "can_go": best >= 0.5, "note": _note(truths, best, blocked, plan),
    }  # fmt: skip


def _assumed(check: Check, plan: Mapping[str, Any]) -> GateResult:
    """That it holds, unless no run of this plan can measure it."""
    reason = check.unmeasurable(plan)
    return check.result("not-measured", reason) if reason else check.result("pass", "assumed")


def _note(truths: Sequence[Mapping[str, Any]], best: float, blocked: Sequence[Check], plan: Mapping[str, Any]) -> str:
    if blocked:
        said = "; ".join(f"{c.id} is required, but {c.unmeasurable(plan)}" for c in blocked)
        return f"this plan cannot end in GO, whatever the truth: {said}. Ask for it if-available"
    if best == 0:
        return "this plan cannot end in GO, whatever the truth: too few prompts or blocks for the gates it asks"
    if best < 0.5:
        return f"this plan ends in GO at most {best:.0%} of the time, whatever the truth"
    first = next(t for t in truths if t["GO"] >= 0.5)
    return f"GO is likelier than not from a true speed-up of {first['speedup']:g} in every stratum"


def _declared(plan: Mapping[str, Any]) -> Variation:
    pilot = (plan.get("sample_size") or {}).get("pilot")
    if not isinstance(pilot, Mapping):
        return Variation()
    said = {k: float(pilot[k]) for k in ("prompt_sd", "noise_sd", "block_sd") if k in pilot}
    return replace(Variation(source="declared in the plan"), **said)  # type: ignore[arg-type]


def _at(
    plan: Mapping[str, Any], asked: Sequence[Check], speedup: float, variation: Variation, replicates: int,
    rng: np.random.Generator,
) -> dict[str, Any]:  # fmt: skip
    verdicts: Counter[str] = Counter()
    gates: dict[str, Counter[str]] = {}
    assumed = [_assumed(c, plan) for c in asked if c.id not in SIMULATED]
    timed = [c for c in asked if c.id in SIMULATED]
    shape = Shape.of(plan)
    n = 0
    while n < replicates and not (n >= UNANIMOUS and len(verdicts) == 1):
        results = evaluate(timed, simulated_pairs(plan, shape, speedup, variation, rng))
        verdicts[combine([*assumed, *results])[0]] += 1
        for result in results:
            gates.setdefault(result.id, Counter())[result.status] += 1
        n += 1
    share = {name: round(verdicts[name] / n, 4) for name in ("GO", "NO-GO", "INCONCLUSIVE", "INVALID")}
    said = {g: {status: round(hits / n, 4) for status, hits in sorted(c.items())} for g, c in gates.items()}
    return {"speedup": speedup, "replicates": n, **share, "gates": said}


@dataclass(frozen=True)
class Shape:
    """What a plan's size is, to a simulation."""

    families: Mapping[str, tuple[str, ...]]
    """By stratum."""
    blocks: int
    arms: tuple[str | None, tuple[str, float] | None]
    """The A/A arm and the slowed dummy."""

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> Shape:
        families = {
            str(s["name"]): tuple(dict.fromkeys(str(p.get("family_id", p.get("id"))) for p in s.get("prompts", ())))
            for s in plan.get("strata", ())
        }
        blocks = int((plan.get("schedule") or {}).get("blocks", 1))
        return cls({s: f for s, f in families.items() if f}, blocks, same_model_arms(list(plan.get("arms", ()))))


def simulated_pairs(
    plan: Mapping[str, Any], shape: Shape, speedup: float, variation: Variation, rng: np.random.Generator
) -> Evidence:
    """One replicate of the pairs a run of this plan would give, on the plan's own hardware class."""
    sd = {"noise_sd": variation.noise_sd, "block_sd": variation.block_sd}
    arms = {str(plan.get("candidate")): Truth(mean=-math.log(speedup), prompt_sd=variation.prompt_sd, **sd)}
    again, dummy = shape.arms
    if again:
        arms[again] = Truth(prompt_sd=0.0, **sd)
    if dummy:
        arms[dummy[0]] = Truth(mean=math.log1p(dummy[1]), prompt_sd=0.0, **sd)
    given = {}
    for arm, truth in arms.items():
        values = {s: log_ratios(truth, len(f), shape.blocks, rng) for s, f in shape.families.items()}
        raw = {s: (np.exp(y), np.ones_like(y)) for s, y in values.items()}
        given[arm, BASELINE, TimingCheck.column] = Paired(values, shape.families, {}, raw)
    hardware = plan.get("hardware_class") or HARDWARE
    ledger = Ledger(({"kind": "plan", "body": {"environment": {"hardware_class": hardware}}},))
    return Evidence.without_tables(plan).replace(ledger=ledger, given=given)


def resized(plan: Mapping[str, Any], prompts: int | None = None, blocks: int | None = None) -> dict[str, Any]:
    """The plan with so many prompts in every stratum and so many blocks; None leaves it."""
    out = dict(plan)
    if prompts is not None:
        made = [{"id": f"simulated-{i}", "family_id": f"simulated-{i}"} for i in range(prompts)]
        out["strata"] = [{**s, "prompts": made} for s in plan.get("strata", ())]
    if blocks is not None:
        out["schedule"] = {**(plan.get("schedule") or {}), "blocks": blocks}
    return out
