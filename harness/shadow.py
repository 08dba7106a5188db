"""Shadow replay: off the clock, what a full block of K proposals would have done from recorded round starts.

Greedy: the first i are accepted when they equal the realised output, which is exact. Stochastic: the product of
min(1, q/p) along the drafted path, from the champion's own rows. Source: statistics.md, "fixed-k survival".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arms.kinds import KINDS, WITH_DRAFT

MASS = float(2**48)
"""Rows of q and p are integers that sum to this."""
CHUNK = 256
"""Tokens of one forward call."""


def full_block_entry(entry: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The arm's entry with its policy taken away: always K, of the draft and of what is copied beside it."""
    changed = {key: value for key, value in entry.items() if key not in ("policy", "probe_rate")} | {"k": k}
    if entry["kind"] in WITH_DRAFT:
        changed["policy"] = {"kind": "fixed"}
    if "copy_k" in KINDS.get(entry["kind"], ()):
        changed["copy_k"] = k
    return changed


def sampled_starts(rounds: Sequence[Mapping[str, Any]], count: int, seed: int) -> list[int]:
    """Emitted tokens before each of at most ``count`` rounds, drawn from all rounds by the seed, in order."""
    from .schedule import shuffled

    starts, emitted = [], 0
    for row in rounds:
        starts.append((int(row["round"]), emitted))
        emitted += int(row["emitted"])
    picked = sorted(shuffled(starts, f"{seed:016x}", "shadow")[:count])
    return [at for _, at in picked]


def greedy_survival(proposals: Sequence[int], realised: Sequence[int], k: int) -> list[float]:
    """1.0 while proposals equal the realised tokens, 0.0 from the first difference (or the first position not proposed)
    on; shorter where the output ends first, since nobody knows what would have followed."""
    survival: list[float] = []
    alive = True
    for i in range(k):
        if alive and i >= len(realised):
            break
        alive = alive and i < len(proposals) and proposals[i] == realised[i]
        survival.append(1.0 if alive else 0.0)
    return survival


def stochastic_survival(arm: Any, proposal: Any, context: Sequence[int], k: int) -> list[float]:
    """Products of min(1, q/p) along the drafted path; a proposer's own short block counts as not accepted further
    on."""
    engine, chain = arm.champion.engine, arm.champion.chain
    tokens = list(proposal.tokens)
    survival: list[float] = []
    product = 1.0
    cache = engine.new_cache(len(context) + len(tokens))
    try:
        tx = cache.begin()
        if len(context) > 1:
            engine.verify_linear(tx, context[:-1], "none")
        logits = engine.verify_linear(tx, [context[-1], *tokens], "all")
        tx.rollback()
    finally:
        cache.close()
    state = chain.open(list(context))
    for i in range(k):
        if i >= len(tokens):
            survival.append(0.0)
            continue
        q = float(state.masses(logits[i])[tokens[i]])
        p = MASS if proposal.rows is None else float(proposal.rows[i][tokens[i]])
        product *= min(1.0, q / p)
        survival.append(product)
        state.push(tokens[i])
    return survival


def replay_request(
    arm: Any, request: Any, output: Sequence[int], starts: Sequence[int], k: int, greedy: bool
) -> list[Any]:
    """Survival by start: ``[[start index, [S_1, …]], …]``. The proposer follows the request from start to start."""
    from ..arms.draws import PhiloxDraws

    proposer = arm.open_proposer(request)
    shown = _Shown(arm.champion.engine, proposer, len(request.prompt) + len(output))
    found = []
    try:
        shown.upto(request.prompt[:-1])
        proposer.prefill(request.prompt)
        for number, start in enumerate(starts):
            context = [*request.prompt, *output[:start]]
            room = arm.champion.engine.context_limit - len(context)
            block = min(k, room)
            if block < 1:
                break
            shown.upto(context[:-1])
            draws = None if greedy else PhiloxDraws(request.seed, f"{request.stream}/shadow", number)
            proposal = proposer.propose(context, block, draws)
            if greedy:
                survival = greedy_survival(proposal.tokens, output[start:], block)
            else:
                survival = stochastic_survival(arm, proposal, context, block)
            proposer.abandon()
            found.append([start, survival])
    finally:
        shown.close()
        proposer.close()
    return found


class _Shown:
    """The champion's hidden states, fed to a proposer that wants them from a cache of our own."""

    def __init__(self, engine: Any, proposer: Any, capacity: int) -> None:
        self.engine, self.proposer = engine, proposer
        self.layers = proposer.state_layers
        self.cache = None if self.layers is None else engine.new_cache(min(capacity, engine.context_limit))

    def upto(self, tokens: Sequence[int]) -> None:
        """Show every token the proposer has not seen yet."""
        if self.cache is None:
            return
        lacking = list(tokens[self.cache.length :])
        for begin in range(0, len(lacking), CHUNK):
            part = lacking[begin : begin + CHUNK]
            tx = self.cache.begin()
            _, hidden = self.engine.verify_with_hidden(tx, part, "none", self.layers)
            tx.commit_prefix(len(part))
            self.proposer.observe(part, hidden)

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()
