"""Commitments to prompts: publish hashes now, show the prompts later, and nobody can have changed them between.

The commitment of a prompt is sha256 of a length-prefixed salt and the RFC 8785 form of its record. The salt is drawn
for each sealed set, kept with the prompts, and published when they are revealed; without it a guess at a prompt cannot
be tested against the commitment. Where the prompts lie in a public repository, as the ones that ship here do, sealing
is a procedure (no training, no tuning, no looking before the confirmatory run), not a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import StrataError
from .schema import Prompt, from_record

FORMAT = "draftgate-seal/1"
SALT_BYTES = 32


def new_salt() -> bytes:
    return secrets.token_bytes(SALT_BYTES)


def canonical(prompt: Prompt) -> bytes:
    """RFC 8785 bytes of a prompt's record: the same for every spelling of the same JSON."""
    import rfc8785

    return rfc8785.dumps(prompt.record())


def commitment(prompt: Prompt, salt: bytes) -> str:
    """Lower-case hex sha256 of ``len(salt) ‖ salt ‖ canonical record``. Raises StrataError for a short salt."""
    if len(salt) < 16:
        raise StrataError(f"a salt has at least 16 bytes, this one {len(salt)}")
    return hashlib.sha256(len(salt).to_bytes(4) + salt + canonical(prompt)).hexdigest()


def seal(prompts: Iterable[Prompt], salt: bytes) -> dict[str, Any]:
    """What is published before the look: ``commitments`` by prompt id, and one hash of them all. No text, no salt."""
    commitments: dict[str, str] = {}
    for prompt in prompts:
        if prompt.id in commitments:
            raise StrataError(f"two prompts to seal have the id {prompt.id!r}")
        commitments[prompt.id] = commitment(prompt, salt)
    return {"format": FORMAT, "commitments": commitments, "root": root(commitments)}


def root(commitments: Mapping[str, str]) -> str:
    """One hash over id and commitment of every prompt, in order of id."""
    whole = hashlib.sha256()
    for name in sorted(commitments):
        whole.update(f"{name}\n{commitments[name]}\n".encode())
    return whole.hexdigest()


def reveal(prompts: Iterable[Prompt], salt: bytes) -> dict[str, Any]:
    """What is published after the look: the salt and the records, enough for anybody to run `verify`."""
    return {"format": FORMAT, "salt": salt.hex(), "records": [prompt.record() for prompt in prompts]}


@dataclass(frozen=True)
class SealCheck:
    matching: tuple[str, ...]
    changed: tuple[str, ...]
    """Revealed under an id that was sealed, with another text or another salt."""
    missing: tuple[str, ...]
    """Sealed and not revealed: a dropped prompt is a changed experiment."""
    added: tuple[str, ...]
    """Revealed and never sealed."""

    @property
    def ok(self) -> bool:
        return bool(self.matching) and not (self.changed or self.missing or self.added)


def verify(sealed: Mapping[str, Any], revealed: Mapping[str, Any]) -> SealCheck:
    """Compare a reveal with the seal made before. Raises StrataError for another format or a seal whose root is off."""
    for name, part in (("seal", sealed), ("reveal", revealed)):
        if part.get("format") != FORMAT:
            raise StrataError(f"{name}: format {part.get('format')!r}, this version reads {FORMAT}")
    commitments = _commitments(sealed)
    try:
        salt = bytes.fromhex(revealed["salt"])
        prompts = [from_record(record) for record in revealed["records"]]
    except (KeyError, TypeError, ValueError) as error:
        raise StrataError(f"reveal: salt (hex) and records are needed ({error})") from None
    found = {prompt.id: commitment(prompt, salt) for prompt in prompts}
    if len(found) < len(prompts):
        raise StrataError("reveal: an id appears twice")
    same = {name for name in found if name in commitments and hmac.compare_digest(found[name], commitments[name])}
    return SealCheck(
        matching=tuple(sorted(same)),
        changed=tuple(sorted(set(found) & set(commitments) - same)),
        missing=tuple(sorted(set(commitments) - set(found))),
        added=tuple(sorted(set(found) - set(commitments))),
    )


def _commitments(sealed: Mapping[str, Any]) -> dict[str, str]:
    commitments = sealed.get("commitments")
    if not isinstance(commitments, dict) or not all(isinstance(value, str) for value in commitments.values()):
        raise StrataError("seal: commitments has to be an object of hashes by prompt id")
    if sealed.get("root") != root(commitments):
        raise StrataError("seal: its root is not the hash of its commitments; somebody has edited it")
    return commitments
