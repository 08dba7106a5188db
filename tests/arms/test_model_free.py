"""Suffix automaton, frozen n-gram cache and hybrid: against rescans, bound by hash, exact in a session."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draftgate.arms import ngram_cache
from draftgate.arms.engine.gguf import read_gguf
from draftgate.arms.engine.tokenizer import Tokenizer
from draftgate.arms.errors import ArmError
from draftgate.arms.hybrid import Hybrid
from draftgate.arms.ngram_cache import CacheLookup, NgramCache, cache_settings, count, read_cache, write_cache
from draftgate.arms.speculative_arm import SpeculativeArm
from draftgate.arms.suffix_automaton import SuffixAutomaton, SuffixLookup, suffix_settings
from draftgate.harness.cli import main
from draftgate.strata.load import load_stratum
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arms_kit import Kit, checked_run
from support.toy import hashed_logits

texts = st.lists(st.integers(0, 2), min_size=1, max_size=50)


@given(texts)
@settings(max_examples=300, deadline=None)
def test_the_automaton_finds_the_longest_suffix_that_ended_earlier(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for n, token in enumerate(text, 1):
        automaton.take(token)
        seen = text[:n]
        longest = 0
        for size in range(1, n):
            if any(seen[end - size : end] == seen[n - size :] for end in range(size, n)):
                longest = size
        assert automaton.match == longest
        if longest:
            end = automaton.follows
            assert longest <= end < n and seen[end - longest : end] == seen[n - longest :]


def test_a_recent_occurrence_is_followed() -> None:
    automaton = SuffixAutomaton()
    for token in [1, 2, 7, 5, 1, 2, 8, 6, 1, 2]:
        automaton.take(token)
    assert automaton.match == 2 and automaton.follows == 6


def test_the_automaton_stays_linear() -> None:
    automaton = SuffixAutomaton()
    rng = random.Random(0)
    for _ in range(3000):
        automaton.take(rng.randrange(4))
    assert len(automaton.next) <= 2 * 3000 and sum(map(len, automaton.next)) <= 3 * 3000


def test_counts_follow_the_most_frequent_token_lowest_id_at_ties() -> None:
    tables = count([[1, 2, 3, 1, 2, 3, 1, 2, 4], [1, 2, 4, 9]], [1, 2], min_count=2)
    assert tables[2][(1, 2)] == 3 and tables[1][(2,)] == 3
    assert (4,) not in tables[1] and (2, 4) not in tables[2]


def test_a_cache_file_is_reproducible_and_bound_by_its_hash(tmp_path: Path) -> None:
    tables = count([[1, 2, 3] * 5], [1, 2, 3])
    first, second = write_cache(tmp_path / "a.npz", tables, "tok"), write_cache(tmp_path / "b.npz", tables, "tok")
    assert first == second
    cache = read_cache(tmp_path / "a.npz", first)
    assert cache.tables == tables and cache.next([9, 1, 2]) == 3 and cache.next([9]) is None
    with pytest.raises(ArmError, match="is not the plan's"):
        read_cache(tmp_path / "a.npz", "0" * 64)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"not a zip"])
def test_a_damaged_cache_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cache.npz"
    path.write_bytes(content)
    with pytest.raises(ArmError, match=r"cache\.npz: not an n-gram cache"):
        read_cache(path)


def test_a_cache_of_an_unknown_format_or_shape_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", format=np.array("draftgate-ngram-cache/9"), tokenizer_sha256=np.array("t"))
    with pytest.raises(ArmError, match="format 'draftgate-ngram-cache/9' is unknown"):
        read_cache(tmp_path / "f.npz")
    np.savez(
        tmp_path / "s.npz",
        format=np.array("draftgate-ngram-cache/1"),
        tokenizer_sha256=np.array("t"),
        n2=np.zeros((3, 9)),
    )
    with pytest.raises(ArmError, match="shape"):
        read_cache(tmp_path / "s.npz")


def npz(path: Path, compression: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    """A cache file whose members are these bytes; format and tokenizer are right unless given."""
    head = {"format": "draftgate-ngram-cache/1", "tokenizer_sha256": "t"}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, text in head.items():
            archive.writestr(f"{name}.npy", members.pop(name, saved(np.array(text))))
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def saved(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


GOOD = np.array([[1, 2, 3]], np.int32)
HUGE = saved(GOOD).replace(b"(1, 3)", b"(9999999, 3)").replace(b"       \n", b" \n")


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (saved(GOOD[:, :2]), "shape"),
        (saved(GOOD.astype(float)), "shape"),
        (saved(-GOOD), "negative token"),
        (saved(GOOD)[:-1], "other bytes"),
        (HUGE, "other bytes"),
        (saved(np.array([[1, 2, None]])), "other bytes"),
        (b"", "not an n-gram cache"),
    ],
)
def test_a_hostile_table_is_refused_before_anything_is_made_of_it(tmp_path: Path, member: bytes, words: str) -> None:
    with pytest.raises(ArmError, match=words):
        read_cache(npz(tmp_path / "c.npz", n2=member))


def test_a_cache_that_is_compressed_empty_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_cache(npz(tmp_path / "good.npz", n2=saved(GOOD))).tables == {2: {(1, 2): 3}}
    with pytest.raises(ArmError, match="compressed"):
        read_cache(npz(tmp_path / "c.npz", zipfile.ZIP_DEFLATED, n2=saved(GOOD)))
    with pytest.raises(ArmError, match="no table"):
        read_cache(npz(tmp_path / "e.npz"))
    monkeypatch.setattr(ngram_cache, "LARGEST_FILE", 100)
    with pytest.raises(ArmError, match="build the cache of less text"):
        read_cache(tmp_path / "good.npz")


def test_a_cache_that_no_arm_would_read_or_no_disk_takes_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tables = tmp_path / "c.npz", count([[1, 2, 3] * 3], [2])
    write_cache(path, tables, "tok")
    before = path.read_bytes()
    with pytest.raises(ArmError, match="cannot be written"):
        write_cache(path / "c.npz", tables, "tok")
    monkeypatch.setattr(ngram_cache, "LARGEST_FILE", 100)
    with pytest.raises(ArmError, match="give less text"):
        write_cache(path, tables, "tok")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_settings_are_checked(tmp_path: Path) -> None:
    sha = write_cache(tmp_path / "c.npz", count([[1, 2, 3] * 3], [2]), "tok")
    entry = {"cache": str(tmp_path / "c.npz"), "sha256": sha, "k": 3}
    assert cache_settings(entry, "tok", 9)[1] == 3
    for change, words in (
        ({"k": 0}, "k must be"),
        ({"sha256": None}, "sha256"),
        ({"cache": None}, "path of its file"),
        ({"cache": str(tmp_path / "none.npz")}, "not an n-gram cache"),
    ):
        with pytest.raises(ArmError, match=words):
            cache_settings({**entry, **change}, "tok", 9)
    with pytest.raises(ArmError, match="another tokenizer"):
        cache_settings(entry, "other", 9)
    with pytest.raises(ArmError, match="token 3 is outside the champion's 3"):
        cache_settings(entry, "tok", 3)
    with pytest.raises(ArmError, match="min_match"):
        suffix_settings({"min_match": 0})


def openers(kit: Kit) -> dict[str, Any]:
    tables = count([[1, 2, 3, 4] * 6, [3, 1, 2] * 4], [1, 2])
    cache = NgramCache(tables, "tok", "sha")
    return {
        "suffix": lambda r: SuffixLookup(kit.k, 1, frozenset(r.stop.token_ids)),
        "cache": lambda r: CacheLookup(cache, kit.k, frozenset(r.stop.token_ids)),
        "hybrid": lambda r: Hybrid(SuffixLookup(2, 2, frozenset(r.stop.token_ids)), kit.draft(r)),
    }


@pytest.mark.parametrize("which", ["suffix", "cache", "hybrid"])
@pytest.mark.parametrize("decoding", [{}, {"temperature": 1.0, "frequency_penalty": 0.3}])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_every_proposer_leaves_a_fresh_state_and_the_greedy_text(
    which: str, decoding: dict[str, Any], seed: int
) -> None:
    kit = Kit(decoding, champion=hashed_logits(5, seed, order=1), draft=hashed_logits(5, seed, 2.0, 1), stop_ids=())
    arm = SpeculativeArm(which, kit.champion, openers(kit)[which], ("champion",))
    request = kit.request((1, 2, 3, 1, 2), 24, seed)
    session = checked_run(arm.open(request))
    assert session.failure is None and sum(r.proposed for r in session.records) > 0
    if not decoding:
        assert session.emitted == kit.alone().generate(request).tokens


def test_a_hybrid_chooses_before_drawing_and_uses_both() -> None:
    kit = Kit(
        {"temperature": 1.0}, champion=hashed_logits(5, 3, 4.0, 1), draft=hashed_logits(5, 3, 3.0, 1), stop_ids=()
    )
    arm = SpeculativeArm("hybrid", kit.champion, openers(kit)["hybrid"], ("champion", "draft"))
    completion = arm.generate(kit.request(n=48))
    kinds = {entry["deterministic"] for entry in completion.trace if entry["proposals"]}
    assert kinds == {True, False}


def test_the_command_builds_a_cache_without_the_strata_and_the_same_again(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = next(p for p in load_stratum("casual_chat") if len(p.turns[0][-1].content.split()) >= 13)
    own, public = prompt.turns[0][-1].content.replace("\n\n", "\n"), "The quick brown fox jumps over the lazy dog.\n"
    (tmp_path / "text").write_text(f"{public * 3}\n\n{own}\n{own}\n")
    command = ["ngram-cache", "--champion", str(smollm2), "--json"]
    assert main([*command, "--out", str(tmp_path / "a.npz"), str(tmp_path / "text")]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["paragraphs"], found["left_out"]) == (1, 1) and "1 paragraphs repeat a prompt" in err
    cache = read_cache(tmp_path / "a.npz", found["sha256"])
    tokenizer = Tokenizer.from_gguf(read_gguf(smollm2))
    ids = tokenizer.encode(public)
    assert cache.tokenizer_sha256 == tokenizer.sha256 and cache.next(ids[:4]) == ids[4]
    assert main([*command, "--out", str(tmp_path / "b.npz"), str(tmp_path / "text")]) == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for words, message in (
        (["--min-n", "5", str(tmp_path / "text")], "--min-n 5 is above --max-n 4"),
        (["--min-count", "99", str(tmp_path / "text")], "nothing was seen 99 times"),
        ([str(tmp_path / "none")], "cannot be read as UTF-8 text"),
    ):
        assert main([*command, "--out", str(tmp_path / "c.npz"), *words]) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "c.npz").exists()
