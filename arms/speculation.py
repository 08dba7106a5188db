"""The two exact rounds, free of I/O. q is the champion's processed distribution and authoritative, p the proposer's.

Both verify a block of at least one proposal and decide it left to right; rows after the first rejection are never
processed. Leviathan, Kalman and Matias (ICML 2023); Chen et al. (arXiv 2302.01318); here on integer masses, so that
min(p, q) + (rejected mass) * r = q holds identically.
"""

from __future__ import annotations

from .draws import Draws
from .masses import TOTAL, Masses, residual, residual_of_point
from .round import Decision, Proposal, RoundAborted, Stops, Verification


def greedy_round(proposal: Proposal, champion: Verification, stops: Stops, remaining: int) -> Decision:
    """Keep proposals while they are the champion's argmax; then its correction, or its bonus after a full block."""
    champion.verify(proposal.tokens)
    emitted: list[int] = []
    for i, proposed in enumerate(proposal.tokens):
        token = champion.argmax(i)
        emitted.append(token)
        ends = stops.ends(token)
        if token != proposed:
            return Decision(emitted, i, i + 1, "rejected", ends)
        if ends:
            return Decision(emitted, i + 1, i + 1, "stop", ends)
        if len(emitted) == remaining:
            return Decision(emitted, i + 1, i + 1, "length", ends)
    count = len(proposal.tokens)
    emitted.append(champion.argmax(count))
    return Decision(emitted, count, count, "accepted_all", stops.ends(emitted[-1]))


def stochastic_round(
    proposal: Proposal, champion: Verification, draws: Draws, stops: Stops, remaining: int
) -> Decision:
    """Accept y with probability min(1, q(y)/p(y)); at the first rejection draw from the residual; else a bonus."""
    champion.verify(proposal.tokens)
    emitted: list[int] = []
    for i, proposed in enumerate(proposal.tokens):
        q = champion.masses(i)
        if not accepts(q, proposal, i, draws):
            emitted.append(correction(q, proposal, i, draws))
            return Decision(emitted, i, i + 1, "rejected", stops.ends(emitted[-1]))
        emitted.append(proposed)
        if stops.ends(proposed):
            return Decision(emitted, i + 1, i + 1, "stop", True)
        if len(emitted) == remaining:
            return Decision(emitted, i + 1, i + 1, "length", False)
    count = len(proposal.tokens)
    emitted.append(bonus(champion.masses(count), draws))
    return Decision(emitted, count, count, "accepted_all", stops.ends(emitted[-1]))


def proposal_mass(proposal: Proposal, i: int) -> int:
    """p of proposal i, in units of 2**-48; one-hot for a deterministic proposer."""
    return TOTAL if proposal.rows is None else int(proposal.rows[i][proposal.tokens[i]])


def accepts(q: Masses, proposal: Proposal, i: int, draws: Draws) -> bool:
    """True with probability min(1, q(y)/p(y)); never when q(y) = 0."""
    p_y = proposal_mass(proposal, i)
    if p_y == 0:
        raise RoundAborted("proposal_invariant", f"proposal {i} has no mass in the row it was drawn from")
    return draws.accept(int(q[proposal.tokens[i]]), p_y, i)


def correction(q: Masses, proposal: Proposal, i: int, draws: Draws) -> int:
    """A token from the residual max(q - p, 0), whose mass is the rejected mass and so positive after a rejection."""
    if proposal.rows is None:
        ids, rest, mass = residual_of_point(q, proposal.tokens[i])
    else:
        ids, rest, mass = residual(q, proposal.rows[i])
    if mass == 0:
        raise RoundAborted("residual_invariant", f"proposal {i} was rejected where p = q")
    return int(ids[draws.categorical(rest, "correction_sample", i, mass)])


def bonus(q: Masses, draws: Draws) -> int:
    """The extra token after a fully accepted block."""
    return draws.categorical(q, "target_extra", 0)
