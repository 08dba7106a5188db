"""The contamination check: what training must not repeat is found from hashes, and ordinary text is not accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.strata.contamination import (
    HASH_BYTES,
    STRIDE,
    N,
    contaminated,
    is_contaminated,
    ngram_hashes,
    prompt_texts,
    read_hashes,
    shipped_hashes,
    words,
    write_hashes,
)
from draftgate.strata.errors import StrataError
from draftgate.strata.load import data_folder, load_stratum, names
from hypothesis import given, settings
from hypothesis import strategies as st

ALL = [prompt for name in names() for prompt in load_stratum(name)]
SHIPPED = shipped_hashes()
VOCABULARY = [f"w{i}" for i in range(500)]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=60)


def test_the_shipped_file_is_up_to_date(tmp_path: Path) -> None:
    write_hashes(tmp_path / "h.bin", ngram_hashes(prompt_texts(ALL)))
    assert (tmp_path / "h.bin").read_bytes() == (data_folder() / "ngram_hashes.bin").read_bytes(), (
        "prompts have changed: draftgate strata hashes --out strata/data/ngram_hashes.bin"
    )


def test_every_shipped_prompt_is_found_in_a_text_that_quotes_it() -> None:
    for prompt in ALL:
        for text in prompt_texts([prompt]):
            if len(words(text)) >= 6:
                assert is_contaminated(f"As somebody wrote: {text} -- and so on.", SHIPPED), prompt.id
            elif words(text):
                assert is_contaminated(text, SHIPPED), prompt.id


@settings(max_examples=200)
@given(WORDS, WORDS, st.integers(N, 60), st.integers(N + STRIDE - 1, 40), st.integers(0, 40))
def test_any_shared_run_of_n_plus_stride_minus_one_words_is_found(
    before: list[str], after: list[str], length: int, shared: int, start: int
) -> None:
    prompt = [f"p{i}" for i in range(max(length, shared))]
    run = prompt[min(start, len(prompt) - shared) :][:shared]
    hashes = ngram_hashes([" ".join(prompt)])
    assert is_contaminated(" ".join([*before, *run, *after]), hashes)


@given(WORDS, st.integers(1, N - 1))
def test_shorter_runs_than_n_accuse_nobody(around: list[str], shared: int) -> None:
    prompt = [f"p{i}" for i in range(40)]
    hashes = ngram_hashes([" ".join(prompt)])
    assert not is_contaminated(" ".join([*around, *prompt[5 : 5 + shared], *around]), hashes)


def test_ordinary_text_is_not_accused() -> None:
    text = (
        "The bread should rest for an hour before it is shaped. Good morning! Thank you. What's up with the oven? "
        "Meanwhile the oven is heated with a tray of water at the bottom, so that the crust stays soft for long enough."
    )
    assert not is_contaminated(text, SHIPPED)
    assert not is_contaminated("", SHIPPED)


def test_case_punctuation_spacing_and_normal_form_hide_nothing() -> None:
    text = "Écris une phrase sur le goûter de Noël chez l'aînée, là où l'été paraît déjà lointain."
    import unicodedata

    disguised = unicodedata.normalize("NFD", text.upper()).replace(" ", "\n").replace(",", " --- ")
    assert contaminated(["nothing here", disguised, text], SHIPPED) == [1, 2]


def test_texts_without_spaces_are_split_into_characters() -> None:
    assert words("東京へ行くthe end") == ["東", "京", "へ", "行", "く", "the", "end"]


def test_the_file_holds_hashes_only_and_is_small() -> None:
    data = (data_folder() / "ngram_hashes.bin").read_bytes()
    assert len(data) < 300_000
    assert len(data) > len(SHIPPED) * HASH_BYTES
    assert b"lighthouse" not in data and b"the" not in data.split(b"\n", 1)[1][:4]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.bin"
    write_hashes(path, ngram_hashes(["one two three four five six seven", "a b"]))
    good = path.read_bytes()
    assert set(read_hashes(path).sizes) == {0, 7}
    for bad in (b"", b"nonsense", good[:-1], good + b"x", good[: len(good) // 2]):
        path.write_bytes(bad)
        with pytest.raises(StrataError):
            read_hashes(path)
    with pytest.raises(StrataError):
        read_hashes(tmp_path / "missing")
