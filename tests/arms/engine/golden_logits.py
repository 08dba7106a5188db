"""What fixtures/golden/engine-logits-v1.json holds. Written once for each version of the arithmetic:

python -c 'import tests.arms.engine.golden_logits as g; g.write()'   (from the root of the checkout)
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from draftgate.arms.engine.engine import NativeEngine

LENGTH = 140
"""Tokens, past one tile of 128 positions."""
FILE = Path(__file__).parents[3] / "fixtures/golden/engine-logits-v1.json"


def tokens(vocabulary: int) -> list[int]:
    """Ids without a generator's help: multiples of a prime."""
    return [(i * 7919 + 17) % vocabulary for i in range(LENGTH)]


def compute(engine: NativeEngine) -> dict[str, Any]:
    cache = engine.new_cache(LENGTH)
    tx = cache.begin()
    ids = tokens(engine.vocabulary)
    logits, hidden = engine.verify_with_hidden(tx, ids)
    tx.commit_prefix(LENGTH)
    return {
        "arithmetic": engine.identity.arithmetic,
        "model_sha256": engine.identity.model_sha256,
        "tokens": f"(7919 i + 17) mod {engine.vocabulary} for i < {LENGTH}",
        "logits_sha256": hashlib.sha256(logits.astype("<f4").tobytes()).hexdigest(),
        "hidden_sha256": hashlib.sha256(hidden.astype("<f4").tobytes()).hexdigest(),
        "cache_sha256": cache.fingerprint(),
        "last_row_best": [int(t) for t in np.argsort(-logits[-1], kind="stable")[:8]],
        "last_row_logits": [float(x) for x in np.sort(logits[-1])[::-1][:8]],
    }


def write() -> None:
    from draftgate.arms.models import pull

    FILE.write_text(json.dumps(compute(NativeEngine.load(pull("smollm2-135m-instruct"))), indent=1) + "\n")
