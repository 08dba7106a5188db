"""Byte-level BPE: the map between bytes and printable characters, and the pre-tokenisers by the name GGUF files use."""

from __future__ import annotations

from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from .vocabulary import NORMAL, TokenizerError, Vocabulary

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

PRE_TOKENISERS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "smollm": (r"\p{N}", _GPT2),
    "starcoder": (r"\p{N}", _GPT2),
    "refact": (r"\p{N}", _GPT2),
    "command-r": (r"\p{N}", _GPT2),
    "gpt-2": (_GPT2,),
    "olmo": (_GPT2,),
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "llama-v3": (_LLAMA3,),
    "falcon3": (_LLAMA3,),
    "dbrx": (_LLAMA3,),
    "smaug-bpe": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "stablelm2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
}
"""Name -> the patterns that cut a text, applied one after the other. Each name was compared with llama.cpp on the
torture list; a name that is not here is refused."""

IGNORE_MERGES = ("llama-bpe", "llama3", "llama-v3", "falcon3")
"""A piece that is itself a token is taken whole, without replaying merges."""


def byte_characters() -> dict[int, str]:
    """Byte -> the character that stands for it: itself where printable, else the next free one from U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    characters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + len(characters) - len(printable))
    return characters


def check(vocabulary: Vocabulary) -> None:
    """Whether `build` can be exact about this vocabulary. Raises TokenizerError by name."""
    if vocabulary.pre not in PRE_TOKENISERS:
        known = ", ".join(sorted(PRE_TOKENISERS))
        raise TokenizerError(f"tokenizer.ggml.pre is {vocabulary.pre[:80]!r}; supported: {known}")
    plain = set(vocabulary.tokens)
    if len(plain) != len(vocabulary.tokens):
        raise TokenizerError("tokenizer.ggml.tokens holds a token twice")
    plain.difference_update(vocabulary.specials.values())
    for i, merge in enumerate(vocabulary.merges or []):  # the library panics on some of these
        left, _, right = merge.partition(" ")
        if not (left and right and left in plain and right in plain and left + right in plain):
            pair = f"merge {i} joins {left[:40]!r} and {right[:40]!r}"
            raise TokenizerError(f"tokenizer.ggml.merges does not fit tokenizer.ggml.tokens: {pair}")


def build(vocabulary: Vocabulary) -> Tokenizer:
    """The `tokenizers` object for plain text, no added tokens, no specials, of a vocabulary that `check` has passed."""
    # Without the special tokens, so that text never spells one.
    plain = {text: i for text, i in vocabulary.ids().items() if i not in vocabulary.specials}
    merges = [merge.partition(" ")[::2] for merge in vocabulary.merges or []]
    model = models.BPE(vocab=plain, merges=merges, ignore_merges=vocabulary.pre in IGNORE_MERGES)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = _pre_tokeniser(vocabulary.pre)
    return tokenizer


def _pre_tokeniser(name: str) -> Any:
    cuts = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in PRE_TOKENISERS[name]]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def missing_bytes(vocabulary: Vocabulary) -> frozenset[int]:
    """Bytes the vocabulary has no token for: texts that need one of them cannot be spelled."""
    spelled = set(byte_characters().values()).intersection(vocabulary.tokens)
    return frozenset(byte for byte, character in byte_characters().items() if character not in spelled)


def token_bytes(vocabulary: Vocabulary) -> list[bytes]:
    """id -> the bytes it stands for: mapped back for normal tokens, the literal text for all others."""
    back = {ord(character): byte for byte, character in byte_characters().items()}
    latin = {code: chr(byte) for code, byte in back.items()}
    spelled: list[bytes] = []
    for text, kind in zip(vocabulary.tokens, vocabulary.types, strict=True):
        if kind == NORMAL:
            try:
                spelled.append(text.translate(latin).encode("latin-1"))
                continue
            except UnicodeEncodeError:  # a character outside the map: only the literal text is left
                pass
        spelled.append(text.encode("utf-8"))
    return spelled
