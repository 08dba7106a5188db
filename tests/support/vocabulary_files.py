"""Small GGUF files that hold a tokenizer and no weights, for comparing tokenizers and for hostile-input tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gguf
import numpy as np

SPACE = "\u2581"


def write_byte_level(target: Path, metadata: dict[str, Any], pre: str) -> Path:
    """A byte-level BPE vocabulary copied from a model's metadata, under another pre-tokeniser's name."""
    writer = gguf.GGUFWriter(str(target), "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(metadata["tokenizer.ggml.tokens"])
    writer.add_token_types(metadata["tokenizer.ggml.token_type"])
    writer.add_token_merges(metadata["tokenizer.ggml.merges"])
    writer.add_bos_token_id(metadata["tokenizer.ggml.bos_token_id"])
    writer.add_eos_token_id(metadata["tokenizer.ggml.eos_token_id"])
    writer.add_add_bos_token(False)
    return _finish(writer)


def write_sentencepiece(target: Path, texts: list[str], pieces: int = 3000, add_space_prefix: bool = True) -> Path:
    """A SentencePiece-style vocabulary made of substrings of ``texts`` with random distinct scores."""
    rng = random.Random(7)
    found: set[str] = set()
    for text in texts:
        escaped = (" " + text).replace(" ", SPACE)
        found.update(escaped[i : i + n] for n in (2, 3, 4, 5) for i in range(len(escaped) - n + 1))
    singles = sorted({c for text in texts for c in text if c.isascii() and c.isprintable()} | {SPACE})
    longer = sorted(found)
    rng.shuffle(longer)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [2, 3, 3, *[6] * 256]
    ordinary = [c for c in singles if c != " "] + [piece for piece in longer if len(piece) > 1 and "\0" not in piece][
        :pieces
    ]
    ordinary = [piece for piece in dict.fromkeys(ordinary) if piece not in tokens]
    scores = [0.0] * 259 + [-float(n) for n in rng.sample(range(1, 10 * len(ordinary)), len(ordinary))]
    writer = gguf.GGUFWriter(str(target), "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + ordinary)
    writer.add_token_scores(scores)
    writer.add_token_types(types + [1] * len(ordinary))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(add_space_prefix)
    return _finish(writer)


def write_small(target: Path) -> Path:
    """A few keys of every kind and a few tensors of the loadable types: what the fuzzer mutates."""
    writer = gguf.GGUFWriter(str(target), "llama")
    writer.add_block_count(2)
    writer.add_name("small")
    writer.add_float32("test.float", 1.5)
    writer.add_bool("test.bool", True)
    writer.add_array("test.strings", ["a", "bc", "é", ""])
    writer.add_array("test.numbers", [1, 2, 3])
    writer.add_array("test.nested", [[1, 2], [3]])
    writer.add_token_list(["<s>", "a", "b", "ab"])
    rng = np.random.default_rng(0)
    writer.add_tensor("first.weight", rng.normal(size=(4, 32)).astype(np.float32))
    writer.add_tensor("half.weight", rng.normal(size=(3, 64)).astype(np.float16))
    for name, kind in (("eight", "Q8_0"), ("four", "Q4_0"), ("five", "Q4_1")):
        quantised = gguf.quantize(rng.normal(size=(2, 64)).astype(np.float32), gguf.GGMLQuantizationType[kind])
        writer.add_tensor(f"{name}.weight", quantised, raw_dtype=gguf.GGMLQuantizationType[kind])
    return _finish(writer)


def _finish(writer: gguf.GGUFWriter) -> Path:
    path = Path(writer.path)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
