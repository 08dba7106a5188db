"""Complete tables from a known truth: what a run would have recorded, had the world been this."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..evidence import BASELINE, Evidence, Ledger
from ..registry import default_gates

AUDITS = ("conformance", "causality", "replay", "enumeration", "reliability", "deletion", "privacy", "provenance")
HARDWARE = {"architecture": "simulated", "instruction_sets": [], "cores": 2, "memory_class": "simulated"}


@dataclass(frozen=True)
class Truth:
    """One arm's log time ratio to champion-alone, and how it varies. Standard deviations in log units."""

    mean: float = 0.0
    prompt_sd: float = 0.10
    noise_sd: float = 0.02
    block_sd: float = 0.01
    skew: float = 0.0
    """0: normal over prompts; > 0: shifted exponential tail to the slow side; < 0: to the fast side."""
    rare_share: float = 0.0
    """Share of prompts with a rare regression added."""
    rare_size: float = 0.0
    drift: float = 0.0
    """Change of the log ratio from first to last block."""


@dataclass(frozen=True)
class World:
    """A plan's shape and the truth of each arm besides champion-alone."""

    strata: Sequence[str] = ("a",)
    prompts: int = 40
    blocks: int = 3
    arms: Mapping[str, Truth] = field(default_factory=lambda: {"prompt_lookup": Truth(mean=-0.3)})
    candidate: str = "prompt_lookup"
    designated: Sequence[str] = ("a",)
    tokens: int = 128
    gates: Sequence[Mapping[str, Any]] | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the plan."""


KINDS: Mapping[str, Mapping[str, Any]] = {
    "champion_again": {"kind": BASELINE},
    "slowed_dummy": {"kind": BASELINE, "slowdown": 0.05},
    "prompt_lookup": {"kind": "prompt_lookup", "k": 5, "min_ngram": 2, "max_ngram": 4},
    "neural_draft": {"kind": "neural_draft", "k": 4, "policy": {"kind": "fixed"}},
}


def plan_of(world: World) -> dict[str, Any]:
    """A plan of the frozen form, without identities."""
    strata = [
        {
            "name": name,
            "weight": 1.0,
            "designated": name in world.designated,
            "prompts": [
                {"id": f"{name}-{i}", "family_id": f"{name}-{i}", "prompt_tokens": 50 + i, "turns": 1}
                for i in range(world.prompts)
            ],
        }
        for name in world.strata
    ]
    arms: list[dict[str, Any]] = [{"name": BASELINE, "kind": BASELINE}]
    arms += [{"name": name, **KINDS.get(name, {"kind": "neural_draft"})} for name in world.arms]
    return {
        "format": "draftgate-plan/1",
        "name": "simulated",
        "seed": "5eed000000000001",
        "alpha": 0.025,
        "attempts_budget": 1,
        "candidate": world.candidate,
        "arms": arms,
        "strata": strata,
        "decoding": {"temperature": 0.0},
        "draft": None,
        "schedule": {"blocks": world.blocks, "max_new_tokens": world.tokens, "cold": False},
        "gates": list(default_gates() if world.gates is None else world.gates),
        "hardware_class": HARDWARE,
        "session_lengths": {"*": {"kind": "lognormal", "median_tokens": 256, "sigma": 0.8}},
        "memory_envelope_bytes": 1 << 30,
        "parent": None,
        **world.plan,
    }


def log_ratios(truth: Truth, prompts: int, blocks: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """y [prompts, blocks] of one stratum, with the mean over prompts at ``truth.mean`` in expectation."""
    spread: npt.NDArray[np.float64]
    if truth.skew == 0:
        spread = rng.normal(size=prompts)
    else:
        spread = np.sign(truth.skew) * (
            rng.gamma(4 / truth.skew**2, size=prompts) * abs(truth.skew) / 2 - 2 / abs(truth.skew)
        )
    y = truth.mean + truth.prompt_sd * spread
    if truth.rare_share > 0:
        y += truth.rare_size * ((rng.random(prompts) < truth.rare_share) - truth.rare_share)
    time = np.linspace(-0.5, 0.5, blocks) if blocks > 1 else np.zeros(blocks)
    block = truth.block_sd * rng.normal(size=blocks) + truth.drift * time
    noise: npt.NDArray[np.float64] = truth.noise_sd * rng.normal(size=(prompts, blocks))
    return y[:, None] + block[None, :] + noise


def simulate(world: World, rng: np.random.Generator, plan: Mapping[str, Any] | None = None) -> Evidence:
    """Plan, requests, rounds and ledger of one replicate; every deterministic gate finds what it asks for."""
    plan = plan_of(world) if plan is None else plan
    plan_id = hashlib.sha256(str(world.plan.get("name", "simulated")).encode()).hexdigest()
    requests = pd.concat([_requests(world, name, rng) for name in (world.strata)], ignore_index=True)
    environment = {"hardware_class": HARDWARE}
    audits = {name: ({"name": name, "ok": True, "n": 100, "detail": {}},) for name in AUDITS}
    canaries = [
        {
            "arm": world.candidate,
            "where": where,
            "index": 0,
            "rounds": 4,
            "proposed": 16,
            "accepted": 12,
            "new_tokens": 16,
        }
        for where in ("start", "middle", "end")
    ]
    ledger = Ledger(({"seq": 0, "kind": "plan", "body": {"plan_id": plan_id, "environment": environment}},))
    return Evidence(
        plan,
        plan_id,
        requests,
        _rounds(world, requests),
        _memory(world),
        ledger=ledger,
        audits=audits,
        canaries=canaries,
    )


def _requests(world: World, stratum: str, rng: np.random.Generator) -> pd.DataFrame:
    p, b = world.prompts, world.blocks
    champion = np.exp(rng.normal(np.log(1e9), 0.2, size=p))[:, None] * np.exp(rng.normal(0, 0.005, size=(p, b)))
    times = {BASELINE: champion}
    for name, truth in world.arms.items():
        times[name] = champion * np.exp(log_ratios(truth, p, b, rng))
    prompt = [f"{stratum}-{i}" for i in range(p)]
    parts = []
    for order, (arm, total) in enumerate(times.items()):
        count = p * b
        parts.append(
            pd.DataFrame(
                {
                    "request_id": [f"{arm}/{x}/{j}" for x in prompt for j in range(b)],
                    "arm": arm,
                    "stratum": stratum,
                    "prompt_id": np.repeat(prompt, b),
                    "family_id": np.repeat(prompt, b),
                    "block": np.tile(np.arange(b), p),
                    "turn": 0,
                    "entry": "warm",
                    "order": order,
                    "unit": [f"{stratum}/b{j}" for _ in prompt for j in range(b)],
                    "prompt_tokens": np.repeat(50 + np.arange(p), b),
                    "new_tokens": world.tokens,
                    "finish_reason": "length",
                    "ttft_ns": (total.ravel() * 0.05).astype(np.int64),
                    "total_ns": total.ravel().astype(np.int64),
                    "prefill_ns": (total.ravel() * 0.04).astype(np.int64),
                    "draft_prefill_ns": 0,
                    "draft_load_ns": 0,
                    "output_digest": [f"digest of {x}" for x in prompt for _ in range(b)],
                    "forced": False,
                    "excluded": "",
                    "failure": "",
                    "fallback": "",
                    "quality": np.full(count, 1.0),
                    "accepted": 0,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _rounds(world: World, requests: pd.DataFrame) -> pd.DataFrame:
    """A few rounds a request, alternately accepted whole and rejected at the third place."""
    mine = requests[requests["arm"] == world.candidate]
    rounds = mine.loc[
        mine.index.repeat(4), ["request_id", "arm", "stratum", "prompt_id", "family_id", "block", "turn", "entry"]
    ]
    rounds = rounds.reset_index(drop=True)
    number = np.arange(len(rounds)) % 4
    whole = number % 2 == 0
    return rounds.assign(
        round=number,
        requested=4,
        proposed=4,
        tested=np.where(whole, 4, 3),
        accepted=np.where(whole, 4, 2),
        emitted=np.where(whole, 5, 3),
        outcome=np.where(whole, "accepted_all", "rejected"),
        censored="none",
    )


def _memory(world: World) -> pd.DataFrame:
    """One peak a process: 200 MiB, 5 % more for the candidate."""
    names = [(s, b, a) for s in world.strata for b in range(max(world.blocks, 5)) for a in (BASELINE, *world.arms)]
    return pd.DataFrame(
        {
            "unit": [f"{s}/b{b}" for s, b, _ in names],
            "arm": [a for _, _, a in names],
            "block": [b for _, b, _ in names],
            "peak_resident_bytes": [int(200 * 2**20 * (1.05 if a == world.candidate else 1.0)) for _, _, a in names],
        }
    )
