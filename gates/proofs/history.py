"""What the history does to a row, once more for the auditor: bans, penalties, bias and grammar, from the tokens alone.

No state and no rollback: everything is counted afresh from the prompt and the tokens after it, so whatever an arm's
incremental state got wrong shows as a different row. The order is the declared one of `arms.processors`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .law import Logits, Masses, best, masses_of


def is_greedy(decoding: Mapping[str, Any]) -> bool:
    """Temperature 0 is greedy, by definition; a decoding that does not name one is greedy."""
    return float(decoding.get("temperature", 0.0)) == 0.0


def banned(decoding: Mapping[str, Any], prompt: Sequence[int], new: Sequence[int], stop_ids: Sequence[int]) -> set[int]:
    """Tokens that the suppress list, bad words or the minimum length forbid after ``prompt`` + ``new``."""
    out = set(decoding.get("suppress", ()))
    history = [*prompt, *new]
    for word in decoding.get("bad_words", ()):
        head = list(word[:-1])
        if not head or history[-len(head) :] == head:
            out.add(word[-1])
    if len(new) < int(decoding.get("min_new_tokens", 0)):
        out.update(stop_ids)
    return out


def allowed(grammar: Any, new: Sequence[int], stop_ids: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which tokens a compiled grammar allows after ``new``, from a state opened afresh; at least [V] long."""
    state = grammar.open()
    for token in new:
        if token not in stop_ids:
            state.push(token)
    words = np.asarray(state.mask(), dtype="<u4")
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


def only_token(
    grammar: Any, decoding: Mapping[str, Any], prompt: Sequence[int], new: Sequence[int], stop_ids: Sequence[int]
) -> int | None:
    """The one token that grammar and bans leave, or None."""
    fit = np.flatnonzero(allowed(grammar, new, stop_ids))
    if len(fit) > 64:
        return None
    left = set(fit.tolist()) - banned(decoding, prompt, new, stop_ids)
    return left.pop() if len(left) == 1 else None


def processed(
    logits: Logits,
    decoding: Mapping[str, Any],
    prompt: Sequence[int],
    new: Sequence[int],
    stop_ids: Sequence[int],
    grammar: Any | None = None,
) -> Logits:
    """Logits [V] after every processor before the temperature. ``grammar``: a compiled one, opened afresh."""
    f = np.float32
    out = np.array(logits, dtype=f)
    counts = Counter([*prompt, *new])
    ids = np.array(sorted(counts), dtype=np.int64)
    times = np.array([counts[i] for i in ids.tolist()], dtype=f)
    repetition, frequency, presence = (
        f(decoding.get(name, default))
        for name, default in (("repetition_penalty", 1.0), ("frequency_penalty", 0.0), ("presence_penalty", 0.0))
    )
    seen = out[ids]
    if repetition != 1:
        seen = np.where(seen > 0, seen / repetition, seen * repetition)
    if frequency != 0:
        seen = seen - frequency * times
    if presence != 0:
        seen = seen - presence
    out[ids] = seen
    for token, amount in decoding.get("logit_bias", {}).items():
        out[int(token)] += f(amount)
    out[sorted(banned(decoding, prompt, new, stop_ids))] = -np.inf
    if grammar is not None:
        out[~allowed(grammar, new, stop_ids)[: len(out)]] = -np.inf
    return out


def law_after(
    logits: Logits,
    decoding: Mapping[str, Any],
    prompt: Sequence[int],
    new: Sequence[int],
    stop_ids: Sequence[int],
    grammar: Any | None = None,
) -> Masses:
    """The integer row after ``prompt`` + ``new``; one-hot at the argmax where the decoding is greedy."""
    ready = processed(logits, decoding, prompt, new, stop_ids, grammar)
    if not is_greedy(decoding):
        return masses_of(ready, decoding)
    row = np.zeros(len(ready), np.uint64)
    row[best(ready)] = 1 << 48
    return row
