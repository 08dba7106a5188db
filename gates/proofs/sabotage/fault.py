"""What a fault is, and the few ways of planting one from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..toy_models import ToyModel
from .patch import patched, planted
from .world import World

Plant = Callable[[World], AbstractContextManager[World]]


@dataclass(frozen=True)
class Fault:
    """One fault and the worlds it can show in; the first in which anything catches it counts."""

    name: str
    group: str
    worlds: tuple[World, ...]
    plant: Plant


def patch(owner: Any, name: str, *changes: tuple[str, str], expect: int = 1) -> Plant:
    """An asserted exchange of source fragments in one shipped function."""

    @contextmanager
    def plant(world: World) -> Iterator[World]:
        with planted(owner, name, patched(getattr(owner, name), *changes, expect=expect)):
            yield world

    return plant


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """A shipped function replaced by ``make(original)``."""

    @contextmanager
    def plant(world: World) -> Iterator[World]:
        with planted(owner, name, make(getattr(owner, name))):
            yield world

    return plant


def both(*plants: Plant) -> Plant:
    """Several plants that only together are the fault."""

    @contextmanager
    def plant(world: World) -> Iterator[World]:
        if len(plants) == 1:
            with plants[0](world) as changed:
                yield changed
        else:
            with plants[0](world) as changed, both(*plants[1:])(changed) as all_changed:
                yield all_changed

    return plant


def engines(change: Callable[[ToyModel, ToyModel], None]) -> Plant:
    """A fault in the engine's own code: ``change`` alters freshly loaded models, wherever they are loaded."""

    def refit(champion: ToyModel, draft: ToyModel) -> tuple[ToyModel, ToyModel]:
        change(champion, draft)
        return champion, draft

    @contextmanager
    def plant(world: World) -> Iterator[World]:
        yield replace(world, refit=refit)

    return plant
