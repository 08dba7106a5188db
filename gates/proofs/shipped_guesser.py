"""Any proposer the auditor has no account of its own for, opened afresh and driven by the auditor's draws.

The decisions of each round are still the interpreter's; only what is proposed comes from the shipped proposer. That its
incremental state is right is the fresh-state audit's to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .interpreter import Guess
from .law import ONE, Chance, Masses, token_at
from .trace import Trace


class _Drawn:
    """The auditor's chance in the shape a proposer expects."""

    def __init__(self, chance: Chance, round: int) -> None:
        self.chance, self.round = chance, round

    def categorical(self, masses: Masses, domain: str, position: int, total: int = ONE) -> int:
        return token_at(masses, self.chance.uniform(total, domain, self.round, position))

    def accept(self, q_y: int, p_y: int, position: int) -> bool:
        raise AssertionError("a proposer decides no acceptance")


class ShippedGuesser:
    def __init__(
        self, spec: Mapping[str, Any], champion: Any, draft: Any | None, decoding: Mapping[str, Any], trace: Trace
    ) -> None:
        from ...arms.build import build_arm
        from ...arms.request import Request, StopPolicy

        request = Request(
            request_id=trace.request_id,
            prompt=tuple(trace.prompt),
            max_new_tokens=trace.max_new_tokens,
            seed=trace.seed,
            stop=StopPolicy(tuple(trace.stop_ids), tuple(trace.stop_strings)),
            stream=trace.stream,
        )
        arm: Any = build_arm(dict(spec), champion, draft, decoding)
        self.proposer = arm.open_proposer(request)
        self.maximum = int(self.proposer.maximum)
        self.engine = champion.engine
        self.cache = None
        if self.proposer.state_layers is not None:
            self.cache = self.engine.new_cache(len(trace.prompt) + trace.max_new_tokens + 1)
            self._show(trace.prompt[:-1])
        self.proposer.prefill(tuple(trace.prompt))

    def _show(self, tokens: Sequence[int]) -> None:
        """Feed consumed tokens to a champion cache of our own and hand their hidden states on."""
        if self.cache is None:
            return
        lacking = list(tokens[self.cache.length :])
        for begin in range(0, len(lacking), 64):
            part = lacking[begin : begin + 64]
            tx = self.cache.begin()
            _, hidden = self.engine.verify_with_hidden(tx, part, "none", self.proposer.state_layers)
            tx.commit_prefix(len(part))
            self.proposer.observe(part, hidden)

    def requested(self) -> int:
        return int(self.proposer.requested())

    def propose(self, context: Sequence[int], k: int, chance: Chance | None, round: int) -> Guess:
        proposal = self.proposer.propose(list(context), k, None if chance is None else _Drawn(chance, round))
        rows = None if proposal.rows is None else [row.copy() for row in proposal.rows]
        return Guess(list(proposal.tokens), rows, proposal.numeric)

    def learn(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        self._show(context[:-1])
        self.proposer.settle(list(context), proposed, tested, accepted)

    def close(self) -> None:
        self.proposer.close()
        if self.cache is not None:
            self.cache.close()
