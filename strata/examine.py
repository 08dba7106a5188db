"""What `draftgate strata check` finds out about one set, in one pass over its file."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .coverage import EVENTS, events
from .load import Problem, id_hash, read_jsonl
from .near import near_duplicates, sketch
from .schema import Prompt

MOST_PROBLEMS = 200
"""Problems kept word for word; more are counted."""
MOST_COMPARED = 20_000
"""Near duplicates are looked for among this many first prompts."""
EDGES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Upper bounds of the length histogram, in tokens."""

Count = Callable[[Prompt], int]


def four_characters_a_token(prompt: Prompt) -> int:
    """The stand-in where no tokenizer is at hand; far off for scripts other than Latin."""
    return sum(len(text) // 4 + 1 for text in prompt.texts())


@dataclass
class Examination:
    path: str
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0
    prompts: int = 0
    reserve: int = 0
    family_hashes: array[int] = field(default_factory=lambda: array("Q"))
    """One for each prompt: a million in an array take 8 MB, in a set 65."""
    multi_turn: int = 0
    checked: int = 0
    strata: Counter[str] = field(default_factory=Counter)
    lengths: array[int] = field(default_factory=lambda: array("I"))
    """Tokens of each prompt, in file order."""
    over_limit: int = 0
    """Prompts that do not fit the context at all."""
    events: Counter[str] = field(default_factory=Counter)
    duplicates: list[dict[str, Any]] = field(default_factory=list)
    compared: int = 0

    @property
    def families(self) -> int:
        return len(np.unique(np.frombuffer(self.family_hashes, dtype=np.uint64))) if self.family_hashes else 0

    def record(self) -> dict[str, Any]:
        """JSON values for ``--json``."""
        ordered = sorted(self.lengths)
        return {
            "path": self.path,
            "prompts": self.prompts,
            "families": self.families,
            "reserve": self.reserve,
            "multi_turn": self.multi_turn,
            "checked": self.checked,
            "strata": dict(self.strata),
            "problems": [{"line": p.line, "text": p.text} for p in self.problems],
            "problem_count": self.problem_count,
            "tokens": {name: quantile(ordered, q) for name, q in _QUANTILES.items()} if ordered else None,
            "histogram": histogram(ordered),
            "over_limit": self.over_limit,
            "events": {name: self.events[name] for name in EVENTS},
            "near_duplicates": self.duplicates,
            "compared": self.compared,
        }


_QUANTILES = {"min": 0.0, "median": 0.5, "p90": 0.9, "max": 1.0}


def quantile(ordered: list[int], q: float) -> int:
    """The observation at a quantile of a sorted list, no interpolation."""
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)]


def histogram(lengths: list[int]) -> dict[str, int]:
    counts = Counter(next((f"<={edge}" for edge in EDGES if n <= edge), f">{EDGES[-1]}") for n in lengths)
    return {name: counts[name] for name in (*(f"<={edge}" for edge in EDGES), f">{EDGES[-1]}")}


def examine(path: Path, *, count: Count, context_limit: int, similar: float) -> Examination:
    """Everything about one file. Bad lines are collected, never raised; memory does not grow with the texts."""
    found = Examination(str(path))

    def note(problem: Problem) -> None:
        found.problem_count += 1
        if len(found.problems) < MOST_PROBLEMS:
            found.problems.append(problem)

    sketches: list[NDArray[np.uint64]] = []
    names: list[tuple[str, str]] = []
    for prompt in read_jsonl(path, on_problem=note):
        tokens = count(prompt)
        _add(found, prompt, tokens, context_limit)
        if len(sketches) < MOST_COMPARED:
            sketches.append(sketch(prompt.text()))
            names.append((prompt.id, prompt.family_id))
    found.compared = len(sketches)
    found.duplicates = [
        {"first": names[p.first][0], "second": names[p.second][0], "similarity": round(p.similarity, 3)}
        for p in near_duplicates(sketches, similar)
        if names[p.first][1] != names[p.second][1]
    ]
    return found


def _add(found: Examination, prompt: Prompt, tokens: int, context_limit: int) -> None:
    found.prompts += 1
    found.reserve += prompt.split == "reserve"
    found.family_hashes.append(id_hash(prompt.family_id))
    found.multi_turn += len(prompt.turns) > 1
    found.checked += prompt.check is not None
    found.strata[prompt.stratum] += 1
    found.lengths.append(tokens)
    found.over_limit += tokens > context_limit
    found.events.update(events(prompt, tokens, context_limit))
