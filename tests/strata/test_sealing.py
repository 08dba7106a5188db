"""Seals: an honest reveal passes, and every other one is named."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from draftgate.strata.errors import StrataError
from draftgate.strata.load import load_stratum
from draftgate.strata.schema import from_record
from draftgate.strata.sealing import commitment, new_salt, reveal, root, seal, verify

PROMPTS = [p for p in load_stratum("casual_chat") if p.split == "reserve"]
SALT = bytes(range(32))


def test_an_honest_reveal_matches() -> None:
    outcome = verify(seal(PROMPTS, SALT), json.loads(json.dumps(reveal(PROMPTS, SALT))))
    assert outcome.ok and len(outcome.matching) == len(PROMPTS)


def test_the_commitment_is_the_documented_hash() -> None:
    prompt = from_record({"id": "a", "stratum": "s", "prompt": "é"})
    canonical = (
        '{"check":null,"family_id":"a","id":"a","language":"en","max_new_tokens":null,"raw":null,"source":{},'
        '"split":"open","stratum":"s","tags":[],"turns":[[{"content":"é","role":"user"}]]}'
    ).encode()
    assert commitment(prompt, SALT) == hashlib.sha256(b"\x00\x00\x00\x20" + SALT + canonical).hexdigest()


@pytest.mark.parametrize("what", ["text", "check", "split", "salt", "dropped", "added", "swapped"])
def test_any_change_is_seen(what: str) -> None:
    sealed, prompts, salt = seal(PROMPTS, SALT), list(PROMPTS), SALT
    other = from_record({"id": "new", "stratum": "casual_chat", "prompt": "Hello?"})
    if what == "text":
        prompts[0] = replace(prompts[0], turns=((replace(prompts[0].turns[0][0], content="Hi."),),))
    elif what == "check":
        prompts[0] = replace(prompts[0], check={"kind": "number", "value": 1})
    elif what == "split":
        prompts[0] = replace(prompts[0], split="open")
    elif what == "salt":
        salt = bytes(32)
    elif what == "dropped":
        prompts.pop()
    elif what == "added":
        prompts.append(other)
    else:
        prompts[0], prompts[1] = replace(prompts[0], id=prompts[1].id), replace(prompts[1], id=prompts[0].id)
    outcome = verify(sealed, reveal(prompts, salt))
    assert not outcome.ok
    named = {"dropped": outcome.missing, "added": outcome.added}.get(what, outcome.changed)
    assert named


def test_a_seal_tells_nothing_of_the_texts_without_the_salt() -> None:
    first, second = seal(PROMPTS, new_salt()), seal(PROMPTS, new_salt())
    assert not set(first["commitments"].values()) & set(second["commitments"].values())
    published = json.dumps(first)
    assert not any(word in published for p in PROMPTS for word in p.text().split() if len(word) > 6)


def test_an_edited_seal_or_one_of_another_format_is_refused() -> None:
    sealed = seal(PROMPTS, SALT)
    name = next(iter(sealed["commitments"]))
    edited: dict[str, Any] = {**sealed, "commitments": {**sealed["commitments"], name: "0" * 64}}
    with pytest.raises(StrataError, match="edited"):
        verify(edited, reveal(PROMPTS, SALT))
    with pytest.raises(StrataError, match="format"):
        verify({**sealed, "format": "draftgate-seal/9"}, reveal(PROMPTS, SALT))
    with pytest.raises(StrataError, match="salt"):
        verify(sealed, {"format": sealed["format"]})


def test_nothing_matches_when_nothing_was_sealed() -> None:
    assert not verify(seal([], SALT), reveal([], SALT)).ok
    assert root({}) == hashlib.sha256().hexdigest()
    with pytest.raises(StrataError, match="16 bytes"):
        commitment(PROMPTS[0], b"short")
    with pytest.raises(StrataError, match="two prompts"):
        seal([PROMPTS[0], PROMPTS[0]], SALT)
