"""The prompts of a plan: chosen at freeze, loaded and checked again when the run starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..strata.load import load_stratum, prompt_file
from ..strata.schema import Prompt
from .canonical import digest_file


@dataclass(frozen=True)
class StratumPrompts:
    name: str
    source: str
    """A shipped stratum's name, or ``file:`` and a user's file name; never a path."""
    path: Path | None
    """Where a user's file lies; None for a shipped stratum."""
    file_sha256: str
    prompts: tuple[Prompt, ...]


def choose(prompts: Sequence[Prompt], split: str, count: int) -> tuple[Prompt, ...]:
    """Prompts of a split, at most ``count`` (0: all), in file order; one of each family first, since the family is the
    cluster."""
    fit = [p for p in prompts if split == "all" or p.split == split]
    if count == 0 or len(fit) <= count:
        return tuple(fit)
    seen: set[str] = set()
    first = [p for p in fit if not (p.family_id in seen or seen.add(p.family_id))]  # type: ignore[func-returns-value]
    chosen = {id(p) for p in (first + [p for p in fit if all(p is not f for f in first)])[:count]}
    return tuple(p for p in fit if id(p) in chosen)


def load_source(name: str, source: str) -> tuple[list[Prompt], Path | None, str]:
    """All prompts of a source, the user's path if it is a file, and the file's sha256. Raises StrataError."""
    from ..strata.load import names

    path = prompt_file(source)
    shipped = source in names()
    return load_stratum(source), (None if shipped else path.resolve()), digest_file(path)


def chosen_strata(strata: Mapping[str, Any]) -> list[StratumPrompts]:
    """The strata of a composed plan, prompts chosen."""
    result = []
    for name, entry in strata["entries"].items():
        prompts, path, sha = load_source(name, entry["source"])
        count = strata["prompts_per_stratum"] if entry["prompts"] is None else entry["prompts"]
        picked = choose(prompts, strata["split"], count)
        source = entry["source"] if path is None else f"file:{path.name}"
        result.append(StratumPrompts(name, source, path, sha, picked))
    return result


def render_message(prompts: Sequence[Prompt]) -> dict[str, Any]:
    """The worker message that renders the first request of each prompt to token ids."""
    listed = [{"raw": p.raw, "messages": messages(p, 0) if p.raw is None else []} for p in prompts]
    return {"type": "render", "prompts": listed}


def messages(prompt: Prompt, turn: int) -> list[dict[str, str]]:
    """Messages added before the answer of one turn."""
    return [{"role": m.role, "content": m.content} for m in prompt.turns[turn]]


def turns(prompt: Prompt) -> int:
    """Answers asked of one prompt; a raw prompt has one."""
    return max(len(prompt.turns), 1)
