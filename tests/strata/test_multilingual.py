"""The multilingual stratum holds what it says it holds, by Unicode's own data."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from unicodedata import normalize

from draftgate.strata.checks.text import script_of
from draftgate.strata.load import load_stratum

PROMPTS = load_stratum("multilingual")
TEXT = {prompt.id: prompt.text() for prompt in PROMPTS}
ZWJ, ZWNJ = "\u200d", "\u200c"


def tagged(tag: str) -> list[str]:
    found = [prompt.text() for prompt in PROMPTS if tag in prompt.tags]
    assert found, tag
    return found


def test_at_least_ten_scripts_are_the_main_script_of_a_prompt() -> None:
    main: Counter[str] = Counter()
    for text in TEXT.values():
        counts = Counter(found for c in text if (found := script_of(c)))
        main.update(name for name, _ in counts.most_common(1))
    assert len(main) >= 10, main
    asked = {prompt.check["script"] for prompt in PROMPTS if prompt.check and prompt.check["kind"] == "script"}
    assert len(asked) >= 12


def test_siblings_are_one_text_in_two_normal_forms() -> None:
    families = defaultdict(list)
    for prompt in PROMPTS:
        families[prompt.family_id].append(prompt)
    pairs = [family for family in families.values() if len(family) > 1]
    assert len(pairs) >= 4
    scripts = set()
    for composed, decomposed in pairs:
        a, b = composed.text(), decomposed.text()
        assert a != b and normalize("NFC", b) == a and normalize("NFD", a) == b
        assert "nfc" in composed.tags and "nfd" in decomposed.tags
        scripts.add(Counter(filter(None, map(script_of, a))).most_common(1)[0][0])
        assert composed.split == decomposed.split
    assert {"Latin", "Hangul"} <= scripts


def test_combining_marks_are_there() -> None:
    for text in tagged("combining"):
        assert any(unicodedata.category(c) in ("Mn", "Mc") for c in text), text
    assert any(sum(unicodedata.category(c) == "Mn" for c in text) > 15 for text in TEXT.values())  # stacked ones


def test_emoji_sequences_have_their_joiners_modifiers_and_flags() -> None:
    text = "".join(tagged("zwj"))
    assert text.count(ZWJ) >= 5
    for i, c in enumerate(text):
        if c == ZWJ:
            assert unicodedata.category(text[i - 1]) in ("So", "Sk", "Mn") and unicodedata.category(text[i + 1]) == "So"
    assert any("\U0001f3fb" <= c <= "\U0001f3ff" for c in text)  # a skin tone
    assert sum("\U0001f1e6" <= c <= "\U0001f1ff" for c in text) == 2  # a flag
    assert "\ufe0f" in text


def test_right_to_left_texts_hold_left_to_right_words() -> None:
    def classes(text: str) -> set[str]:
        return {unicodedata.bidirectional(c) for c in text}

    for text in tagged("rtl"):
        assert classes(text) & {"R", "AL"}
    for text in tagged("bidi"):
        assert classes(text) & {"R", "AL"} and {"L", "EN"} <= classes(text)
    assert ZWNJ in "".join(tagged("joiner"))
    assert any(unicodedata.category(c) == "Cf" for c in "".join(tagged("format-character")))


def test_cjk_is_there_inside_and_beyond_the_basic_plane() -> None:
    kinds = {found for text in tagged("cjk") for c in text if (found := script_of(c))}
    assert {"Han", "Hiragana", "Katakana", "Hangul"} <= kinds
    assert any(ord(c) > 0xFFFF and script_of(c) == "Han" for c in "".join(tagged("astral")))


def test_scripts_mix_within_a_prompt() -> None:
    for text in tagged("confusable"):
        assert {"Latin", "Cyrillic"} <= {script_of(c) for c in text}
    assert any(len({script_of(c) for c in text} - {None}) >= 4 for text in tagged("mixed"))


def test_texts_heavy_in_byte_pieces_take_many_bytes_a_character() -> None:
    heavy = tagged("byte-fallback")
    assert len(heavy) >= 10
    for text in heavy:
        dense = [c for c in text if len(c.encode()) >= 2]
        assert len(dense) >= 0.12 * len(text), text
    assert sum(len(t.encode()) / len(t) >= 2.2 for t in heavy) >= 5


def test_many_languages_are_asked_for() -> None:
    assert len({prompt.language.split("-")[0] for prompt in PROMPTS}) >= 20
