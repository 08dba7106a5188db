"""Faults in caches and draws: output often stays exact while the draft rots, or texts repeat each other's luck."""

from __future__ import annotations

from typing import Any

from ....arms import speculation
from ....arms.draws import PhiloxDraws
from ....arms.neural_draft import NeuralDraft
from ....arms.prefix_cache import PrefixCache
from ..toy import LAYERS, ToyCache, entry
from .fault import Fault, both, engines, patch, wrap
from .world import GREEDY, KEPT, STOCHASTIC

CACHE, DRAWS = "cache", "draws"
BOTH = (GREEDY, STOCHASTIC)


class _StaleTail(ToyCache):
    """Rejected entries stay in reach of the layers listed."""

    kept: tuple[int, ...] = tuple(range(LAYERS))

    @property
    def stale(self) -> list[int]:
        """What is left of rejected entries, layer by layer."""
        found: list[int] = self.__dict__.setdefault("rest", [0] * LAYERS)
        return found

    def truncate(self, length: int) -> None:
        for number in self.kept:
            self.stale[number] += sum(self.layers[number][length:])
        super().truncate(length)

    def visible(self, layer: int) -> int:
        return (super().visible(layer) + self.stale[layer]) & ((1 << 64) - 1)


class _FirstLayerOnly(_StaleTail):
    """Rollback reaches the first layer and no other."""

    kept = tuple(range(1, LAYERS))


class _TooFar(ToyCache):
    """Rollback loses the last entries that should stay: places count on, their contents are gone."""

    lost = 1

    def truncate(self, length: int) -> None:
        if self.end > length:
            for layer in self.layers:
                begin = max(0, length - self.lost)
                layer[begin:length] = [0] * (length - begin)
        super().truncate(length)


class _TwoTooFar(_TooFar):
    lost = 2


class _ShiftedPlaces(ToyCache):
    """After the first rollback every token is written one place too far on."""

    shift = 0

    def truncate(self, length: int) -> None:
        self.shift = self.shift or int(self.end > length)
        super().truncate(length)

    def append(self, token: int) -> None:
        for number, layer in enumerate(self.layers):
            layer.append(entry(token, len(layer) + self.shift, number))


def _draft_cache(kind: type[ToyCache]) -> Any:
    def change(champion: Any, draft: Any) -> None:
        draft.engine.cache_class = kind

    return engines(change)


def _champion_cache(kind: type[ToyCache]) -> Any:
    def change(champion: Any, draft: Any) -> None:
        champion.engine.cache_class = kind

    return engines(change)


class _AdoptsTheEnd(ToyCache):
    """A cache takes over another's last tokens instead of its first."""

    def adopt(self, other: ToyCache, n: int) -> None:
        super().adopt(other, n)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine[:] = theirs[other.length - n : other.length]


_LACKING = "lacking = list(context[start + self.cache.length:])"
_KEPT = "self.tx.commit_prefix(min(self.fed + accepted, self.tx.appended))"


def _shifted(original: Any) -> Any:
    """Each draw takes its number from a place that depends on how many were proposed."""

    def accepts(q: Any, proposal: Any, i: int, draws: Any) -> bool:
        p_y = speculation.proposal_mass(proposal, i)
        return bool(draws.accept(int(q[proposal.tokens[i]]), p_y, i + len(proposal.tokens)))

    return accepts


def _without(part: str) -> Any:
    """The key of the draws leaves a part out."""

    def make(original: Any) -> Any:
        def init(self: PhiloxDraws, seed: int, stream: str, round: int) -> None:
            original(self, 0 if part == "seed" else seed, "" if part == "stream" else stream, round)

        return init

    return wrap(PhiloxDraws, "__init__", make)


_AT_LEAST_ONE = _LACKING + " or context[-1:]"


def _fed(name: str, lacking: str) -> Fault:
    return Fault(name, CACHE, BOTH, patch(NeuralDraft, "_caught_up", (_LACKING, lacking)))


def _used(name: str, old: str, new: str) -> Fault:
    return Fault(name, CACHE, (KEPT,), patch(PrefixCache, "usable", (old, new)))


FAULTS = [
    Fault(
        "draft not rolled back",
        CACHE,
        BOTH,
        both(
            patch(NeuralDraft, "settle", (_KEPT, "self.tx.commit_prefix(self.tx.appended)")),
            patch(NeuralDraft, "_caught_up", (_LACKING, _AT_LEAST_ONE)),
            wrap(NeuralDraft, "_new_cache", lambda original: lambda self: self.engine.new_cache(4096)),
        ),
    ),
    Fault("draft rolled back one too far", CACHE, BOTH, _draft_cache(_TooFar)),
    Fault("draft rolled back two too far", CACHE, BOTH, _draft_cache(_TwoTooFar)),
    _fed("last proposal never fed to the draft", "lacking = context[-1:]"),
    _fed("bonus never fed to the draft", _LACKING + "[:1]"),
    Fault("first layer only rolled back", CACHE, BOTH, _draft_cache(_FirstLayerOnly)),
    Fault("places off by one after a rollback", CACHE, BOTH, _draft_cache(_ShiftedPlaces)),
    Fault("champion's rejected tail in reach", CACHE, BOTH, _champion_cache(_StaleTail)),
    Fault("another cache's end adopted by the champion", CACHE, (KEPT,), _champion_cache(_AdoptsTheEnd)),
    Fault("another cache's end adopted by the draft", CACHE, (KEPT,), _draft_cache(_AdoptsTheEnd)),
    _used("tokens kept and never compared", "kept.tokens[n] == prompt[n]", "True"),
    _used("the first pending token taken as read", "len(prompt) - 1", "len(prompt)"),
    _used("more kept than the plan allows", "not continues", "False"),
    Fault("seed ignored", DRAWS, (STOCHASTIC,), _without("seed")),
    Fault("one stream for all requests", DRAWS, (STOCHASTIC,), _without("stream")),
    Fault("draws shift with k", DRAWS, (STOCHASTIC,), wrap(speculation, "accepts", _shifted)),
]
