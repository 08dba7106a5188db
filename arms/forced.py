"""Tokens a grammar leaves no choice about: appended without a draw, still consumed by the champion.

Only at the start of a round, so that a block holds proposals alone; a deterministic block ends before such a place.
"""

from __future__ import annotations

from .grammar import GrammarError
from .processors import ChainState
from .round import RoundAborted
from .stops import StopWatcher


def forced_token(state: ChainState) -> int | None:
    """The one token the final mask leaves after the history so far. Raises RoundAborted (grammar_dead_end)."""
    try:
        return state.forced()
    except GrammarError as error:
        raise RoundAborted("grammar_dead_end", str(error)) from error


def take_forced(state: ChainState, stops: StopWatcher, remaining: int, capacity: int) -> list[int]:
    """Push forced tokens while there are any, up to a stop, the budget or the context limit; returns them."""
    forced: list[int] = []
    while len(forced) < remaining and len(state.history) <= capacity:
        token = forced_token(state)
        if token is None:
            break
        forced.append(token)
        state.push(token)
        if stops.ends(token):
            break
    return forced


def before_forced(state: ChainState, stop_ids: frozenset[int], tokens: list[int]) -> list[int]:
    """A deterministic block cut before a place the grammar forces, and after a token it forbids or a stop token.

    Exact because nothing of it was drawn: the block is a function of the text, and so is the cut.
    """
    mark, kept = state.mark(), 0
    try:
        for token in tokens:
            if forced_token(state) is not None:
                break
            kept += 1
            if token in stop_ids:
                break
            state.push(token)
    except (GrammarError, RoundAborted):
        pass  # forbidden: it stays, to be rejected; a dead end before a token is for the champion to report
    state.rollback(mark)
    return tokens[:kept]
