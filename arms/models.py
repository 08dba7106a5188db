"""Models by name or path: find, fetch, load, and turn conversations into token ids."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bundled_models import BUNDLED, bundled, require_receipt
from .engine.draft_keys import FEATURE_ARCHITECTURE, TOKENIZER_SHA256
from .engine.gguf import GgufError, GgufFile, read_gguf
from .engine.hyperparameters import UnsupportedModel
from .engine.template import ChatTemplate, TemplateError, choose_mark, mark_specials
from .engine.tokenizer import Tokenizer
from .errors import ArmError
from .model_cache import cached_path, fetch, is_cached
from .model_info import ModelInfo, describe
from .model_registry import REGISTRY

if TYPE_CHECKING:
    from .engine.engine import NativeEngine

PROBE = "draftgateanswer"
"""Stands for an earlier answer when the text between two turns is looked for."""


FIRST_WORDS = ("a", "Z", "1", "!", "é", " b", "\nc")
"""Beginnings of several kinds: a tokenizer that joins one of them to what stands before it does not so join them all.
What they have in common bounds what a prefix cache may keep; the cache compares the tokens themselves."""


def names() -> list[str]:
    """Every name `resolve` knows: bundled first, then registered."""
    return [*bundled(), *REGISTRY]


def resolve(name_or_path: str | Path) -> Path:
    """The file behind a path or a name; downloads nothing.

    Raises ArmError for an unknown name, a missing file, or a registered model that has not been pulled.
    """
    text = str(name_or_path)
    by_name = _by_name(text)
    if by_name is not None:
        return by_name
    if text in REGISTRY:
        raise ArmError(f"model {text} is not on this machine; get it with: draftgate models pull {text}")
    if text in BUNDLED:
        raise ArmError(f"model {text} comes with draftgate, but this installation lacks it; install draftgate again")
    path = Path(text).expanduser()
    if path.exists():
        return path
    if isinstance(name_or_path, Path) or not re.fullmatch(r"[A-Za-z0-9._-]+", text) or text.endswith(".gguf"):
        raise ArmError(f"{text}: no such model file")
    raise ArmError(f"no model named {text!r}; known names: {', '.join(names())}; or give the path of a GGUF file")


def pull(name_or_path: str | Path) -> Path:
    """Make a model available: download a registered one unless it is here and whole, else as `resolve`.

    Raises IntegrityError (exit code 5) when other bytes arrive than the registry pins, ArmError otherwise.
    """
    text = str(name_or_path)
    return fetch(REGISTRY[text]) if text in REGISTRY else resolve(name_or_path)


def _by_name(name: str) -> Path | None:
    """A name wins over a file of the same name in the current folder: a plan must mean the same everywhere."""
    if name in REGISTRY:
        return cached_path(REGISTRY[name]) if is_cached(REGISTRY[name]) else None
    return bundled().get(name) if re.fullmatch(r"[A-Za-z0-9._-]+", name) else None


@dataclass(frozen=True)
class Model:
    """A loaded model. `engine` computes, `tokenizer` and `template` speak."""

    engine: NativeEngine
    tokenizer: Tokenizer
    template: ChatTemplate | None
    file: GgufFile

    @cached_property
    def info(self) -> ModelInfo:
        return describe(self.file)

    def encode_chat(self, messages: Iterable[Any], add_generation_prompt: bool = True) -> list[int]:
        """Ids of a conversation, rendered by the model's own template.

        ``messages``: mappings or objects with ``role`` and ``content``. Special tokens that the template writes become
        special tokens; the same characters in a message stay text. Raises TemplateError, TokenizerError.
        """
        text, mark = self._rendered(messages, add_generation_prompt)
        ids = self.tokenizer.encode(text, special=True, drop=mark)
        return self._with_bos(ids)

    def encode_turn(self, messages: Iterable[Any]) -> list[int]:
        """Ids to append for the next turn, after an answer that ended with its stop token.

        What the template writes after an answer's stop token, the new messages, and the generation prompt. Raises
        TemplateError when the template does not put a stop token after an answer.
        """
        history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": PROBE}]
        text, mark = self._rendered([*history, *_plain(messages)], add_generation_prompt=True)
        _, found, tail = text.partition(PROBE)
        stops = [self.tokenizer.vocabulary.tokens[i] for i in self.tokenizer.stop_ids]
        rest = tail.lstrip()
        stop = next((stop for stop in stops if rest.startswith(stop)), None)
        if not found or stop is None:
            raise TemplateError("the chat template puts no stop token after an answer; later turns cannot be appended")
        return self.tokenizer.encode(rest[len(stop) :], special=True, drop=mark)

    def preamble(self) -> list[int]:
        """Ids that the template puts before the first words of every conversation; none without a usable template."""
        try:
            rows = [self.encode_chat([{"role": "user", "content": words}]) for words in FIRST_WORDS]
        except TemplateError:
            return []
        return [column[0] for column in itertools.takewhile(lambda c: len(set(c)) == 1, zip(*rows, strict=False))]

    def encode_raw(self, text: str) -> list[int]:
        """Ids of a prompt without a template; starts with the beginning-of-sequence token where the model wants one."""
        return self._with_bos(self.tokenizer.encode(text))

    def _with_bos(self, ids: list[int]) -> list[int]:
        vocabulary = self.tokenizer.vocabulary
        if not vocabulary.add_bos or vocabulary.bos is None or ids[:1] == [vocabulary.bos]:
            return ids
        return [vocabulary.bos, *ids]

    def _rendered(self, messages: Iterable[Any], add_generation_prompt: bool) -> tuple[str, str]:
        """Text, and the mark that has to be dropped from it."""
        if self.template is None:
            raise TemplateError(f"{self.file.path} has no chat template; use raw prompts with this model")
        plain = _plain(messages)
        mark = choose_mark([self.template.source, *(value for message in plain for value in message.values())])
        specials = self.tokenizer.vocabulary.specials.values()
        marked = [{key: mark_specials(value, specials, mark) for key, value in message.items()} for message in plain]
        return self.template.render(marked, add_generation_prompt), mark


def _plain(messages: Iterable[Any]) -> list[dict[str, str]]:
    plain = []
    for message in messages:
        if isinstance(message, Mapping):
            fields = dict(message)
        else:
            fields = {"role": message.role, "content": message.content}
        if not isinstance(fields.get("role"), str) or not isinstance(fields.get("content"), str):
            raise TemplateError("a message needs a role and a content, both text")
        plain.append({key: value for key, value in fields.items() if isinstance(value, str)})
    return plain


def load_template(file: GgufFile, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The file's chat template in the sandbox, None where it has none. Raises TemplateError."""
    source = file.metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    if not isinstance(source, str):
        raise TemplateError(f"{file.path}: tokenizer.chat_template is not a string")
    vocabulary = tokenizer.vocabulary
    bos = vocabulary.tokens[vocabulary.bos] if vocabulary.bos is not None else ""
    eos = vocabulary.tokens[vocabulary.eos] if vocabulary.eos is not None else ""
    try:
        return ChatTemplate(source, bos, eos)
    except TemplateError as error:
        raise TemplateError(f"{file.path}: {error}") from error


def load_model(path_or_name: str | Path, *, threads: int | None = None, kernel: str | None = None) -> Model:
    """Read, check and load a model for the bundled engine; downloads nothing.

    ``threads``: None lets the engine choose. ``kernel``: ``portable``, ``avx2`` or ``avx512`` to force one. Raises
    ArmError and its kinds (GgufError, TokenizerError, TemplateError), each naming the file and what is wrong, and
    IntegrityError (exit code 5) for a bundled file that is not the one its receipt describes.
    """
    from .engine.engine import NativeEngine

    file = read_gguf(resolve(path_or_name))
    require_receipt(file)
    file.require_loadable()
    tokenizer = Tokenizer.from_gguf(file)
    template = load_template(file, tokenizer)
    engine = NativeEngine.load(file, threads=threads, kernel=kernel, tokenizer_sha256=tokenizer.sha256)
    if engine.vocabulary != len(tokenizer):
        raise GgufError(f"{file.path}: the weights have {engine.vocabulary} tokens and the tokenizer {len(tokenizer)}")
    return Model(engine, tokenizer, template, file)


def load_draft(
    path_or_name: str | Path, champion: Model, *, threads: int | None = None, kernel: str | None = None
) -> Model:
    """A draft of either kind for ``champion``: a model of its own, or a feature draft on the champion's hidden states.

    Raises as `load_model`, and UnsupportedModel for a feature draft made for another champion or tokenizer.
    """
    from .engine.feature import FeatureEngine

    file = read_gguf(resolve(path_or_name))
    if file.architecture != FEATURE_ARCHITECTURE:
        return load_model(path_or_name, threads=threads, kernel=kernel)
    require_receipt(file)
    spoken = file.metadata.get(TOKENIZER_SHA256)
    if spoken is not None and spoken != champion.tokenizer.sha256:
        raise UnsupportedModel(
            f"{file.path}: made for a tokenizer with sha256 {str(spoken)[:12]}…, the champion's has "
            f"{champion.tokenizer.sha256[:12]}…; distill a draft for this champion"
        )
    return Model(FeatureEngine.over(file, champion.engine), champion.tokenizer, champion.template, file)
