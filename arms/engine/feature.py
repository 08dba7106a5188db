"""A feature draft as an engine: one decoder layer on its champion's hidden states, its head some of the champion's.

Place x of its cache holds what was made of the pair (state of token x, token x + 1); the row that comes out predicts
token x + 2. The state is the champion's last one and, in a draft with `inner_layers`, those of some layers before it
(after EAGLE-3, arXiv:2503.01840); the draft's own estimates stand for the last one alone. The file
(`arms/distill/export.py`) holds the layer and the list of head rows; embedding and head stay in the champion's file,
to whose hash the draft is bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from . import _native
from .contract import CacheMisuse, Logits, NonFinite, Rows
from .draft_keys import CHAMPION_SHA256, FEATURE_ARCHITECTURE, HEAD_ROWS, HEAD_TYPE, INNER_LAYERS
from .engine import ROW_CODES, Hidden, NativeEngine, NativeTransaction
from .gguf import LOADABLE_TYPES, GgufFile
from .hyperparameters import Hyperparameters, Keys, UnsupportedModel, output_ids
from .requantise import FOUR_BITS, to_four_bits

TENSORS = ("fusion.weight", "feature_norm.weight", "embedding_norm.weight", "output_norm.weight")


class FeatureEngine(NativeEngine):
    """Step with `draft`; the calls of the contract that take tokens alone do not apply and raise."""

    @classmethod
    def over(cls, file: GgufFile, champion: NativeEngine) -> FeatureEngine:
        """Load a feature draft for ``champion``, on its threads and kernels.

        Raises UnsupportedModel for a file that is no such draft, is malformed, or was made for another champion.
        """
        if file.architecture != FEATURE_ARCHITECTURE:
            raise UnsupportedModel(f"{file.path}: architecture {file.architecture[:40]!r} is no feature draft")
        bound = file.metadata.get(CHAMPION_SHA256)
        if bound != champion.file.sha256:
            raise UnsupportedModel(
                f"{file.path} was made for the champion with sha256 {str(bound)[:12]}…, not for {champion.file.path} "
                f"({champion.file.sha256[:12]}…); use the draft with its own champion or distill one for this"
            )
        sizes, rows = _sizes(file, champion.sizes)
        buffer, tensors = _with_head(file, champion.file, rows)
        try:
            native = _native.Engine(
                buffer, sizes.sizes(), tensors, champion.threads, champion.kernel, False, champion.native
            )
        except ValueError as error:
            raise UnsupportedModel(f"{file.path}: {error}") from error
        return cls(file, sizes, native, champion.identity.tokenizer_sha256)

    @cached_property
    def inner_layers(self) -> tuple[int, ...]:
        """Layers of the champion whose states it is fed beside the last one."""
        return tuple(self.file.metadata.get(INNER_LAYERS, ()))

    @property
    def state_width(self) -> int:
        """Of what `draft` takes for a state of the champion."""
        return self.hidden_width * (1 + self.sizes.inner_states)

    def state_rows(self, n: int) -> Hidden:
        """Room for n states of the champion, of any content; pages become real as they are written."""
        return _native.rows(n, self.state_width)

    @cached_property
    def output_ids(self) -> list[int] | None:
        return output_ids(self.file, HEAD_ROWS, self.vocabulary)

    def draft(
        self, tx: NativeTransaction, features: Hidden, tokens: Sequence[int], rows: Rows = "last"
    ) -> tuple[Logits, Hidden]:
        """Append the pairs (features[i], tokens[i]); logits [n_rows, head rows] and the draft's own states [n, d].

        features: float32 [n, d], estimates, or [n, state_width], the champion's. Raises CacheMisuse, ContextFull,
        NonFinite, ValueError as the contract's calls do.
        """
        ids = self._checked(tx, tokens)
        given = np.ascontiguousarray(features, np.float32)
        wanted = {"all": len(ids), "last": 1, "none": 0}[rows]
        logits = np.empty((wanted, self.sizes.outputs), np.float32)
        states = np.empty((len(ids), self.hidden_width), np.float32)
        start = tx.cache.length + tx.appended
        if not self.native.forward_features(tx.cache.native, start, ids, given, ROW_CODES[rows], logits, states):
            self.non_finite = True
            tx.failed = True
            raise NonFinite("the draft's forward pass met NaN or infinity; roll the transaction back")
        tx.appended += len(ids)
        return logits, states

    def _forward(
        self,
        items: Sequence[tuple[NativeTransaction, Sequence[int]]],
        rows: Rows,
        hidden: bool,
        layers: Sequence[int] = (),
    ) -> tuple[Logits, Hidden]:
        raise CacheMisuse("a feature draft sees its champion's states: step it with draft()")


def _sizes(file: GgufFile, champion: Hyperparameters) -> tuple[Hyperparameters, list[int]]:
    for name, tensor in file.tensors.items():
        if tensor.type not in LOADABLE_TYPES:
            raise UnsupportedModel(f"{file.path}: tensor {name[:80]!r} has type {tensor.type}, which is not supported")
    missing = [name for name in TENSORS if name not in file.tensors]
    if missing:
        raise UnsupportedModel(f"{file.path}: tensor {missing[0]} is missing")
    rows = output_ids(file, HEAD_ROWS, champion.vocabulary)
    if rows is None:
        raise UnsupportedModel(f"{file.path}: {HEAD_ROWS} is missing")
    keys = Keys(file)
    width, heads = keys.count("embedding_length"), keys.count("attention.head_count")
    kv_heads = keys.count("attention.head_count_kv", heads)
    if width != champion.width:
        raise keys.fail("embedding_length", f"is {width} and the champion's {champion.width}")
    if heads % kv_heads or width % heads or keys.count("block_count") != 1:
        raise keys.fail("attention.head_count", "does not fit the width, or there is more than one block")
    rope_dims = keys.count("rope.dimension_count", width // heads)
    sizes = Hyperparameters(
        vocabulary=champion.vocabulary,
        width=width,
        layers=1,
        heads=heads,
        kv_heads=kv_heads,
        head_dims=width // heads,
        feed_forward=keys.count("feed_forward_length"),
        rope_dims=rope_dims,
        rope_base=keys.real("rope.freq_base", 10000.0, 1.0, 1e12),
        rope_scale=1.0,
        epsilon=keys.real("attention.layer_norm_rms_epsilon", 1e-5, 0.0, 1.0),
        context=min(keys.count("context_length"), champion.context),
        outputs=len(rows),
        feature=1,
        inner_states=_inner_states(file, champion.layers),
    )
    return sizes, rows


def _inner_states(file: GgufFile, layers: int) -> int:
    named = file.metadata.get(INNER_LAYERS, [])
    whole = isinstance(named, list) and all(type(layer) is int and 0 <= layer < layers for layer in named)
    if not whole or named != sorted(set(named)):
        raise UnsupportedModel(
            f"{file.path}: {INNER_LAYERS} is {str(named)[:60]}, not ascending layers of a champion with {layers}"
        )
    return len(named)


def _with_head(
    file: GgufFile, champion: GgufFile, rows: list[int]
) -> tuple[npt.NDArray[np.uint8], dict[str, tuple[str, int, int, int]]]:
    """The draft's bytes with the chosen rows of the champion's head behind them, and where every tensor lies."""
    head = champion.tensors.get("output.weight") or champion.tensors["token_embd.weight"]
    whole = np.frombuffer(champion.data(head.name), np.uint8).reshape(head.shape[0], -1)
    kept, kind = whole[np.array(rows)], head.type
    wanted = file.metadata.get(HEAD_TYPE)
    if wanted not in (None, FOUR_BITS):
        raise UnsupportedModel(f"{file.path}: {HEAD_TYPE} is {str(wanted)[:40]!r}; known: {FOUR_BITS}")
    if wanted and not kind.startswith("Q4"):
        try:
            kept, kind = to_four_bits(kept, kind, head.shape[-1]), FOUR_BITS
        except ValueError as error:
            raise UnsupportedModel(f"{file.path}: {HEAD_TYPE} does not fit the champion's head: {error}") from error
    own = np.frombuffer(file.map, np.uint8)
    pad = -len(own) % 64
    buffer = np.concatenate((own, np.zeros(pad, np.uint8), kept.ravel()))
    tensors = {
        name: (t.type, t.shape[0] if len(t.shape) > 1 else 1, t.shape[-1], t.offset) for name, t in file.tensors.items()
    }
    tensors["output.weight"] = (kind, len(rows), head.shape[-1], len(own) + pad)
    return buffer, tensors
