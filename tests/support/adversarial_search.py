"""Looks for prompts on which proposers do worst: hill climbing over the parts of a prompt.

    python tests/support/adversarial_search.py --model smollm2-135m-instruct --seconds 480 --out found.jsonl

The search knows nothing of models: it takes a scorer, a callable from a prompt's text to the share of its answer's
tokens that proposals supplied (None for an answer too short to judge), and returns the prompts with the smallest
shares. Run as a script it scores with the real arms: prompt lookup and, as a draft, the model given with ``--draft`` or
a trigram table learned from the champion's own answers to the other strata.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Scorer = Callable[[str], float | None]

FORMS = (
    "Write a very short story",
    "Write a classified advertisement",
    "Give me a weather forecast",
    "Write the inscription on a monument",
    "Describe a smell",
    "Make up a proverb and explain it",
    "Write the minutes of a meeting of ghosts",
    "Invent a law",
    "Write a recipe without a cooker",
    "Draw up an excuse",
    "Give directions",
    "Write the last page of a novel",
    "List the contents of a drawer",
    "Write a bird-watcher's note",
    "Name and describe a new colour",
    "Write a complaint",
    "Transcribe an overheard quarrel",
)
TOPICS = (
    "a zither tuner in Ouagadougou",
    "quince, gravel and the number eleven",
    "the widow of a cartographer",
    "an eel that has read Spinoza",
    "velcro before velcro",
    "two left gloves on a tram",
    "a knacker's yard at Epiphany",
    "the moths of Novosibirsk",
    "a defective theodolite",
    "somebody called Ümit-Zdravko Quarles",
    "marzipan, lice and jurisprudence",
    "the last typewriter repairman of Paramaribo",
    "fog seen from underneath",
    "a vicar's collection of hinges",
    "oxide, umbra, sump, kelp",
    "a chess game played by post since 1961",
)
TWISTS = (
    "Every word should begin with a different letter.",
    "Use no word that anybody used before 1900.",
    "Each sentence must be about something else.",
    "Use surnames from five continents and no first name.",
    "Never use the same word twice.",
    "Put an odd number in each sentence.",
    "Write it as telegrams.",
    "No articles, no conjunctions.",
    "Alternate between chemistry and gossip.",
    "Leave out the letter e.",
    "Answer in the voice of an auctioneer.",
    "Mix in four words of a language you invent.",
    "Spell every third word backwards.",
)
PARTS: tuple[tuple[str, ...], ...] = (FORMS, TOPICS, TWISTS)


@dataclass(frozen=True)
class Candidate:
    choice: tuple[int, ...]
    """Index into each of PARTS."""
    score: float

    @property
    def text(self) -> str:
        return render(self.choice)


def render(choice: Sequence[int]) -> str:
    form, topic, twist = (part[i] for part, i in zip(PARTS, choice, strict=True))
    return f"{form} about {topic}. {twist}"


def search(scorer: Scorer, rng: random.Random, *, evaluations: int, deadline: float | None = None) -> list[Candidate]:
    """All scored candidates, worst for proposers first.

    Half the budget draws at random, half changes one part of one of the best so far; the same generator and scorer give
    the same search. ``deadline`` (monotonic seconds) ends it early.
    """
    seen: dict[tuple[int, ...], Candidate | None] = {}
    space = 1
    for part in PARTS:
        space *= len(part)
    while len(seen) < min(evaluations, space) and (deadline is None or time.monotonic() < deadline):
        good = sorted((c for c in seen.values() if c is not None), key=lambda c: c.score)[:8]
        choice = [rng.randrange(len(part)) for part in PARTS]
        if good and len(seen) >= evaluations // 2:
            kept, changed = list(rng.choice(good).choice), rng.randrange(len(PARTS))
            kept[changed] = choice[changed]
            choice = kept if tuple(kept) not in seen else choice
        if tuple(choice) in seen:
            continue
        score = scorer(render(choice))
        seen[tuple(choice)] = None if score is None else Candidate(tuple(choice), score)
    return sorted((c for c in seen.values() if c is not None), key=lambda c: (c.score, c.choice))


def diverse(found: Iterable[Candidate], count: int) -> list[Candidate]:
    """The best few of which no two share more than one part, and no part is used three times."""
    kept: list[Candidate] = []
    used: Counter[tuple[int, int]] = Counter()
    for candidate in found:
        alike = any(sum(a == b for a, b in zip(candidate.choice, other.choice, strict=True)) > 1 for other in kept)
        slots = list(enumerate(candidate.choice))
        if alike or any(used[slot] >= 2 for slot in slots):
            continue
        kept.append(candidate)
        used.update(slots)
        if len(kept) == count:
            break
    return kept


class TrigramDraft:
    """The simplest draft: the most frequent continuation of the last two tokens, else of the last one."""

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        tables: dict[tuple[int, ...], Counter[int]] = {}
        for sequence in sequences:
            for i in range(1, len(sequence)):
                for n in (1, 2):
                    if i >= n:
                        tables.setdefault(tuple(sequence[i - n : i]), Counter())[sequence[i]] += 1
        self.best = {context: counts.most_common(1)[0][0] for context, counts in tables.items()}

    def agreement(self, prompt: Sequence[int], answer: Sequence[int]) -> float:
        """Share of the answer's tokens that it would have proposed."""
        text = [*prompt, *answer]
        hits = 0
        for i in range(len(prompt), len(text)):
            guess = self.best.get(tuple(text[i - 2 : i]), self.best.get(tuple(text[i - 1 : i])))
            hits += guess == text[i]
        return hits / len(answer)


def arm_scorer(model: Any, draft: Any, tokens: int, shortest: int) -> Scorer:
    """Mean over lookup and draft of the share of tokens that proposals supplied, from greedy runs of the real arms."""
    from draftgate.arms.build import build_arm
    from draftgate.arms.request import Request, StopPolicy
    from draftgate.strata.load import load_stratum
    from draftgate.strata.schema import Message

    lookup = build_arm(
        {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 5, "min_ngram": 2, "max_ngram": 4},
        model,
        None,
        {"temperature": 0.0},
    )
    neural = None
    if draft is not None:
        spec = {"name": "neural_draft", "kind": "neural_draft", "k": 4, "policy": {"kind": "fixed"}}
        neural = build_arm(spec, model, draft, {"temperature": 0.0})
    stop = StopPolicy(tuple(model.tokenizer.stop_ids))

    def answer(arm: Any, ids: Sequence[int]) -> Any:
        return arm.generate(Request("search", tuple(ids), tokens, 0, stop))

    def accepted(completion: Any) -> float:
        return float(sum(r.accepted for r in completion.rounds) / len(completion.tokens))

    trigram = None
    if neural is None:
        learnt = []
        for name in ("casual_chat", "summaries", "rewrites", "source_conflict"):
            for prompt in [p for p in load_stratum(name) if p.split == "open"][:12]:
                learnt.append(answer(lookup, model.encode_chat(prompt.turns[0])).tokens)
        trigram = TrigramDraft(learnt)

    def score(text: str) -> float | None:
        ids = model.encode_chat([Message("user", text)])
        completion = answer(lookup, ids)
        if len(completion.tokens) < shortest:
            return None
        by_draft = accepted(answer(neural, ids)) if neural else trigram.agreement(ids, completion.tokens)  # type: ignore[union-attr]
        return (accepted(completion) + by_draft) / 2

    return score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=240)
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--shortest", type=int, default=32)
    parser.add_argument("--keep", type=int, default=12)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    from draftgate.arms.models import load_draft, load_model

    champion = load_model(args.model)
    draft = load_draft(args.draft, champion) if args.draft else None
    scorer = arm_scorer(champion, draft, args.tokens, args.shortest)
    deadline = time.monotonic() + args.seconds
    found = search(scorer, random.Random(args.seed), evaluations=args.evaluations, deadline=deadline)
    kept = diverse(found, args.keep)
    lines = [json.dumps({"prompt": c.text, "score": round(c.score, 4)}, ensure_ascii=False) + "\n" for c in kept]
    Path(args.out).write_text("".join(lines), encoding="utf-8")
    scores = [c.score for c in found]
    print(
        f"{len(found)} scored, median {scores[len(scores) // 2]:.3f}, kept {kept[0].score:.3f} to {kept[-1].score:.3f}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
