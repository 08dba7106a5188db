"""Real-model sampling, token by token: the champion's and the draft's law at every emitted token, from prefill passes.

Both laws are recomputed from the prefix alone, bonus and corrected positions included, and nothing is conditioned on
how a token came about. The rows go into the `scores` table; the gate `exact-law` and `judge_scores` read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...arms.build import chain_for
from ...arms.engine.contract import NonFinite
from ...arms.processors import ChainState, checked
from ...harness.rundir import RunDir
from .family import FamilyResult, judge_family, lag_p_value, shift_sample_size, uniform_p_value
from .guesser_choice import guesser_of, is_plain
from .interpreter import Case
from .law import ONE, Chance, Masses
from .replay import LoadModel, compiled
from .scores import Score, score_token
from .trace import Trace, recorded_traces

CHUNK = 64
"""Rows of logits held at a time."""
KEYS = ("request_id", "arm", "stratum", "prompt_id", "family_id", "block", "turn", "entry")


def champion_rows(model: Any, prompt: Sequence[int], output: Sequence[int]) -> Iterator[Any]:
    """Raw logits before each token of ``output``, from as few forward calls as memory allows."""
    engine = model.engine
    cache = engine.new_cache(min(engine.context_limit, len(prompt) + len(output) + 1))
    try:
        for begin in range(0, len(prompt) - 1, CHUNK):
            _commit(engine, cache, prompt[begin : min(begin + CHUNK, len(prompt) - 1)], "none")
        tokens = [prompt[-1], *output[:-1]]
        for begin in range(0, len(tokens), CHUNK):
            yield from _commit(engine, cache, tokens[begin : begin + CHUNK], "all")
    finally:
        cache.close()


def _commit(engine: Any, cache: Any, tokens: Sequence[int], rows: Any) -> Any:
    tx = cache.begin()
    out = engine.verify_linear(tx, list(tokens), rows)
    tx.commit_prefix(len(tokens))
    return out


@dataclass
class Scorer:
    """Scores the requests of one arm."""

    champion: Any
    draft: Any | None
    decoding: Mapping[str, Any]
    spec: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.chain = chain_for(self.champion, checked(self.decoding), self.champion.engine.vocabulary)

    def scores(self, trace: Trace) -> Iterator[Score]:
        """One score a token, in order. Raises ValueError where a token has no champion mass."""
        state, chance = self.chain.open(trace.prompt), Chance(trace.seed, trace.stream)
        proposals = self._proposals(trace)
        for position, raw in enumerate(champion_rows(self.champion, trace.prompt, trace.output)):
            q = state.masses(raw)
            p = next(proposals)
            v_ratio, v_id = (
                (chance.uniform(ONE, "pit", which, position) - 0.5) / ONE for which in (0, 1)
            )  # fmt: skip
            token = int(trace.output[position])
            yield score_token(q, q if p is None else p, token, v_ratio, v_id)
            state.push(token)

    def _proposals(self, trace: Trace) -> Iterator[Masses | None]:
        """What the proposer's law is before each token; None where it proposes nothing (q then stands for p)."""
        if self.spec["kind"] == "neural_draft" and is_plain(self.draft):
            assert self.draft is not None
            own = checked({**self.decoding, **self.spec.get("draft_decoding", {})})
            state = chain_for(self.champion, own, self.champion.engine.vocabulary).open(trace.prompt)
            yield from self._draft_rows(trace, state)
        else:
            yield from self._first_rows(trace)

    def _draft_rows(self, trace: Trace, state: ChainState) -> Iterator[Masses | None]:
        assert self.draft is not None
        fits = len(trace.prompt) + len(trace.output) + int(self.spec.get("k", 4)) <= self.draft.engine.context_limit
        if not fits:
            yield from self._first_rows(trace)
            return
        ids = getattr(self.draft.engine, "output_ids", None)
        whole = None if ids is None else np.full(self.champion.engine.vocabulary, -np.inf, np.float32)
        try:
            rows = list(champion_rows(self.draft, trace.prompt, trace.output))
        except NonFinite:  # somewhere the draft has no law: what it would propose is asked place by place
            yield from self._first_rows(trace)
            return
        for raw, token in zip(rows, trace.output, strict=True):
            row = raw
            if whole is not None:
                whole[ids] = raw
                row = whole
            yield state.masses(row)
            state.push(int(token))

    def _first_rows(self, trace: Trace) -> Iterator[Masses | None]:
        """The first position of a block proposed afresh before each token."""
        decoding, grammar = compiled(self.champion, self.decoding)
        case = Case(
            trace.prompt,
            trace.max_new_tokens,
            self.champion.engine.context_limit,
            trace.stop_ids,
            trace.stop_strings,
            decoding,
        )
        guesser = guesser_of(self.spec, self.champion, self.draft, self.decoding, case, trace, grammar)
        chance = Chance(trace.seed, trace.stream)
        try:
            for position in range(len(trace.output)):
                context = [*trace.prompt, *trace.output[:position]]
                guess = guesser.propose(context, 1, chance, position) if guesser is not None else None
                yield None if guess is None or not guess.tokens else _first(guess, self.champion.engine.vocabulary)
                if guess is not None:
                    guesser.learn([*context, trace.output[position]], len(guess.tokens), 0, 0)
        finally:
            if hasattr(guesser, "close"):
                guesser.close()


def _first(guess: Any, vocabulary: int) -> Masses:
    if guess.rows is not None:
        row: Masses = guess.rows[0]
        return row
    row = np.zeros(vocabulary, np.uint64)
    row[guess.tokens[0]] = ONE
    return row


def score_rows(run_dir: Path | str, load_model: LoadModel, limit: int) -> Iterator[dict[str, Any]]:
    """Rows of the `scores` table: the candidate's warm requests in frozen order, up to about ``limit`` tokens.

    The cold entries draw the same numbers as their warm twins and are left out. Nothing for a greedy plan.
    """
    from ...harness.arm_files import located_arms
    from ...harness.freeze import load_operational, load_plan
    from ...harness.schedule import Schedule

    plan = load_plan(RunDir(run_dir))
    if float(plan["decoding"]["temperature"]) == 0 or limit <= 0:
        return
    items = {i.request_id: i for i in Schedule(plan).requests()}
    arms = located_arms(RunDir(run_dir), plan, load_operational(RunDir(run_dir)))
    spec = next(a for a in arms if a["name"] == plan["candidate"])
    scorer = Scorer(load_model("champion"), load_model("draft") if plan.get("draft") else None, plan["decoding"], spec)
    done = 0
    for trace in recorded_traces(run_dir, plan, [plan["candidate"]]):
        item = items.get(trace.request_id)
        if done >= limit or item is None or item.entry != "warm" or trace.forced:
            continue
        keys = {name: getattr(item, name) for name in KEYS}
        for position, score in enumerate(scorer.scores(trace)):
            done += 1
            yield {**keys, "position": position, **vars(score)}


@dataclass(frozen=True)
class ScoreVerdict:
    """The family of tests over scored tokens, in their order, and what it could have seen."""

    n: int
    family: FamilyResult
    shift: float
    shift_error: float
    detectable_tv: float
    """Share of total variation that n tokens would show with power 0.9 at the family's level."""


def judge_scores(scores: Iterable[Score], level: float = 0.005) -> ScoreVerdict:
    """PIT in both orders, independence of neighbours, and the shift against zero: one Holm family."""
    from scipy import stats

    listed = list(scores)
    ratio, ids, shifts = (np.array([getattr(s, name) for s in listed]) for name in ("pit_ratio", "pit_id", "shift"))
    spread = float(np.mean([s.excess_mass * (1 - s.excess_mass) for s in listed])) if listed else 0.0
    error = float(np.sqrt(spread / len(listed))) if listed else float("nan")
    mean = float(shifts.mean()) if listed else float("nan")
    p_values = {
        "pit_ratio": uniform_p_value(ratio),
        "pit_id": uniform_p_value(ids),
        "pit_ratio_neighbours": lag_p_value(ratio),
        "pit_id_neighbours": lag_p_value(ids),
        "shift": float(2 * stats.norm.sf(abs(mean) / error)) if error > 0 else 1.0,
    }
    needed = shift_sample_size(0.01, level / len(p_values), 0.9, 0.5)
    seen = 0.01 * float(np.sqrt(needed / len(listed)))
    return ScoreVerdict(len(listed), judge_family(p_values, level), mean, error, seen)
