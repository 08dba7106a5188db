"""Whatever bytes it is given, the reader answers or raises GgufError, in bounded time and memory, inside the file."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from draftgate.arms.engine.gguf import GgufError, GgufFile, read_gguf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.vocabulary_files import write_small

INTERESTING = [0, 1, 2, 3, 7, 8, 9, 31, 32, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_small(tmp_path_factory.mktemp("gguf") / "small.gguf").read_bytes()


def check(path: Path, content: bytes) -> bool:
    """Reads ``content``; True when it was accepted. Anything but GgufError escapes and fails the test."""
    path.write_bytes(content)
    try:
        file = read_gguf(path)
    except GgufError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 2000
        return False
    stays_inside(file, len(content))
    file.map.close()
    return True


def stays_inside(file: GgufFile, size: int) -> None:
    taken = 0
    for info in file.tensors.values():
        assert 0 < info.offset and info.offset + info.bytes <= size
        assert len(file.data(info.name)) == info.bytes
        taken += info.bytes
    assert taken <= size


def test_every_truncation_is_refused(original: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.gguf"
    assert check(path, original)
    last = max(i.offset + i.bytes for i in read_gguf(path).tensors.values())
    for length in range(last):
        assert not check(path, original[:length]), length


def test_random_mutations(original: bytes, tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "m.gguf"
    accepted = 0
    tracemalloc.start()
    for _ in range(3000):
        content = bytearray(original)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            at = rng.randrange(len(content) // 2)
            kind = rng.randrange(4)
            if kind == 0:
                content[at] = rng.randrange(256)
            elif kind == 1:
                content[at : at + 8] = struct.pack("<Q", rng.choice(INTERESTING))
            elif kind == 2:
                content[at : at + 4] = struct.pack("<I", rng.choice(INTERESTING) & 0xFFFFFFFF)
            else:
                start = rng.randrange(len(content))
                content[at:at] = content[start : start + rng.randrange(40)]
        accepted += check(path, bytes(content))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < accepted < 3000  # both outcomes occur, or the mutations test nothing
    assert peak < 8 << 20


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=400), version=st.sampled_from([2, 3]), counts=st.tuples(*[st.integers(0, 4)] * 2))
def test_random_bytes_after_a_valid_start(tmp_path: Path, tail: bytes, version: int, counts: tuple[int, int]) -> None:
    check(tmp_path / "r.gguf", b"GGUF" + struct.pack("<IQQ", version, *counts) + tail)


def test_a_small_file_cannot_claim_much_memory(tmp_path: Path) -> None:
    """A million empty strings need eight bytes each in the file; what they become is a small multiple of that."""
    count = 1_000_000
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, count)
    path = tmp_path / "s.gguf"
    tracemalloc.start()
    assert check(path, b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + bytes(8 * count))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 8 * count


def test_nested_arrays_of_strings_claim_no_more_than_others(tmp_path: Path) -> None:
    count = 100_000
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, count)
    path = tmp_path / "s.gguf"
    peaks = []
    for kind in (8, 4):  # strings; numbers
        tracemalloc.start()
        assert check(path, b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IQ", kind, 0) * count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 1.5 * peaks[1]
