"""Makes ``fixtures/golden/llamacpp-*.json``: llama.cpp's token ids and next-token logits for the torture list.

    python tests/benchmarks/llamacpp_golden.py MODEL.gguf --out fixtures/golden

Run it with a Python that has ``llama-cpp-python`` and ``gguf``; draftgate itself is not needed, so that nothing of ours
is in the numbers. The files record llama.cpp's version and the model's hash.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.torture import CHATS, PROMPTS, TEXTS
from support.vocabulary_files import write_byte_level, write_sentencepiece

NAMES = (
    "default smollm starcoder refact command-r gpt-2 olmo llama-bpe llama3 llama-v3 falcon3 dbrx smaug-bpe qwen2 "
    "stablelm2 deepseek-r1-qwen"
).split()
WITH_IDS = ("default", "gpt-2", "llama-bpe", "qwen2")
TOP, POSITIONS = 8, 6


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def vocabulary_of(path: Path) -> llama_cpp.Llama:
    return llama_cpp.Llama(str(path), vocab_only=True, verbose=False)


def encode(model: llama_cpp.Llama, text: str, special: bool = False) -> list[int]:
    return list(model.tokenize(text.encode(), add_bos=False, special=special)) if text else []


def tokens(model_path: Path) -> dict[str, Any]:
    model = vocabulary_of(model_path)
    fields = gguf.GGUFReader(str(model_path)).fields
    keys = ("tokens", "token_type", "merges", "bos_token_id", "eos_token_id")
    metadata = {f"tokenizer.ggml.{key}": fields[f"tokenizer.ggml.{key}"].contents() for key in keys}
    others: dict[str, Any] = {}
    pieces: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            variant = vocabulary_of(write_byte_level(Path(folder) / f"{name}.gguf", metadata, name))
            ids = {case: encode(variant, text) for case, text in TEXTS.items()}
            others[name] = {"sha256": digest(ids)} | ({"ids": ids} if name in WITH_IDS else {})
        for prefix in (True, False):
            path = write_sentencepiece(
                Path(folder) / f"spm{prefix}.gguf", list(TEXTS.values()), add_space_prefix=prefix
            )
            variant = vocabulary_of(path)
            pieces[str(prefix).lower()] = {case: encode(variant, text) for case, text in TEXTS.items()}
    return {
        "texts": TEXTS,
        "plain": {name: encode(model, text) for name, text in TEXTS.items()},
        "special": {name: encode(model, text, special=True) for name, text in TEXTS.items()},
        "pre_tokenisers": others,
        "sentencepiece": pieces,
    }


def chat_text(messages: list[dict[str, str]]) -> str:
    """SmolLM2's template, written out by hand: an oracle for the sandboxed one."""
    default = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    first = [] if messages[0]["role"] == "system" else [{"role": "system", "content": default}]
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in first + messages)
    return text + "<|im_start|>assistant\n"


def logits(model_path: Path) -> dict[str, Any]:
    model = llama_cpp.Llama(str(model_path), n_ctx=1024, n_threads=1, logits_all=True, verbose=False)
    cases = {name: encode(model, text) for name, text in PROMPTS.items()}
    cases |= {f"chat {name}": encode(model, chat_text(chat), special=True) for name, chat in CHATS.items()}
    found: dict[str, Any] = {}
    for name, ids in cases.items():
        model.reset()
        model.eval(ids)
        rows = np.asarray(model.scores[: len(ids)], dtype=np.float64)
        at = list(range(max(0, len(ids) - POSITIONS), len(ids)))
        top = [np.argsort(-rows[i], kind="stable")[:TOP] for i in at]
        found[name] = {
            "ids": ids,
            "positions": at,
            "top": [[int(t) for t in row] for row in top],
            "logits": [[round(float(rows[i][t]), 4) for t in row] for i, row in zip(at, top, strict=True)],
            "spread": [round(float(rows[i].std()), 4) for i in at],
        }
    return {"cases": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    header = {
        "made_with": f"llama-cpp-python {llama_cpp.__version__}",
        "model_sha256": hashlib.sha256(args.model.read_bytes()).hexdigest(),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokens", tokens(args.model)), ("logits", logits(args.model))):
        path = args.out / f"llamacpp-{name}.json"
        path.write_text(json.dumps(header | content, ensure_ascii=True, separators=(",", ":")) + "\n")
        print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
