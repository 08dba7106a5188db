"""The broad set of training prompts: half are the champion's own words, the rest templates and later turns.

Templates alone make a draft that knows templates: of 3.9 tokens a verification on its training text 2.0 were left on
the strata. A chat model can write the user's turn as well (Magpie, arXiv:2406.08464), here from a few opening words, so
that kinds and languages are steered and no two prompts are alike.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Any

from .corpus import Earlier
from .generation import Start, generate
from .prompts import TEMPERATURES, TrainingPrompt, listed, prompt_set_sha256, training_prompts

SHARES = {"own words": 0.52, "later turn": 0.12, "template": 0.36}
UNOPENED = 0.06
"""Share of the champion's own prompts that begin with no word of ours."""
QUESTION_TOKENS = 120
QUESTION_TEMPERATURE = 0.9
SPARE = 1.1
STYLED = 0.4
"""Share of templates that end with a wish for style."""


def broad_sha256() -> str:
    """Identity of everything that a prompt of this set can be made of, the champion's words excepted."""
    lists = [listed(name) for name in ("openings", "styles", "later_turns")]
    numbers = (SHARES, UNOPENED, QUESTION_TOKENS, QUESTION_TEMPERATURE, SPARE, STYLED)
    parts = repr((prompt_set_sha256(), lists, numbers))
    return hashlib.sha256(parts.encode()).hexdigest()


def broad_prompts(model: Any, seed: int, earlier: Earlier, count: int) -> Iterator[TrainingPrompt]:
    """A `corpus.Prompts`. Raises TemplateError for a champion whose template cannot take later turns."""
    rng = random.Random(seed)
    own = iter(questions(model, rng, int(count * SHARES["own words"] * SPARE) + 1))
    templates = training_prompts(rng.getrandbits(63), list(earlier.texts))
    conversations = list(earlier.conversations)
    later, styles = listed("later_turns"), listed("styles")
    while True:
        kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
        text = next(own, None) if kind == "own words" else None
        if text is not None:
            yield TrainingPrompt("own words", text, rng.choice(TEMPERATURES), rng.getrandbits(63))
        elif kind == "later turn" and conversations:
            before = tuple(rng.choice(conversations))
            yield TrainingPrompt("later turn", rng.choice(later), rng.choice(TEMPERATURES), rng.getrandbits(63), before)
        else:
            prompt = next(templates)
            style = f" {rng.choice(styles)}" if rng.random() < STYLED else ""
            yield TrainingPrompt(prompt.kind, prompt.text + style, prompt.temperature, prompt.seed)


def questions(model: Any, rng: random.Random, count: int) -> list[str]:
    """User's turns in the champion's words, each continued from a few opening words."""
    openings = listed("openings")
    stops = set(model.tokenizer.stop_ids)
    begun: list[str] = []

    def starts() -> Iterator[Start]:
        for _ in range(count):
            begun.append("" if rng.random() < UNOPENED else rng.choice(openings))
            ids = unfinished_turn(model, begun[-1])
            yield Start(ids, QUESTION_TEMPERATURE, rng.getrandbits(63), QUESTION_TOKENS)

    found = []
    done = list(generate(model, starts(), None, lambda n: None))
    for opening, sequence in zip(begun, done, strict=True):
        answer = [token for token in sequence.answer if token not in stops]
        text = (opening + model.tokenizer.decode(answer)).strip()
        if len(text.split()) > 2 or len(text) > 12:  # languages without spaces
            found.append(text)
    return found


def unfinished_turn(model: Any, opening: str) -> list[int]:
    """A chat that breaks off after the first words of the user's turn.

    Where the template ends a user's turn with anything but a stop token, that is left in: what the champion then writes
    is a worse prompt, and still text of its own.
    """
    ids: list[int] = model.encode_chat([{"role": "user", "content": opening or "x"}], add_generation_prompt=False)
    stops = set(model.tokenizer.stop_ids)
    closing = max((place for place, token in enumerate(ids) if token in stops), default=0)
    if not model.tokenizer.decode(ids[:closing]).endswith(opening or "x"):
        return ids
    return ids[:closing] if opening else ids[: closing - 1]
