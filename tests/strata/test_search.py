"""The adversarial search finds what a scorer hides, and keeps the found prompts apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support import adversarial_search
from support.adversarial_search import FORMS, PARTS, TWISTS, Candidate, TrigramDraft, diverse, render, search


def hidden(text: str) -> float | None:
    """Low for two forms and one twist; some answers are too short to judge."""
    if TWISTS[3] in text:
        return None
    return 0.9 - 0.4 * text.startswith((FORMS[2], FORMS[7])) - 0.4 * (TWISTS[5] in text)


def test_the_search_beats_drawing_at_random() -> None:
    def found(evaluations: int, seed: int) -> int:
        return sum(c.score < 0.2 for c in search(hidden, random.Random(seed), evaluations=evaluations))

    climbing = sum(found(200, seed) for seed in range(5))
    chance = 5 * 200 * (2 / len(FORMS)) * (1 / len(TWISTS))
    assert climbing > 2 * chance


def test_the_search_is_repeatable_sorted_and_skips_what_cannot_be_judged() -> None:
    first, second = (search(hidden, random.Random(4), evaluations=120) for _ in range(2))
    assert first == second
    assert [c.score for c in first] == sorted(c.score for c in first)
    assert not any(TWISTS[3] in c.text for c in first)
    assert len({c.choice for c in first}) == len(first)


def test_the_search_ends_when_the_space_or_the_time_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adversarial_search, "PARTS", tuple(part[:3] for part in PARTS))
    assert len(search(lambda _: 0.5, random.Random(1), evaluations=1000)) == 27
    assert search(lambda _: 0.5, random.Random(1), evaluations=100, deadline=0.0) == []


def test_kept_prompts_share_at_most_one_part() -> None:
    kept = diverse(search(hidden, random.Random(2), evaluations=400), 10)
    assert len(kept) == 10
    for i, a in enumerate(kept):
        assert all(sum(x == y for x, y in zip(a.choice, b.choice, strict=True)) <= 1 for b in kept[:i])
    uses = Counter(slot for c in kept for slot in enumerate(c.choice))
    assert max(uses.values()) <= 2


def test_a_candidate_renders_its_parts() -> None:
    candidate = Candidate((0, 1, 2), 0.0)
    assert candidate.text == render((0, 1, 2))
    assert all(part[i] in candidate.text for part, i in zip(PARTS, candidate.choice, strict=True))


def test_the_trigram_draft_prefers_two_tokens_of_context() -> None:
    draft = TrigramDraft([[1, 2, 3], [1, 2, 3], [9, 2, 4], [9, 2, 4], [9, 2, 4]])
    assert draft.agreement([1, 2], [3]) == 1.0
    assert draft.agreement([7, 2], [4]) == 1.0
    assert draft.agreement([7, 7], [4]) == 0.0
    assert draft.agreement([1, 2], [3, 8]) == pytest.approx(0.5)
