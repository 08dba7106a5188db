"""The GGUF reader agrees with the `gguf` package on good files and refuses bad ones by name."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from draftgate.arms.engine.engine import _hash_of_tokenizer_keys
from draftgate.arms.engine.gguf import TENSOR_TYPES, GgufError, read_gguf
from draftgate.arms.engine.string_array import StringArray
from draftgate.arms.engine.vocabulary import read_vocabulary
from support.vocabulary_files import write_small


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_small(tmp_path / "small.gguf")


def header(
    keys: bytes = b"", tensors: bytes = b"", key_count: int = 0, tensor_count: int = 0, version: int = 3
) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, key_count) + keys + tensors + bytes(64)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def tensor(name: str = "t", dims: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def refused(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(GgufError, match=match) as caught:
        read_gguf(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


def test_agrees_with_the_gguf_package(small: Path) -> None:
    ours, theirs = read_gguf(small), gguf.GGUFReader(str(small))
    assert {t.name: (t.type, t.shape, t.offset, t.bytes) for t in ours.tensors.values()} == {
        t.name: (t.tensor_type.name, tuple(int(n) for n in t.shape[::-1]), int(t.data_offset), int(t.n_bytes))
        for t in theirs.tensors
    }
    for info, other in zip(ours.tensors.values(), theirs.tensors, strict=True):
        assert bytes(ours.data(info.name)) == other.data.tobytes()
    keys = {k: f for k, f in theirs.fields.items() if not k.startswith("GGUF.") and k != "test.nested"}
    assert {k: v for k, v in ours.metadata.items() if k != "test.nested"} == {k: f.contents() for k, f in keys.items()}
    assert ours.metadata["test.nested"] == [[1, 2], [3]]
    assert ours.sha256 == hashlib.sha256(small.read_bytes()).hexdigest()


def test_real_model_agrees_with_the_gguf_package(smollm2: Path) -> None:
    ours, theirs = read_gguf(smollm2), gguf.GGUFReader(str(smollm2))
    assert [(t.name, t.offset, t.bytes) for t in ours.tensors.values()] == [
        (t.name, int(t.data_offset), int(t.n_bytes)) for t in theirs.tensors
    ]
    assert ours.metadata["tokenizer.ggml.merges"] == theirs.fields["tokenizer.ggml.merges"].contents()
    ours.require_loadable()


def test_a_vocabulary_is_held_in_little_more_than_its_bytes(smollm2: Path) -> None:
    tracemalloc.start()
    file = read_gguf(smollm2)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    strings = [file.metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges")]
    assert all(isinstance(kept, StringArray) and len(kept) > 40_000 for kept in strings)
    assert held < 2 * sum(8 + len(text.encode()) for kept in strings for text in kept)  # as lists, more than four times


def test_hashes_do_not_depend_on_how_strings_are_held(smollm2: Path) -> None:
    file = read_gguf(smollm2)
    lists = {key: list(v) if isinstance(v, StringArray) else v for key, v in file.metadata.items()}
    assert read_vocabulary(lists).identity == read_vocabulary(file.metadata).identity
    keys = {key: value for key, value in lists.items() if key.startswith("tokenizer.")}
    plain = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()
    assert _hash_of_tokenizer_keys(file) == plain


def test_type_table_agrees_with_the_gguf_package() -> None:
    for number, (name, block, size) in TENSOR_TYPES.items():
        kind = gguf.GGMLQuantizationType(number)
        assert kind.name == name
        if name != "Q8_1":  # activations only, never in a file; the package still has its older layout
            assert gguf.GGML_QUANT_SIZES[kind] == (block, size)


def test_version_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "v2.gguf"
    path.write_bytes(header(version=2))
    assert read_gguf(path).version == 2


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "shorter than a GGUF header"),
        (b"GGUF", "shorter than a GGUF header"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF file"),
        (header(version=1), "GGUF version 1 is not supported"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(64), "big-endian"),
        (header(key_count=1 << 60), "the limits are"),
        (header(tensor_count=1 << 40), "the limits are"),
        (header(key_count=5), "without a name"),
        (header(struct.pack("<Q", 1 << 63), key_count=1), "claims 9223372036854775808 bytes"),
        (header(struct.pack("<Q", 60000), key_count=1), "needs 60000 bytes"),
        (header(struct.pack("<Q", 2) + b"\xff\xfe", key_count=1), "not UTF-8"),
        (header(text("k") + struct.pack("<I", 99), key_count=1), "unknown type 99"),
        (header(2 * (text("k") + struct.pack("<IB", 0, 1)), key_count=2), "duplicate key 'k'"),
        (header(text("k") + struct.pack("<IB", 7, 2), key_count=1), "neither 0 nor 1"),
        (header(text("k") + struct.pack("<IIQ", 9, 0, 1 << 62), key_count=1), "the limit is 8000000"),
        (header(text("k") + struct.pack("<IIQ", 9, 10, 1 << 20), key_count=1), "needs 8388608 bytes"),
        (header(text("k") + struct.pack("<IIQ", 9, 8, 1 << 20), key_count=1), "needs 8388608 bytes"),
        (header(text("k") + struct.pack("<IIQQ", 9, 8, 2, 1 << 63), key_count=1), "string 0 of 2 passes the end"),
        (header(text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9, key_count=1), "nests arrays deeper"),
        (header(text("k") + struct.pack("<IIQ", 9, 77, 1), key_count=1), "unknown type 77"),
        (header(tensors=tensor(dims=()), tensor_count=1), "0 dimensions"),
        (header(tensors=tensor(dims=(1, 1, 1, 1, 1)), tensor_count=1), "5 dimensions"),
        (header(tensors=tensor(dims=(0,)), tensor_count=1), "a dimension of 0"),
        (header(tensors=tensor(dims=(1 << 63, 4)), tensor_count=1), "a dimension of"),
        (header(tensors=tensor(dims=(1 << 32, 1 << 32, 1 << 32, 4)), tensor_count=1), "claims"),
        (header(tensors=tensor(kind=4), tensor_count=1), "unknown tensor type 4"),
        (header(tensors=tensor(dims=(33,), kind=3), tensor_count=1), "not whole Q4_1 blocks"),
        (header(tensors=tensor(dims=(4,), offset=8), tensor_count=1), "not a multiple of the alignment"),
        (header(tensors=tensor(dims=(32,), offset=1 << 62), tensor_count=1), "claims 128 bytes at offset"),
        (header(tensors=tensor(dims=(30,)), tensor_count=1), "truncated"),
        (header(tensors=tensor(dims=(4,)) * 2, tensor_count=2), "duplicate tensor 't'"),
        (header(tensors=tensor(dims=(8,)) + tensor("u", dims=(8,)), tensor_count=2), "'t' and 'u' overlap"),
        (header(text("general.alignment") + struct.pack("<II", 4, 0), key_count=1), "general.alignment is 0"),
        (header(text("general.alignment") + struct.pack("<II", 4, 48), key_count=1), "not a power of two"),
        (header(text("general.alignment") + struct.pack("<I", 8) + text("x"), key_count=1), "not a power of two"),
    ],
)
def test_bad_headers_are_refused_by_name(tmp_path: Path, content: bytes, match: str) -> None:
    refused(tmp_path, content, match)


def test_a_long_name_does_not_flood_the_message(tmp_path: Path) -> None:
    name = "x" * 60_000
    path = tmp_path / "bad.gguf"
    path.write_bytes(header(2 * (text(name) + struct.pack("<IB", 0, 1)), key_count=2))
    with pytest.raises(GgufError) as caught:
        read_gguf(path)
    assert len(str(caught.value)) < 1000


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, match in (
        (tmp_path / "no.gguf", "No such file"),
        (tmp_path, "not a regular"),
        (tmp_path / "pipe", "not a"),
    ):
        with pytest.raises(GgufError, match=match):
            read_gguf(path)
    with pytest.raises(GgufError, match="cannot be opened"):
        read_gguf("a\0b")


def write_with(path: Path, architecture: str, tensor_type: gguf.GGMLQuantizationType) -> Path:
    writer = gguf.GGUFWriter(str(path), architecture)
    data = gguf.quantize(np.ones((2, 256), dtype=np.float32), tensor_type)
    writer.add_tensor("blk.0.ffn_up.weight", data, raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "kind", "match"),
    [
        ("qwen2", "F32", "architecture 'qwen2' is not supported"),
        ("llama", "Q5_0", "blk.0.ffn_up.weight' has type Q5_0"),
    ],
)
def test_unsupported_files_are_readable_but_not_loadable(
    tmp_path: Path, architecture: str, kind: str, match: Any
) -> None:
    file = read_gguf(write_with(tmp_path / "m.gguf", architecture, gguf.GGMLQuantizationType[kind]))
    assert file.tensors["blk.0.ffn_up.weight"].shape == (2, 256)
    with pytest.raises(GgufError, match=match):
        file.require_loadable()


def test_a_file_without_architecture_is_not_loadable(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(header())
    with pytest.raises(GgufError, match=r"general\.architecture"):
        read_gguf(path).require_loadable()
