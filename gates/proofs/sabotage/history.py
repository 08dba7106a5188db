"""Faults in what a row is conditioned on, and in where an answer ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....arms import speculation
from ....arms.champion_side import ChampionSide
from ....arms.grammar import GrammarError, GrammarState
from ....arms.processors import ChainState
from ....arms.session import Champion, Session
from ....arms.stops import StopWatcher
from .fault import Fault, both, patch, wrap
from .world import GRAMMAR, GREEDY, PENALISED, STOCHASTIC

HISTORY, ENDS = "history", "stops and length"


def _under_first_mask(original: Any) -> Any:
    """Every row of a block is masked as its first row was."""

    def row(self: ChampionSide, i: int) -> Any:
        grammar = self.state.grammar
        self._at(i)
        if grammar is None or i == 0:
            self.__dict__["first_mask"] = None if grammar is None else grammar.mask()
            return original(self, i)
        grammar.__dict__["mask"] = lambda: self.__dict__["first_mask"]
        try:
            return original(self, i)
        finally:
            del grammar.__dict__["mask"]

    return row


def _unchecked(original: Any) -> Any:
    """A token the grammar forbids is taken all the same, and the state stays where it is."""

    def push(self: GrammarState, token: int) -> None:
        try:
            original(self, token)
        except GrammarError:
            return

    return push


def _as_far_as_it_goes(original: Any) -> Any:
    return lambda self, n: original(self, min(n, len(self.tokens)))


def _counts_kept(original: Any) -> Any:
    """A rollback forgets the tokens but not that the penalties counted them."""

    def rollback(self: ChainState, mark: int) -> None:
        table, self._table = self._table, None
        try:
            original(self, mark)
        finally:
            self._table = table

    return rollback


class _Remembering:
    """Stops that are noticed and acted on only when the block is over."""

    def __init__(self, stops: Any, only_strings: bool) -> None:
        self.stops, self.only_strings, self.over = stops, only_strings, False

    def ends(self, token: int) -> bool:
        found = not self.over and self.stops.ends(token)
        if found and self.only_strings and self.stops.reason == "stop":
            return True
        self.over = self.over or found
        return False


def _after_the_block(only_strings: bool) -> Any:
    def make(original: Any) -> Any:
        def round(*args: Any) -> Any:
            listed = list(args)
            stops = listed[-2] = _Remembering(args[-2], only_strings)
            decision = original(*listed)
            return replace(decision, terminal=decision.terminal or stops.over)

        return round

    return both(wrap(speculation, "greedy_round", make), wrap(speculation, "stochastic_round", make))


def _ignored_inside(name: str) -> Any:
    """A stop token inside the accepted block is no end."""
    old = "ends" if name == "greedy_round" else "stops.ends(proposed)"
    said = "ends" if old == "ends" else "True"
    statement = f"if {old}:\n    return Decision(emitted, i + 1, i + 1, 'stop', {said})"
    return patch(speculation, name, (statement, f"{old}"))


_GREEDY_FULL = "if len(emitted) == remaining:\n    return Decision(emitted, i + 1, i + 1, 'length', ends)"
_DRAWN_FULL = "if len(emitted) == remaining:\n    return Decision(emitted, i + 1, i + 1, 'length', False)"


def _room(original: Any) -> Any:
    return lambda self, request: original(self, request) + 6


FAULTS = [
    Fault(
        "penalties from before the block",
        HISTORY,
        (STOCHASTIC, PENALISED),
        patch(ChampionSide, "_at", ("for token in self.block[reached:i]:\n    self.state.push(token)", "pass")),
    ),
    Fault(
        "penalty state not rolled back", HISTORY, (STOCHASTIC, PENALISED), wrap(ChainState, "rollback", _counts_kept)
    ),
    Fault(
        "grammar not advanced in the block",
        HISTORY,
        (GRAMMAR,),
        both(
            wrap(ChampionSide, "masses", _under_first_mask),
            wrap(GrammarState, "push", _unchecked),
            wrap(GrammarState, "rollback", _as_far_as_it_goes),
        ),
    ),
    Fault(
        "stop window of one token",
        HISTORY,
        (GREEDY, STOCHASTIC),
        patch(StopWatcher, "ends", ("max(0, len(self.text) - self._longest + 1)", "len(self.text)")),
    ),
    Fault(
        "stop token inside the block ignored",
        ENDS,
        (GREEDY, STOCHASTIC),
        both(_ignored_inside("greedy_round"), _ignored_inside("stochastic_round")),
    ),
    Fault("tokens after the stop string", ENDS, (GREEDY, STOCHASTIC), _after_the_block(True)),
    Fault(
        "more than max_new_tokens",
        ENDS,
        (GREEDY, STOCHASTIC),
        both(
            patch(speculation, "greedy_round", (_GREEDY_FULL, "pass")),
            patch(speculation, "stochastic_round", (_DRAWN_FULL, "pass")),
            wrap(Champion, "capacity", _room),
        ),
    ),
    Fault(
        "length reported where a stop came first",
        ENDS,
        (GREEDY, STOCHASTIC),
        patch(Session, "_settle", ("self.finish = self.stops.reason", "self.finish = 'length'")),
    ),
]
