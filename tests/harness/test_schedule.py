"""Orders are balanced, drawn from the seed alone, and the same for whoever recomputes them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from draftgate.harness.schedule import Schedule, shuffled, williams
from hypothesis import given
from hypothesis import strategies as st


def plan(
    arms: int = 4, strata: int = 3, prompts: int = 3, blocks: int = 4, seed: str = "00000000000000aa"
) -> dict[str, Any]:
    return {
        "seed": seed,
        "arms": [{"name": f"arm{i}", "kind": "champion_alone"} for i in range(arms)],
        "strata": [
            {
                "name": f"s{s}",
                "prompts": [{"id": f"p{p}", "family_id": f"f{p}", "turns": 1 + (p == 0)} for p in range(prompts)],
            }
            for s in range(strata)
        ],
        "schedule": {"blocks": blocks, "max_new_tokens": 8, "warmup_requests": 1, "cold": True, "canaries": 2},
    }


@pytest.mark.parametrize("n", range(1, 9))
def test_williams_design_is_balanced_for_place_and_predecessor(n: int) -> None:
    rows = williams(n)
    places = Counter((arm, place) for row in rows for place, arm in enumerate(row))
    followers = Counter(pair for row in rows for pair in pairwise(row))
    assert len(places) == n * n and len(set(places.values())) == 1
    assert len(followers) == n * (n - 1) and len(set(followers.values())) <= 1


def test_every_deal_of_rows_is_used_whole_before_the_next() -> None:
    schedule = Schedule(plan(arms=4, strata=2, blocks=4))
    orders = [unit.order for unit in schedule.units]
    for deal in (orders[:4], orders[4:]):
        assert len(set(deal)) == 4
        assert Counter(row[0] for row in deal) == Counter({f"arm{i}": 1 for i in range(4)})


@pytest.mark.parametrize("arms", [2, 3, 4, 6])
def test_turns_are_balanced_in_every_unit_and_differ_between_units(arms: int) -> None:
    schedule = Schedule(plan(arms=arms))
    whole = len(williams(arms))
    rounds = {u.id: [schedule.turns(u, i) for i in range(2 * whole)] for u in schedule.units}
    for turns in rounds.values():
        for deal in (turns[:whole], turns[whole:]):
            assert {frozenset(row) for row in deal} == {frozenset(schedule.arms)}
            places = Counter((arm, place) for row in deal for place, arm in enumerate(row))
            followers = Counter(pair for row in deal for pair in pairwise(row))
            assert len(places) == arms * arms and len(set(places.values())) == 1
            assert len(followers) == arms * (arms - 1) and len(set(followers.values())) == 1
    assert len({tuple(turns) for turns in rounds.values()}) > 1


def test_ids_are_unique_and_seeds_are_shared_by_arms_and_by_nothing_else() -> None:
    schedule = Schedule(plan())
    items = list(schedule.requests())
    assert len({i.request_id for i in items}) == len(items)
    by_seed: dict[str, set[tuple[str, str, int, int]]] = {}
    for item in items:
        by_seed.setdefault(item.seed, set()).add((item.stratum, item.prompt_id, item.block, item.turn))
    assert all(len(places) == 1 for places in by_seed.values())
    assert len(by_seed) == 3 * (3 + 1) * 4
    streams = {(i.stream, i.arm, i.seed) for i in items}
    assert len({s for s, _, _ in streams}) == len(streams)


def test_ids_without_items_are_the_items_ids_and_are_counted() -> None:
    schedule = Schedule(plan())
    for unit in schedule.units:
        for arm in unit.order:
            assert list(schedule.request_ids(unit, arm)) == [i.request_id for i in schedule.items(unit, arm)]
    assert schedule.total() == len(list(schedule.requests()))


def test_cold_entries_are_the_same_request_on_every_arm() -> None:
    schedule = Schedule(plan())
    for unit in schedule.units:
        cold = {schedule.items(unit, arm)[0] for arm in schedule.arms}
        assert {i.entry for i in cold} == {"cold"}
        assert len({(i.prompt_id, i.seed) for i in cold}) == 1


@given(st.lists(st.integers(), max_size=30), st.integers(0, 2**64 - 1))
def test_shuffling_is_a_permutation_that_the_seed_decides(items: list[int], seed: int) -> None:
    text = f"{seed:016x}"
    assert sorted(shuffled(items, text, "x")) == sorted(items)
    assert shuffled(items, text, "x") == shuffled(items, text, "x")


def test_another_seed_gives_another_order() -> None:
    orders = {tuple(u.id for u in Schedule(plan(strata=6, seed=f"{s:016x}")).units) for s in range(8)}
    assert len(orders) == 8
