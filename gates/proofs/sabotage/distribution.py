"""Faults that change what is sampled: acceptance, residuals, rows, and what is kept of a proposal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....arms import masses as law
from ....arms import speculation
from ....arms.champion_side import ChampionSide
from ....arms.draws import PhiloxDraws
from ....arms.neural_draft import NeuralDraft
from ....arms.round import Decision
from ....arms.speculative_arm import SpeculativeArm
from .fault import Fault, both, patch, wrap
from .world import NUMERIC, REDUCED, SAMPLED, STOCHASTIC, World

GROUP = "distribution"
_ACCEPT = "self.uniform(p_y, 'accept_uniform', position)"
_DOMAIN = "'correction_sample'"
_DRAWN = "draws.categorical(drawn, 'draft_sample', i)"
_CORRECT = "int(ids[draws.categorical(rest, 'correction_sample', i, mass)])"


def _rows_from(change: Any) -> Any:
    """Proposals are drawn as ever, but the rows kept for the acceptance are ``change(draft, raw logits, row)``."""

    def make(original: Any) -> Any:
        def forward(self: NeuralDraft, feed: Any) -> Any:
            logits = original(self, feed)
            self.__dict__["told"] = np.array(logits)
            return logits

        return forward

    def keep(original: Any) -> Any:
        def draw(self: NeuralDraft, feed: Any, i: int, draws: Any, proposal: Any) -> Any:
            out = original(self, feed, i, draws, proposal)
            if draws is not None:
                proposal.rows[-1] = change(self, self.__dict__["told"], proposal.rows[-1])
            return out

        return draw

    return both(wrap(NeuralDraft, "_forward", make), wrap(NeuralDraft, "_draw", keep))


def _raw(draft: NeuralDraft, logits: Any, row: Any) -> Any:
    """Nothing but the softmax of the draft's own logits."""
    return law.row(logits, law.scale_of(1.0))[0]


def _at_temperature_one(draft: NeuralDraft, logits: Any, row: Any) -> Any:
    edits, mask = draft.state.edits(logits)
    return law.row(logits, law.scale_of(1.0), draft.chain.truncation, None, edits, mask)[0]


def _whole_nucleus(draft: NeuralDraft, logits: Any, row: Any) -> Any:
    edits, mask = draft.state.edits(logits)
    return law.row(logits, draft.chain.scale, law.KEEP_ALL, None, edits, mask)[0]


def _falls_through(original: Any) -> Any:
    """The residual is drawn from as if it summed to one: what is left over goes to its last token."""

    def correction(q: Any, proposal: Any, i: int, draws: Any) -> int:
        p = proposal.rows[i] if proposal.rows is not None else None
        ids, rest, mass = law.residual(q, p) if p is not None else law.residual_of_point(q, proposal.tokens[i])
        rest[-1] += np.uint64(law.TOTAL - mass)
        return int(ids[draws.categorical(rest, "correction_sample", i)])

    return correction


def _support_only(original: Any) -> Any:
    """The residual is taken over the draft's support: what the draft cannot say is never said."""

    def correction(q: Any, proposal: Any, i: int, draws: Any) -> int:
        kept = np.where(proposal.rows[i] > 0, q, np.uint64(0)).astype(np.uint64)
        ids, rest, mass = law.residual(kept, proposal.rows[i])
        if mass == 0:
            ids, rest, mass = np.arange(len(kept)), kept, int(kept.sum())
        return int(ids[draws.categorical(rest, "correction_sample", i, mass)])

    return correction


def _blockwise(original: Any) -> Any:
    """Acceptance by the running product of ratios, as in block verification, with the token-wise residual."""

    def round(proposal: Any, champion: Any, draws: Any, stops: Any, remaining: int) -> Decision:
        champion.verify(proposal.tokens)
        emitted: list[int] = []
        share = 1.0
        for i, proposed in enumerate(proposal.tokens):
            q = champion.masses(i)
            ratio = int(q[proposed]) / speculation.proposal_mass(proposal, i)
            share = min(1.0, share * ratio)
            if not draws.accept(int(share * law.TOTAL), law.TOTAL, i):
                ids, rest, mass = law.residual(q, proposal.rows[i])
                if mass == 0:
                    ids, rest, mass = np.arange(len(q)), q, law.TOTAL
                emitted.append(int(ids[draws.categorical(rest, "correction_sample", i, mass)]))
                return Decision(emitted, i, i + 1, "rejected", stops.ends(emitted[-1]))
            emitted.append(proposed)
            if stops.ends(proposed):
                return Decision(emitted, i + 1, i + 1, "stop", True)
            if len(emitted) == remaining:
                return Decision(emitted, i + 1, i + 1, "length", False)
        count = len(proposal.tokens)
        emitted.append(speculation.bonus(champion.masses(count), draws))
        return Decision(emitted, count, count, "accepted_all", stops.ends(emitted[-1]))

    return round


def _dropped(unwanted: Any) -> Any:
    """A drawn token is looked at and taken back."""

    def make(original: Any) -> Any:
        def propose(self: NeuralDraft, context: Any, k: int, draws: Any) -> Any:
            proposal = original(self, context, k, draws)
            if draws is not None and unwanted(proposal):
                proposal.tokens.pop()
                proposal.rows.pop()
                proposal.entropy = proposal.entropy[:-1]
            return proposal

        return propose

    return wrap(NeuralDraft, "propose", make)


def _unsure(proposal: Any) -> bool:
    return bool(proposal.tokens) and int(proposal.rows[-1][proposal.tokens[-1]]) < 0.2 * law.TOTAL


def _even(proposal: Any) -> bool:
    return len(proposal.tokens) > 1 and proposal.tokens[-1] % 2 == 0


def _all_dropped_on_failure(original: Any) -> Any:
    def propose(self: NeuralDraft, context: Any, k: int, draws: Any) -> Any:
        proposal = original(self, context, k, draws)
        if proposal.numeric:
            proposal.tokens, proposal.rows, proposal.entropy = [], [], ()
        return proposal

    return propose


def _retried(original: Any) -> Any:
    """An answer that begins with a token nobody likes is asked for again."""

    def generate(self: SpeculativeArm, request: Any, on_tokens: Any = None, cancellation: Any = None) -> Any:
        from dataclasses import replace

        done = original(self, request, None, cancellation)
        if done.tokens and done.tokens[0] < 3:
            done = original(self, replace(request, stream=request.stream + "/again"), None, cancellation)
        if on_tokens is not None:
            on_tokens(done.tokens)
        return done

    return generate


def _temperature_forgotten(original: Any) -> Any:
    def masses(self: ChampionSide, i: int) -> Any:
        logits = self._at(i)
        edits, mask = self.state.edits(logits)
        return law.row(logits, law.scale_of(1.0), self.state.chain.truncation, None, edits, mask)[0]

    return masses


ON = (STOCHASTIC,)
SHARP = World("stochastic, top-k", {**SAMPLED, "top_k": 3})


def _patched(name: str, owner: Any, function: str, *changes: tuple[str, str]) -> Fault:
    return Fault(name, GROUP, ON, patch(owner, function, *changes))


def _wrapped(name: str, owner: Any, function: str, make: Any, worlds: tuple[World, ...] = ON) -> Fault:
    return Fault(name, GROUP, worlds, wrap(owner, function, make))


_OTHER_ROW = "correction(champion.masses(i + 1), proposal, i, draws)"
_FROM_Q = "draws.categorical(q, 'correction_sample', i)"
_ROUND = "stochastic_round"

FAULTS = [
    _patched("always accept", PhiloxDraws, "accept", (f"{_ACCEPT} <= q_y", "True")),
    _patched("greedy draft, soft p", NeuralDraft, "_draw", (_DRAWN, "int(drawn.argmax())")),
    Fault("p before the draft's processors", GROUP, ON, _rows_from(_raw)),
    Fault("temperature on one side", GROUP, ON, _rows_from(_at_temperature_one)),
    Fault("top-p on one side", GROUP, ON, _rows_from(_whole_nucleus)),
    _patched("accept off by one, 0 accepted at q = 0", PhiloxDraws, "accept", (_ACCEPT, f"{_ACCEPT} - 1")),
    _patched("accept off by one, 1 rejected at q >= p", PhiloxDraws, "accept", (_ACCEPT, f"{_ACCEPT} + 1")),
    _patched("q sampled on rejection", speculation, "correction", (_CORRECT, _FROM_Q)),
    _wrapped("residual not renormalised", speculation, "correction", _falls_through),
    _patched("residual from the next row", speculation, _ROUND, ("correction(q, proposal, i, draws)", _OTHER_ROW)),
    _patched("bonus from row m - 1", speculation, _ROUND, ("champion.masses(count)", "champion.masses(count - 1)")),
    _patched("correction shares the accept uniform", speculation, "correction", (_DOMAIN, "'accept_uniform'")),
    _patched("correction shares the draft's noise", speculation, "correction", (_DOMAIN, "'draft_sample'")),
    _wrapped("truncated support taken for the vocabulary", speculation, "correction", _support_only, (REDUCED, SHARP)),
    _wrapped("verification ignores the temperature", ChampionSide, "masses", _temperature_forgotten),
    _wrapped("block acceptance, token-wise residual", speculation, _ROUND, _blockwise),
    Fault("drawn token dropped for low p", GROUP, ON, _dropped(_unsure)),
    _wrapped(
        "drawn tokens dropped when a later step fails", NeuralDraft, "propose", _all_dropped_on_failure, (NUMERIC,)
    ),
    _wrapped("retry because of content", SpeculativeArm, "generate", _retried),
    Fault("k chosen after seeing y", GROUP, ON, _dropped(_even)),
]
