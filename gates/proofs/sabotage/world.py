"""A user's run in small: a plan over toy models, every request on every arm, canaries, tables, and private traces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ....arms.kinds import BASELINE
from ....arms.prefix_cache import PrefixCache
from ....arms.request import Request, StopPolicy
from ..pit import Scorer
from ..toy import tables
from ..toy_models import ToyModel, toy_arm, toy_model
from ..trace import Trace, from_completion
from .clock import Clock, running

ALONE = {"name": BASELINE, "kind": BASELINE}
VOCABULARY, STOP = 12, 11
STRINGS = ("bca", "ddb")
PROMPTS, TOKENS, CANARIES = 6, 28, 2
LEVEL = 0.001
"""One-sided level of the plan: with it every chance that a gate leaves to chance comes to less than 0.5 % in all."""


@dataclass(frozen=True)
class World:
    """A plan and what it runs on. Faults replace parts of it, or patch the shipped code around it."""

    name: str
    decoding: Mapping[str, Any]
    spec: Mapping[str, Any] = field(default_factory=lambda: {"name": "neural_draft", "kind": "neural_draft", "k": 4})
    closeness: float = 0.9
    numeric: bool = False
    """The draft has rows that are not numbers."""
    outputs: int | None = None
    """The draft's output vocabulary is reduced to so many tokens."""
    prompts: int = PROMPTS
    tokens: int = TOKENS
    method: str = "residual"
    """How a rejection is replaced: as shipped, or by a declared variant the auditor knows."""
    preamble: int | None = None
    """Arms keep their last request, and the next one takes over so many tokens at most; None: they keep nothing."""
    refit: Callable[[ToyModel, ToyModel], tuple[ToyModel, ToyModel]] | None = None
    """A fault in the models or the engine's own code: applied wherever they are loaded."""
    rot: Callable[[ToyModel], ToyModel] | None = None
    """A fault of the running process only: the audits load the draft afresh."""

    @property
    def greedy(self) -> bool:
        return float(self.decoding["temperature"]) == 0

    def models(self, seed: int) -> tuple[ToyModel, ToyModel]:
        champion, draft = tables(VOCABULARY, 17 + seed, self.closeness, scale=1.6, rows=509)
        champion[:, STOP] -= 1.0
        draft[:, STOP] -= 1.0
        if self.numeric:
            draft[::7] = np.nan
        ids = None if self.outputs is None else np.arange(self.outputs)
        pair = (
            toy_model(champion, "champion", (STOP,)),
            toy_model(draft if ids is None else draft[:, ids], "draft", (STOP,), tokens=VOCABULARY),
        )
        pair[1].engine.role = "draft"
        if ids is not None:
            pair[1].engine.output_ids = ids
        return self.refit(*pair) if self.refit is not None else pair

    def plan(self) -> dict[str, Any]:
        """As much of a plan as the gates read."""
        return {
            "candidate": self.spec["name"],
            "arms": [ALONE, dict(self.spec)],
            "decoding": dict(self.decoding),
            "alpha": LEVEL,
            "attempts_budget": 1,
            "strata": [{"name": "toy", "weight": 1.0, "designated": True}],
            "champion": {"sha256": "toy"},
        }

    def requests(self, seed: int, arm: str) -> Iterator[tuple[dict[str, Any], Request]]:
        """Keys of the table and the request: prompts in one stratum, then the canaries at three places."""
        rng = np.random.default_rng(1000 + seed)
        listed = [[int(t) for t in rng.integers(0, STOP, int(rng.integers(2, 7)))] for _ in range(self.prompts)]
        if self.preamble is not None:
            # Two with one beginning, longer than may be kept, two with another, and one no longer than that.
            listed = [[1, 2, 3 + i // 2 % 2, 5, *prompt] if i else [1, 2, 3] for i, prompt in enumerate(listed)]
        strings = STRINGS if "grammar" not in self.decoding else ()
        for where in ("start", "", "middle", "", "end"):
            half = range(self.prompts // 2) if where == "start" else range(self.prompts // 2, self.prompts)
            numbers = range(CANARIES) if where else ()
            for i in numbers:
                yield self._request(seed, arm, i, listed[i], strings, where)
            if where in ("start", "middle"):
                for i in half:
                    yield self._request(seed, arm, i, listed[i], strings, "")

    def _request(
        self, seed: int, arm: str, i: int, prompt: list[int], strings: tuple[str, ...], where: str
    ) -> tuple[dict[str, Any], Request]:
        name = f"canary/{where}/{arm}/{i}" if where else f"{arm}/toy/p{i}/b0/t0/warm"
        place = f"canary/p{i}/{arm}" if where else f"toy/p{i}/0/0/{arm}"
        keys = {
            "request_id": name,
            "arm": arm,
            "stratum": "toy",
            "prompt_id": f"p{i}",
            "family_id": f"p{i}",
            "block": -1 if where else 0,
            "turn": 0,
            "entry": "warm",
            "where": where,
            "index": i,
        }
        drawn = int.from_bytes(hashlib.sha256(f"{seed}|{i}".encode()).digest()[:8], "little")
        return keys, Request(name, tuple(prompt), self.tokens, drawn, StopPolicy((STOP,), strings), place)


@dataclass
class Run:
    """What a run leaves behind."""

    world: World
    seed: int
    requests: pd.DataFrame
    rounds: pd.DataFrame
    canaries: list[dict[str, Any]]
    traces: list[Trace]
    """Candidate's, under the requests they were asked for."""
    shown: list[str]
    """What went wrong with what the user saw."""
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)


def run_world(world: World, seed: int) -> Run:
    """Every request on champion-alone and the candidate, timed by a clock with noise of its own."""
    champion, draft = world.models(seed)
    if world.rot is not None:
        draft = world.rot(draft)
    clock = Clock(seed)
    rows: list[dict[str, Any]] = []
    rounds: list[dict[str, Any]] = []
    run = Run(world, seed, pd.DataFrame(), pd.DataFrame(), [], [], [])
    with running(clock):
        for spec in (ALONE, world.spec):
            kept = None if world.preamble is None else PrefixCache(world.preamble)
            arm = toy_arm(spec, champion, draft, world.decoding, kept)
            for keys, request in world.requests(seed, str(spec["name"])):
                _one(run, arm, keys, request, rows, rounds)
    run.requests, run.rounds = pd.DataFrame(rows), pd.DataFrame(rounds)
    return run


def _one(run: Run, arm: Any, keys: dict[str, Any], request: Request, rows: list[Any], rounds: list[Any]) -> None:
    shown: list[int] = []
    done = arm.generate(request, shown.extend)
    trace = from_completion(request, arm.name, done)
    if shown != done.tokens:
        run.shown.append(f"{request.request_id}: {len(shown)} tokens shown, {len(done.tokens)} in the completion")
    table_keys = {k: v for k, v in keys.items() if k not in ("where", "index")}
    row = {
        **table_keys,
        **trace.totals,
        "prompt_tokens": len(request.prompt),
        "cached_tokens": done.cached_tokens,
        "finish_reason": done.finish_reason,
        "total_ns": done.total_ns,
        "champion_calls": done.champion_calls,
        "draft_calls": done.draft_calls,
        "failure": done.failure or "",
        "fallback": done.fallback or "",
        "forced": False,
        "excluded": "",
        "output_digest": hashlib.sha256(repr(done.tokens).encode()).hexdigest(),
    }
    if keys["where"]:
        run.canaries.append({**row, "where": keys["where"], "index": keys["index"]})
    else:
        rows.append(row)
        rounds += [{**table_keys, **r} for r in trace.rounds]
    if arm.name != ALONE["name"]:
        run.traces.append(trace)


def score(run: Run, champion: ToyModel, draft: ToyModel) -> None:
    """Fill in the scores of a stochastic run; a token without champion mass is scored as the impossible thing it is."""
    if run.world.greedy:
        return
    scorer = Scorer(champion, draft, run.world.decoding, run.world.spec)
    rows: list[dict[str, Any]] = []
    for trace in run.traces:
        if trace.request_id.startswith("canary/"):
            continue
        keys = {"arm": trace.arm, "stratum": "toy", "prompt_id": trace.request_id.split("/")[2]}
        try:
            for position, found in enumerate(scorer.scores(trace)):
                rows.append({**keys, "position": position, **vars(found)})
        except ValueError:
            nothing = {"pit_ratio": -1.0, "pit_id": -1.0, "in_excess": True, "excess_mass": 0.0, "tv": 1.0}
            rows.append({**keys, "position": -1, **nothing})
    run.scores = pd.DataFrame(rows)


SAMPLED = {"temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.2}
GREEDY = World("greedy", {"temperature": 0.0})
STOCHASTIC = World("stochastic", SAMPLED)
PENALISED = World("greedy, penalties", {"temperature": 0.0, "repetition_penalty": 1.6, "presence_penalty": 0.5})
GRAMMAR = World(
    "grammar",
    {"temperature": 1.0, "grammar": {"kind": "regex", "text": "(a(b|c)|b(c|d|e)|[c-i])*"}},
)
NUMERIC = replace(STOCHASTIC, name="draft not finite", numeric=True)
REDUCED = replace(STOCHASTIC, name="reduced draft", outputs=8, spec={**STOCHASTIC.spec, "k": 3})
IDLE = replace(GREEDY, name="no proposals", spec={"name": "neural_draft", "kind": "neural_draft", "k": 0})
KEPT = replace(STOCHASTIC, name="prefix cache", preamble=3)
