"""What runs, in which order: a pure function of the plan, so that a resumed run and a verifier see the same list.

Units are stratum × block, block after block, strata in an order drawn for each block. Inside a unit every arm runs in
a process of its own; the order of arms follows a Williams design, whose rows are dealt in drawn order, so that each
arm comes equally often at each place and after each other arm. With ``schedule.order`` williams the rows go to the
units, and a unit's processes follow each other. With interleaved they go to a unit's requests: its processes live side
by side, and a request is answered by every arm before the next, so that seconds lie between what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

CANARY_PLACES = ("start", "middle", "end")


@dataclass(frozen=True)
class Item:
    """One request on one arm."""

    request_id: str
    arm: str
    stratum: str
    prompt_id: str
    family_id: str
    block: int
    turn: int
    entry: str
    """warm or cold."""
    seed: str
    """16 hexadecimal digits; the same on every arm."""
    stream: str
    """Separates the draws of prompt, block and arm."""
    max_new_tokens: int


@dataclass(frozen=True)
class Unit:
    index: int
    id: str
    stratum: str
    block: int
    order: tuple[str, ...]
    """Arms, in the order of their processes."""


def drawn(seed: str, *labels: object) -> int:
    """An unsigned 64-bit number that depends on the plan's seed and the labels, and on nothing else."""
    text = "|".join([seed, *map(str, labels)])
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


def shuffled(items: Sequence[Any], seed: str, *labels: object) -> list[Any]:
    """A permutation drawn from the plan's seed."""
    keyed = sorted((drawn(seed, *labels, i), i) for i in range(len(items)))
    return [items[i] for _, i in keyed]


def williams(n: int) -> list[list[int]]:
    """Rows of a Williams design: every treatment equally often at each place and directly after each other one.

    n rows for even n, 2n for odd. Source: E. J. Williams, Australian Journal of Scientific Research 2 (1949) 149–168.
    """
    zigzag = [0] + [(j + 1) // 2 if j % 2 else n - j // 2 for j in range(1, n)]
    rows = [[(z + i) % n for z in zigzag] for i in range(n)]
    return rows if n % 2 == 0 or n == 1 else rows + [row[::-1] for row in rows]


class Schedule:
    """All units and items of a plan."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.plan = plan
        self.seed: str = plan["seed"]
        self.arms = [arm["name"] for arm in plan["arms"]]
        self.strata = {s["name"]: s for s in plan["strata"]}
        self.units = tuple(self._units())

    def _units(self) -> Iterator[Unit]:
        rows = williams(len(self.arms))
        names, blocks = list(self.strata), int(self.plan["schedule"]["blocks"])
        for index in range(len(names) * blocks):
            block, place = divmod(index, len(names))
            stratum = shuffled(names, self.seed, "strata", block)[place]
            deal, place_in_deal = divmod(index, len(rows))
            row = shuffled(rows, self.seed, "rows", deal)[place_in_deal]
            yield Unit(index, f"{stratum}/b{block}", stratum, block, tuple(self.arms[a] for a in row))

    @property
    def interleaved(self) -> bool:
        return bool(self.plan["schedule"]["order"] == "interleaved")

    @property
    def keeps_conversations(self) -> bool:
        return bool(self.plan["schedule"].get("prefix_cache") == "conversation")

    @property
    def preamble_tokens(self) -> int | None:
        """What a request that continues no conversation need not read again; None without a prefix cache."""
        return int(self.plan["schedule"]["preamble_tokens"]) if self.keeps_conversations else None

    def turns(self, unit: Unit, number: int) -> tuple[str, ...]:
        """Order in which the arms answer warm request ``number`` (from 0) of an interleaved unit."""
        rows = williams(len(self.arms))
        deal, place = divmod(number, len(rows))
        return tuple(self.arms[a] for a in shuffled(rows, self.seed, "turns", unit.id, deal)[place])

    def items(self, unit: Unit, arm: str) -> list[Item]:
        """Requests of one arm in one unit, in order: the cold entry first, then every turn of every prompt."""
        prompts = self.strata[unit.stratum]["prompts"]
        warm = [self._item(unit, arm, p, turn, "warm") for p in prompts for turn in range(p["turns"])]
        if not self.plan["schedule"]["cold"]:
            return warm
        return [self._item(unit, arm, self._cold_prompt(unit), 0, "cold"), *warm]

    def turn_before(self, unit: Unit, item: Item) -> Item:
        """The warm request of the same conversation that comes before ``item``, whose turn is at least 1."""
        prompt = next(p for p in self.strata[unit.stratum]["prompts"] if p["id"] == item.prompt_id)
        return self._item(unit, item.arm, prompt, item.turn - 1, "warm")

    def request_ids(self, unit: Unit, arm: str) -> Iterator[str]:
        """Ids of `items`, in the same order, without drawing anything: what a resumed run asks about first."""
        prompts = self.strata[unit.stratum]["prompts"]
        before, block = f"{arm}/{unit.stratum}/", f"/b{unit.block}/t"
        if self.plan["schedule"]["cold"]:
            yield f"{before}{self._cold_prompt(unit)['id']}{block}0/cold"
        for prompt in prompts:
            for turn in range(prompt["turns"]):
                yield f"{before}{prompt['id']}{block}{turn}/warm"

    def total(self) -> int:
        """Number of requests the run owes."""
        blocks, cold = int(self.plan["schedule"]["blocks"]), bool(self.plan["schedule"]["cold"])
        each = sum(int(cold) + sum(p["turns"] for p in s["prompts"]) for s in self.strata.values())
        return int(each * blocks * len(self.arms))

    def _cold_prompt(self, unit: Unit) -> Mapping[str, Any]:
        prompts = self.strata[unit.stratum]["prompts"]
        chosen: Mapping[str, Any] = prompts[drawn(self.seed, "cold", unit.stratum, unit.block) % len(prompts)]
        return chosen

    def _item(self, unit: Unit, arm: str, prompt: Mapping[str, Any], turn: int, entry: str) -> Item:
        limit = int(self.plan["schedule"]["max_new_tokens"])
        place = (unit.stratum, prompt["id"], unit.block, turn)
        return Item(
            request_id=f"{arm}/{unit.stratum}/{prompt['id']}/b{unit.block}/t{turn}/{entry}",
            arm=arm,
            stratum=unit.stratum,
            prompt_id=prompt["id"],
            family_id=prompt["family_id"],
            block=unit.block,
            turn=turn,
            entry=entry,
            seed=f"{drawn(self.seed, 'request', *place):016x}",
            stream="/".join(map(str, (*place, arm))),
            max_new_tokens=min(limit, prompt.get("max_new_tokens", limit)),
        )

    def warmups(self, unit: Unit, arm: str, segment: int) -> list[Item]:
        """Marked requests before the warm ones of a process, on the unit's first prompts; never analysed."""
        prompts = self.strata[unit.stratum]["prompts"]
        count = int(self.plan["schedule"]["warmup_requests"])
        items = []
        for i in range(count):
            item = self._item(unit, arm, prompts[i % len(prompts)], 0, "warm")
            name = f"{arm}/{unit.id}/s{segment}/warmup{i}"
            items.append(replace_id(item, name))
        return items

    def canaries(self, where: str, arm: str) -> list[Item]:
        """Identical requests at the start, the middle and the end: the first prompts of the first strata."""
        items = []
        for i in range(int(self.plan["schedule"]["canaries"])):
            name = list(self.strata)[i % len(self.strata)]
            prompts = self.strata[name]["prompts"]
            unit = Unit(-1, "canary", name, -1, ())
            item = self._item(unit, arm, prompts[(i // len(self.strata)) % len(prompts)], 0, "warm")
            items.append(replace_id(item, f"canary/{where}/{arm}/{i}"))
        return items

    def middle(self) -> int:
        """Number of units after which the middle canaries run."""
        return (len(self.units) + 1) // 2

    def requests(self) -> Iterator[Item]:
        """Every request the run owes, in order of units."""
        for unit in self.units:
            for arm in unit.order:
                yield from self.items(unit, arm)


def replace_id(item: Item, request_id: str) -> Item:
    from dataclasses import replace

    return replace(item, request_id=request_id)


def process_id(unit: Unit, arm: str, segment: int) -> str:
    return f"{unit.id}/{arm}#{segment}"
