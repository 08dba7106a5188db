"""Long documents with known facts, made from a seed: logs, registers, tickets, minutes, inventories, letters.

Each maker gives the same entries for the same seed on every machine: choices use ``random.Random.random`` alone, whose
sequence Python promises to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from . import long_words as w

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    key: str
    """What a question can call it by; no two entries of a document share it."""
    value: int
    """The number in it that questions compare; no two entries of a document share it."""
    text: str


def pick(rng: Random, options: Sequence[T]) -> T:
    return options[int(rng.random() * len(options))]


def whole(rng: Random, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def _date(index: int) -> str:
    """Day ``index`` of a year of 28-day months: dates need an order, not a calendar."""
    return f"{index % 28 + 1} {w.MONTHS[index // 28 % 12]}"


def light_log(rng: Random, index: int, value: int) -> Entry:
    date = _date(index) if index < 336 else f"{_date(index)} of the second year"
    text = (
        f"{date}. Wind {pick(rng, w.WINDS)}, force {whole(rng, 1, 9)}. {pick(rng, w.SEA)}. Glass {9500 + value} "
        f"tenths of a millibar. {pick(rng, w.KEEPING)}. {pick(rng, w.KEEPING)}."
    )
    return Entry(date, 9500 + value, text)


def allotments(rng: Random, index: int, value: int) -> Entry:
    first, second = pick(rng, w.CROPS), pick(rng, w.CROPS)
    grows = first if first == second else f"{first} and {second}"
    text = (
        f"Plot {index + 1}. Tenant: {pick(rng, w.PEOPLE)}. Grows {grows}. {pick(rng, w.PLOT_REMARKS)}. "
        f"Yearly rent {20 + value} crowns, paid to the end of {pick(rng, w.MONTHS)}."
    )
    return Entry(f"plot {index + 1}", 20 + value, text)


def tickets(rng: Random, index: int, value: int) -> Entry:
    number = 4100 + 3 * index
    text = (
        f"Ticket {number}. {pick(rng, w.PEOPLE)} of {pick(rng, w.PLACES)} brought {pick(rng, w.OBJECTS)}. "
        f"{pick(rng, w.FAULTS)}. {pick(rng, w.REPAIRS)}. Charged {15 + value} crowns."
    )
    return Entry(f"ticket {number}", 15 + value, text)


def minutes(rng: Random, index: int, value: int) -> Entry:
    day = pick(rng, w.DAYS)
    against = whole(rng, 0, 9)
    result = "carried" if 10 + value > against else "lost"
    text = (
        f"Meeting {index + 1}, a {day}, in the chair {pick(rng, w.PEOPLE)}. {pick(rng, w.ASIDES)}. Moved by "
        f"{pick(rng, w.PEOPLE)}: {pick(rng, w.MOTIONS)}; {result} by {10 + value} votes to {against}. "
        f"{pick(rng, w.ASIDES)}."
    )
    return Entry(f"meeting {index + 1}", 10 + value, text)


def inventory(rng: Random, index: int, value: int) -> Entry:
    number = f"M.{100 + index}"
    text = (
        f"{number}. {pick(rng, w.PIECES).capitalize()}, {pick(rng, w.MATERIALS)}, from {pick(rng, w.PLACES)}. "
        f"{pick(rng, w.CONDITIONS)}. {pick(rng, w.ORIGINS)}. Weight {30 + value} grams."
    )
    return Entry(number, 30 + value, text)


def letters(rng: Random, index: int, value: int) -> Entry:
    opening = pick(rng, ("Dear sister,", "My dear Ilse,", "Dear one,", "Dear I.,"))
    news = " ".join(dict.fromkeys(pick(rng, w.NEWS) for _ in range(4)))
    text = (
        f"Letter {index + 1}. {opening} {news} The eggs brought {40 + value} pence this week. Greetings from "
        f"{pick(rng, w.PLACES)}, your T."
    )
    return Entry(f"letter {index + 1}", 40 + value, text)


@dataclass(frozen=True)
class Kind:
    make: Callable[[Random, int, int], Entry]
    title: str
    measure: str
    """What ``value`` is, as a question says it."""
    entry: str


KINDS: dict[str, Kind] = {
    "light_log": Kind(light_log, "Log of the light at Gannet Rock", "reading of the glass", "day"),
    "allotments": Kind(allotments, "Register of the allotments at Lammas Green", "yearly rent", "plot"),
    "tickets": Kind(tickets, "Ticket book of a repair shop", "charge", "ticket"),
    "minutes": Kind(minutes, "Minutes of the parish council of Upper Wick", "number of votes in favour", "meeting"),
    "inventory": Kind(inventory, "Inventory of a small museum", "weight", "inventory number"),
    "letters": Kind(letters, "Letters from T. to a sister abroad", "price of the eggs", "letter"),
}


def entries(kind: str, seed: int, count: int) -> list[Entry]:
    """The first ``count`` entries of a document. A longer document of the same seed begins with the same entries.

    Values are distinct: the seed's own shuffle of a range decides them, so a largest and a smallest exist.
    """
    rng = Random(seed)
    step = 2 * whole(rng, 20, 400) + 1  # odd, so that its multiples run through all residues of a power of two
    return [KINDS[kind].make(rng, i, (whole(Random(seed), 0, 1023) + i * step) % 1024) for i in range(count)]
