"""Golden vectors of draws, rows and rounds. `PYTHONPATH=tests python tests/arms/golden_arms.py` writes them.

They pin `rng/1` and `masses/1`: a change here changes every seeded text, and needs a new version of either name.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from draftgate.arms import masses as law
from draftgate.arms.draws import DOMAINS, MAPPING, PhiloxDraws, key_of
from draftgate.arms.processors import ProcessorChain
from support.arms_kit import Kit

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "golden"

DECODINGS: dict[str, dict[str, Any]] = {
    "plain": {"temperature": 1.0},
    "cold": {"temperature": 0.2},
    "top_k": {"temperature": 0.8, "top_k": 7},
    "top_p": {"temperature": 0.7, "top_p": 0.9},
    "min_p": {"temperature": 1.5, "min_p": 0.1},
    "typical": {"temperature": 1.0, "typical_p": 0.8},
    "everything": {
        "temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "typical_p": 0.9, "repetition_penalty": 1.2,
        "frequency_penalty": 0.1, "presence_penalty": 0.2, "logit_bias": {"3": 1.5}, "suppress": [5],
        "bad_words": [[1, 2]], "min_new_tokens": 4,
    },
}  # fmt: skip


def exact_logits(vocabulary: int, salt: str, unit: int = 16) -> Any:
    """Multiples of 1/unit from hashes: no generator of numpy's can move them."""

    def logits(prefix: tuple[int, ...]) -> npt.NDArray[np.float32]:
        stream = b""
        block = 0
        while len(stream) < vocabulary:
            stream += hashlib.sha256(f"{salt}|{prefix[-3:]}|{block}".encode()).digest()
            block += 1
        return (np.frombuffer(stream[:vocabulary], np.uint8).astype(np.float32) - 128) / unit

    return logits


def digest(masses: npt.NDArray[np.uint64]) -> str:
    return hashlib.sha256(masses.astype("<u8").tobytes()).hexdigest()


def draws() -> dict[str, Any]:
    rows = []
    for seed, stream in ((0, ""), (2**64 - 1, "p1|0|neural_draft"), (81985529216486895, "é")):
        for domain in DOMAINS:
            for round, position, n in ((0, 0, 2**48), (1, 3, 7), (2**32 - 1, 12, 2**63 + 1)):
                value = PhiloxDraws(seed, stream, round).uniform(n, domain, position)
                rows.append([str(seed), stream, domain, round, position, str(n), str(value)])
    keys = [[str(seed), stream, str(key_of(seed, stream))] for seed, stream in ((0, ""), (1, "a"), (1, "b"))]
    fields = ["seed", "stream", "domain", "round", "position", "n", "value"]
    return {"format": "draftgate-golden-draws/1", "mapping": MAPPING, "domains": DOMAINS, "keys": keys,
            "fields": fields, "draws": rows}  # fmt: skip


def rows() -> dict[str, Any]:
    small, large = [], []
    for name, decoding in DECODINGS.items():
        for vocabulary, into in ((9, small), (49152, large)):
            state = ProcessorChain(decoding, vocabulary, (8,)).open([1, 3, 3, 1])
            logits = exact_logits(vocabulary, name)((1, 3, 3, 1))
            masses = state.masses(logits)
            entry: dict[str, Any] = {"decoding": name, "argmax": state.argmax(logits)}
            if vocabulary == 9:
                entry |= {"logits": [float(v) for v in logits], "masses": [str(m) for m in masses]}
            else:
                entry |= {"kept": int((masses > 0).sum()), "largest": str(masses.max()), "sha256": digest(masses)}
            into.append(entry)
    return {"format": "draftgate-golden-rows/1", "law": law.LAW, "decodings": DECODINGS, "history": [1, 3, 3, 1],
            "stop_ids": [8], "small": small, "large": large}  # fmt: skip


def rounds() -> dict[str, Any]:
    out = []
    for name, decoding in {"greedy": {}, **DECODINGS}.items():
        kit = Kit(decoding, 9, exact_logits(9, "q", 128), exact_logits(9, "p", 128), k=3, stop_ids=(5,))
        for arm in (kit.alone(), kit.lookup(), kit.neural()):
            completion = arm.generate(kit.request((1, 3, 3, 1), 16, 7, stream=f"golden|0|{arm.name}"))
            trace = [[e["proposals"], e["accepted"], e["tokens"]] for e in completion.trace]
            out.append({"decoding": name, "arm": arm.name, "finish_reason": completion.finish_reason, "rounds": trace})
    fields = ["proposals", "accepted", "tokens"]
    return {
        "format": "draftgate-golden-rounds/1",
        "fields": fields,
        "prompt": [1, 3, 3, 1],
        "seed": "7",
        "stop_ids": [5],
        "sessions": out,
    }


FILES = {"draws-v1.json": draws, "rows-v1.json": rows, "rounds-v1.json": rounds}

if __name__ == "__main__":
    for file, made in FILES.items():
        (FOLDER / file).write_text(json.dumps(made(), separators=(",", ":"), ensure_ascii=False) + "\n")
