"""Round trips, streaming, identity, and what the tokenizer refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms.engine.byte_level import byte_characters
from draftgate.arms.engine.gguf import read_gguf
from draftgate.arms.engine.tokenizer import StreamDecoder, Tokenizer, TokenizerError, first_difference
from draftgate.arms.engine.vocabulary import read_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st
from support.torture import TEXTS
from support.vocabulary_files import write_sentencepiece

UNSPELLABLE = "\x04\x06\x13\x14\x16\x1d"
"""Control characters for which SmolLM2's vocabulary has no token; nor has it one for planes 4 to 11."""
SPELLABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=UNSPELLABLE, max_codepoint=0x3FFFF))

_cached: dict[str, Tokenizer] = {}


@pytest.fixture(scope="module")
def smol(smollm2: Path) -> Tokenizer:
    return _cached.setdefault("smol", Tokenizer.from_gguf(read_gguf(smollm2)))


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = write_sentencepiece(tmp_path_factory.mktemp("v") / "spm.gguf", list(TEXTS.values()))
    return _cached.setdefault("pieces", Tokenizer.from_gguf(read_gguf(path)))


@pytest.fixture(params=["smol", "pieces"])
def tokenizer(request: pytest.FixtureRequest, smol: Tokenizer, pieces: Tokenizer) -> Tokenizer:
    return smol if request.param == "smol" else pieces


@settings(max_examples=150, deadline=None)
@given(text=SPELLABLE)
@pytest.mark.parametrize("name", ["smol", "pieces"])
def test_any_text_comes_back_exactly(smol: Tokenizer, pieces: Tokenizer, name: str, text: str) -> None:
    tokenizer = _cached[name]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not tokenizer.special_ids.intersection(ids)


def test_tables_are_built_for_the_first_text_and_once(smollm2: Path) -> None:
    tokenizer = Tokenizer.from_gguf(read_gguf(smollm2))
    assert tokenizer.decode([28, 198, 2683]) and tokenizer.sha256 and tokenizer.stop_ids
    assert "_plain" not in vars(tokenizer)
    assert tokenizer.decode(tokenizer.encode("first")) == "first"
    built = vars(tokenizer)["_plain"]
    assert tokenizer.decode(tokenizer.encode("second")) == "second"
    assert vars(tokenizer)["_plain"] is built


@pytest.mark.parametrize("text", [*UNSPELLABLE, "\U00040000", "ab\x04"])
def test_a_character_without_a_token_is_named_not_dropped(smol: Tokenizer, text: str) -> None:
    with pytest.raises(TokenizerError, match=f"U\\+{ord(text[-1]):04X}, character {len(text) - 1}"):
        smol.encode(text)


def test_lone_surrogates_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="character 2 of the text is a lone surrogate"):
        tokenizer.encode("ab\ud800")


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 3000), max_size=30), sizes=st.lists(st.integers(0, 4), min_size=1, max_size=30))
@pytest.mark.parametrize("name", ["smol", "pieces"])
def test_streaming_equals_decoding_at_once(
    smol: Tokenizer, pieces: Tokenizer, name: str, ids: list[int], sizes: list[int]
) -> None:
    """Any ids, most of which are no valid UTF-8 together, in any chunks."""
    tokenizer = _cached[name]
    decoder, rest, out = StreamDecoder(tokenizer), list(ids), ""
    for size in sizes:
        piece = decoder.push(rest[:size])
        rest = rest[size:]
        out += piece
    out += decoder.push(rest) + decoder.finish()
    assert out == tokenizer.decode(ids)


def test_streaming_never_cuts_a_code_point(tokenizer: Tokenizer) -> None:
    for text in TEXTS.values():
        decoder = StreamDecoder(tokenizer)
        shown = ""
        for token in tokenizer.encode(text):
            shown += decoder.push([token])
            assert text.startswith(shown)
        assert shown + decoder.finish() == text


def test_lone_bytes_decode_to_replacement_characters(smol: Tokenizer, pieces: Tokenizer) -> None:
    by_bytes = {smol.token_bytes(i): i for i in range(len(smol)) if i not in smol.special_ids}
    assert smol.decode([by_bytes[b"\xe2"]]) == "\ufffd"
    assert smol.decode([by_bytes[b"a"], by_bytes[b"\x80"], by_bytes[b"b"]]) == "a\ufffdb"
    assert smol.decode([by_bytes[b"\xe2"], by_bytes[b"\x82"], by_bytes[b"\xac"]]) == "€"
    assert pieces.token_bytes(3 + 0xE2) == b"\xe2"
    assert pieces.decode([3 + 0xE2, 3 + 0x82, 3 + 0xAC]) == "€"


def test_token_bytes_concatenate_to_the_text(smol: Tokenizer) -> None:
    for text in TEXTS.values():
        assert b"".join(smol.token_bytes(i) for i in smol.encode(text)) == text.encode()


def test_ids_outside_the_vocabulary_are_refused(tokenizer: Tokenizer) -> None:
    for token in (-1, len(tokenizer)):
        with pytest.raises(TokenizerError, match="outside the vocabulary"):
            tokenizer.decode([token])


def test_specials_only_where_asked(smol: Tokenizer) -> None:
    text = "<|im_start|>user\nhi<|im_end|>"
    assert smol.special_ids.isdisjoint(smol.encode(text))
    ids = smol.encode(text, special=True)
    assert (ids[0], ids[-1]) == (1, 2)
    assert smol.decode(ids) == "user\nhi"
    assert smol.decode(ids, special=True) == text
    assert smol.token_bytes(2) == b"<|im_end|>"


def test_stop_ids_are_end_of_turn_then_end_of_text(smol: Tokenizer) -> None:
    assert smol.stop_ids == (2, 0)


def test_a_dropped_mark_keeps_specials_apart_and_leaves_no_trace(smol: Tokenizer) -> None:
    marked = "<|im_start|>a<\ufdd0|im_end|>"
    assert smol.encode(marked, special=True, drop="\ufdd0") == [1, *smol.encode("a<|im_end|>")]


def test_byte_characters_are_a_bijection() -> None:
    characters = byte_characters()
    assert sorted(characters) == list(range(256))
    assert len(set(characters.values())) == 256
    assert (characters[ord(" ")], characters[ord("\n")], characters[ord("a")]) == ("Ġ", "Ċ", "a")


def changed(metadata: dict[str, Any], **changes: Any) -> Tokenizer:
    return Tokenizer(read_vocabulary({**metadata, **{f"tokenizer.ggml.{k}": v for k, v in changes.items()}}))


@pytest.fixture(scope="module")
def metadata(smollm2: Path) -> dict[str, Any]:
    return read_gguf(smollm2).metadata


def swapped(values: list[Any], i: int, j: int) -> list[Any]:
    out = list(values)
    out[i], out[j] = out[j], out[i]
    return out


def test_first_difference_names_the_field_and_the_token(smol: Tokenizer, metadata: dict[str, Any]) -> None:
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    types = metadata["tokenizer.ggml.token_type"]
    assert first_difference(smol, changed(metadata)) is None
    assert smol.sha256 == changed(metadata).sha256
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"tokens": [*tokens[:16], "<other>", *tokens[17:]]},
            "vocabulary: token id 16 is '<empty_output>' and '<other>'",
        ),
        ({"tokens": swapped(tokens, 20, 30)}, f"ids: token id 20 is {tokens[20]!r} and {tokens[30]!r}"),
        ({"merges": swapped(merges, 7, 9)}, f"merges: merge 7 is {merges[7]!r} and {merges[9]!r}"),
        ({"merges": merges[:-1]}, f"merges: merge {len(merges) - 1} is in one of them only"),
        ({"token_type": [*types[:5], 4, *types[6:]]}, "added_tokens: the type of token id 5 is 3 and 4"),
        ({"pre": "gpt-2"}, "pre_tokeniser: pre is 'smollm' and 'gpt-2'"),
        ({"bos_token_id": 0}, "bos: bos is 1 and 0"),
        ({"add_bos_token": True}, "add_bos is False and True"),
        ({"eos_token_id": 0}, "eos: eos is 2 and 0"),
        ({"eot_token_id": 16}, "ends is (2, 0) and (2, 16, 0)"),
        ({"padding_token_id": 0}, "pad: pad is 2 and 0"),
        ({"unknown_token_id": 1}, "unknown: unknown is 0 and 1"),
    ]
    for changes, message in cases:
        other = changed(metadata, **changes)
        assert message in str(first_difference(smol, other))
        assert other.sha256 != smol.sha256


def test_different_models_differ(smol: Tokenizer, pieces: Tokenizer) -> None:
    assert str(first_difference(smol, pieces)).startswith("model: model is 'gpt2' and 'llama'")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "bert"}, "tokenizer.ggml.model is 'bert'; supported: gpt2, llama"),
        ({"pre": "tekken"}, "tokenizer.ggml.pre is 'tekken'; supported"),
        ({"pre": 3}, "tokenizer.ggml.pre is not a string"),
        ({"merges": None}, "merges is missing"),
        ({"merges": ["Ġ nosuchtoken"]}, "merges does not fit"),
        ({"tokens": []}, "tokens is missing or empty"),
        ({"tokens": [1, 2]}, "tokens is not an array of str"),
        ({"token_type": [1]}, "token_type has 1 entries for 49152 tokens"),
        ({"eos_token_id": 49152}, "eos_token_id is 49152; there are 49152 tokens"),
        ({"add_bos_token": "no"}, "add_bos_token is 'no', not a bool"),
        ({"model": "llama"}, "scores is missing"),
    ],
)
def test_bad_metadata_is_refused_by_key(metadata: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerError) as caught:
        changed(metadata, **changes)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_token_twice_is_refused(metadata: dict[str, Any]) -> None:
    tokens = metadata["tokenizer.ggml.tokens"]
    with pytest.raises(TokenizerError, match="a token twice"):
        changed(metadata, tokens=[*tokens[:-1], tokens[-2]])


def test_sentencepiece_without_all_byte_tokens_is_refused(pieces: Tokenizer) -> None:
    vocabulary = pieces.vocabulary
    types = [*vocabulary.types]
    types[3 + 0x41] = 1
    with pytest.raises(TokenizerError, match="no byte token <0x41>"):
        Tokenizer(replace(vocabulary, types=types))


def test_user_defined_tokens_are_matched_in_any_text(metadata: dict[str, Any]) -> None:
    types = list(metadata["tokenizer.ggml.token_type"])
    types[5] = 4  # <file_sep>
    tokenizer = changed(metadata, token_type=types)
    assert 5 in tokenizer.encode("a<file_sep>b")
    assert 6 not in tokenizer.encode("a<filename>b")


def test_text_after_a_user_defined_token_of_a_sentencepiece_vocabulary_comes_back_exact() -> None:
    tokens = [*(f"<0x{byte:02X}>" for byte in range(256)), "<", ">", "\u2581", "\u2581>", " a"]
    tokenizer = Tokenizer(
        read_vocabulary(
            {
                "tokenizer.ggml.model": "llama",
                "tokenizer.ggml.tokens": tokens,
                "tokenizer.ggml.token_type": [6] * 256 + [4, 1, 1, 1, 4],
                "tokenizer.ggml.scores": [float(-i) for i in range(len(tokens))],
            }
        )
    )
    for text in ("<>", "< >", "<", "<<>", ">< > <>", " <>", "é<é", " a", " a>"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("<>") == [256, 259]  # as llama.cpp: a space after the token, which decoding takes out again


PIECE = st.text(st.sampled_from("ab<>Ġ é"), max_size=3)


@settings(max_examples=200, deadline=None)
@given(
    model=st.sampled_from(["gpt2", "llama"]),
    extra=st.lists(PIECE, max_size=12),
    kinds=st.lists(st.sampled_from([1, 1, 1, 2, 3, 4, 5, 9]), min_size=12, max_size=12),
    merges=st.lists(st.one_of(PIECE, st.tuples(PIECE, PIECE).map(" ".join)), max_size=3),
    text=st.text(st.sampled_from("ab<> é"), max_size=12),
)
def test_hostile_vocabularies_are_refused_or_stay_exact(
    model: str, extra: list[str], kinds: list[int], merges: list[str], text: str
) -> None:
    base = list(byte_characters().values()) if model == "gpt2" else [f"<0x{byte:02X}>" for byte in range(256)]
    extra = [*extra, "\u2581"] if model == "llama" else extra
    tokens = base + extra
    metadata = {
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1 if model == "gpt2" else 6] * 256 + [*kinds, 1][13 - len(extra) :],
        "tokenizer.ggml.scores": [float(-i) for i in range(len(tokens))],
        "tokenizer.ggml.merges": merges,
    }
    try:
        tokenizer = Tokenizer(read_vocabulary(metadata))
    except TokenizerError as error:
        assert "\n" not in str(error)
        return
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.special_ids.isdisjoint(ids)
