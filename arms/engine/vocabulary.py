"""What a GGUF says about its tokenizer, checked, and the hashes that say whether two tokenizers are the same."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import ArmError
from .string_array import StringArray

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Token types as GGUF stores them."""

MODELS = ("gpt2", "llama")
"""Byte-level BPE with ranked merges; SentencePiece BPE with scores. Others are refused by name."""

END_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>")
"""Control tokens that end an answer whatever else the file says, as other GGUF readers also treat them."""


class TokenizerError(ArmError):
    """A tokenizer that cannot be built or a text it cannot spell: which, where, what to do."""


@dataclass(frozen=True)
class Vocabulary:
    model: str
    pre: str
    tokens: Sequence[str]
    types: list[int]
    scores: list[float] | None
    merges: Sequence[str] | None
    bos: int | None
    eos: int | None
    pad: int | None
    unknown: int | None
    ends: tuple[int, ...]
    """Ids that end an answer: end of sequence first, then end of turn, then those known by their text."""
    add_bos: bool
    """Whether a raw prompt starts with the beginning-of-sequence token."""
    add_space_prefix: bool
    """SentencePiece: a text, and a text after a special token, starts with a space of the tokenizer's own."""

    def ids(self) -> dict[str, int]:
        """Token text -> id; made anew with every call, as only the building of a tokenizer needs it."""
        return {text: i for i, text in enumerate(self.tokens)}

    @cached_property
    def specials(self) -> dict[int, str]:
        """Tokens that user text must never turn into: control and unknown tokens."""
        marked = {i for i in (self.bos, self.eos, self.pad, self.unknown, *self.ends) if i is not None}
        return {
            i: self.tokens[i]
            for i, kind in enumerate(self.types)
            if kind in (CONTROL, UNKNOWN) or (i in marked and kind == USER_DEFINED)
        }

    @cached_property
    def user_defined(self) -> dict[int, str]:
        """Tokens matched whole in any text, before the pre-tokeniser (long runs of spaces, for example)."""
        return {
            i: self.tokens[i] for i, kind in enumerate(self.types) if kind == USER_DEFINED and i not in self.specials
        }

    @cached_property
    def identity(self) -> dict[str, str]:
        """Field -> sha256 of its content. Equal tokenizers have equal fields; compared in this order."""
        added = [(i, self.tokens[i], kind) for i, kind in enumerate(self.types) if kind != NORMAL]
        fields: dict[str, Any] = {
            "model": self.model,
            "vocabulary": sorted(self.tokens),
            "ids": self.tokens,
            "merges": self.merges,
            "scores": None if self.model == "gpt2" else self.scores,
            "added_tokens": added,
            "normaliser": {"add_space_prefix": self.model == "llama" and self.add_space_prefix},
            "pre_tokeniser": self.pre,
            "byte_fallback": self.model == "llama",
            "unknown": self.unknown,
            "bos": [self.bos, self.add_bos],
            "eos": [self.eos, list(self.ends)],
            "pad": self.pad,
        }
        return {name: _digest(value) for name, value in fields.items()}

    @cached_property
    def sha256(self) -> str:
        return _digest(self.identity)


def read_vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """Check the ``tokenizer.ggml.*`` keys of a GGUF. Raises TokenizerError naming the key at fault."""
    model = metadata.get("tokenizer.ggml.model")
    if model not in MODELS:
        raise TokenizerError(f"tokenizer.ggml.model is {_short(model)}; supported: {', '.join(MODELS)}")
    tokens = _strings(metadata, "tokens")
    if not tokens:
        raise TokenizerError("tokenizer.ggml.tokens is missing or empty")
    count = len(tokens)
    types = _array(metadata, "token_type", int) or [NORMAL] * count
    scores = _array(metadata, "scores", float)
    merges = _strings(metadata, "merges")
    for name, values in (("token_type", types), ("scores", scores)):
        if values is not None and len(values) != count:
            raise TokenizerError(f"tokenizer.ggml.{name} has {len(values)} entries for {count} tokens")
    if model == "gpt2" and merges is None:
        raise TokenizerError("tokenizer.ggml.merges is missing, and model 'gpt2' needs it")
    if model == "llama" and scores is None:
        raise TokenizerError("tokenizer.ggml.scores is missing, and model 'llama' needs it")
    if scores is not None and not all(map(math.isfinite, scores)):
        raise TokenizerError("tokenizer.ggml.scores holds a value that is not finite")
    single = {name: _token(metadata, name, count) for name in ("bos", "eos", "padding", "unknown", "eot", "eom")}
    known = [i for i, text in enumerate(tokens) if text in END_OF_TURN and types[i] in (CONTROL, USER_DEFINED)]
    ends = [i for i in (single["eos"], single["eot"], single["eom"], *known) if i is not None]
    default = "default" if model == "gpt2" else "sentencepiece"
    pre = metadata.get("tokenizer.ggml.pre", default)
    if not isinstance(pre, str):
        raise TokenizerError("tokenizer.ggml.pre is not a string")
    return Vocabulary(
        model=model,
        pre=pre if model == "gpt2" else default,  # SentencePiece has no pre-tokeniser: files name one all the same
        tokens=tokens,
        types=types,
        scores=scores,
        merges=merges if model == "gpt2" else None,
        bos=single["bos"],
        eos=single["eos"],
        pad=single["padding"],
        unknown=single["unknown"],
        ends=tuple(dict.fromkeys(ends)),
        add_bos=_flag(metadata, "add_bos_token", model == "llama" or pre in ("llama-bpe", "llama3", "llama-v3")),
        add_space_prefix=_flag(metadata, "add_space_prefix", model == "llama"),
    )


def first_difference(a: Vocabulary, b: Vocabulary) -> str | None:
    """The first field in which two tokenizers differ, with the first token id at fault; None when equal."""
    ours, theirs = a.identity, b.identity
    field = next((name for name in ours if ours[name] != theirs[name]), None)
    if field is None:
        return None
    where = _where(field, a, b)
    return f"{field}: {where}" if where else field


def _where(field: str, a: Vocabulary, b: Vocabulary) -> str:
    """What exactly differs, for people."""
    if field in ("vocabulary", "ids"):
        return _first_pair("token id", a.tokens, b.tokens)
    if field == "merges":
        return _first_pair("merge", a.merges or [], b.merges or [])
    if field == "scores":
        return _first_pair("the score of token id", a.scores or [], b.scores or [])
    if field == "added_tokens":
        return _first_pair("the type of token id", a.types, b.types)
    attribute = {"pre_tokeniser": "pre", "normaliser": "add_space_prefix"}.get(field, field)
    pairs = {"bos": ("bos", "add_bos"), "eos": ("eos", "ends")}.get(field, (attribute,))
    if not all(hasattr(a, name) for name in pairs):
        return ""
    return "; ".join(f"{name} is {getattr(a, name)!r} and {getattr(b, name)!r}" for name in pairs)


def _first_pair(what: str, a: Sequence[Any], b: Sequence[Any]) -> str:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return f"{what} {i} is {x!r} and {y!r}"
    return f"{what} {min(len(a), len(b))} is in one of them only ({len(a)} and {len(b)} entries)"


def _strings(metadata: Mapping[str, Any], name: str) -> Sequence[str] | None:
    values = metadata.get(f"tokenizer.ggml.{name}")
    return values if isinstance(values, StringArray) else _array(metadata, name, str)


def _array(metadata: Mapping[str, Any], name: str, kind: type) -> list[Any] | None:
    values = metadata.get(f"tokenizer.ggml.{name}")
    if values is None:
        return None
    if not isinstance(values, list) or not set(map(type, values)) <= {kind}:
        raise TokenizerError(f"tokenizer.ggml.{name} is not an array of {kind.__name__}")
    return values


def _token(metadata: Mapping[str, Any], name: str, count: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{name}_token_id")
    if value is None or value in (-1, 0xFFFFFFFF):  # written by some converters for "none"
        return None
    if type(value) is not int or not 0 <= value < count:
        raise TokenizerError(f"tokenizer.ggml.{name}_token_id is {_short(value)}; there are {count} tokens")
    return value


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{name}", default)
    if not isinstance(value, bool):
        raise TokenizerError(f"tokenizer.ggml.{name} is {_short(value)}, not a bool")
    return value


def _short(value: object) -> str:
    return repr(value)[:80]


def _digest(value: object) -> str:
    """sha256 of a value's JSON; of a list of strings, of their lengths and characters (fast for whole vocabularies)."""
    if isinstance(value, StringArray):
        value = list(value)
    if isinstance(value, list) and set(map(type, value)) == {str}:
        lengths = array("I", map(len, value))
        if sys.byteorder == "big":
            lengths.byteswap()
        return hashlib.sha256(b"texts" + lengths.tobytes() + "".join(value).encode("utf-8")).hexdigest()
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
