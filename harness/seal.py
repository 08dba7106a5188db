"""Sealed prompts: at freeze a salted commitment stands for each reserve prompt, revealed when the run starts.

Where the prompts lie in a public repository, sealing is a procedure and not a secret: it proves which prompts were
meant, and that the plan's file does not give them away.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .atomic import PRIVATE, write_bytes
from .canonical import digest_value
from .errors import IntegrityError
from .formats import SEAL_FORMAT, check_format
from .prompts import StratumPrompts
from .rundir import RunDir

SCHEME = "sha256-salted/1"


def commitment(salt: str, stratum: str, prompt_id: str, ids_sha256: str) -> str:
    """What the plan holds in place of the hash of a prompt's ids."""
    return digest_value({"scheme": SCHEME, "salt": salt, "stratum": stratum, "prompt": prompt_id, "ids": ids_sha256})


@dataclass(frozen=True)
class Seal:
    salts: dict[str, str]
    """``stratum/prompt`` to 32 random bytes in hexadecimal."""

    @classmethod
    def for_plan(cls, conf: Mapping[str, Any], strata: Sequence[StratumPrompts], run_dir: RunDir) -> Seal | None:
        """New salts for every reserve prompt; the directory's own when it has some (freezing again changes nothing)."""
        if not conf["strata"]["seal"]:
            return None
        if run_dir.seal.exists():
            return cls.read(run_dir)
        return cls(
            {f"{s.name}/{p.id}": secrets.token_hex(32) for s in strata for p in s.prompts if p.split == "reserve"}
        )

    @classmethod
    def read(cls, run_dir: RunDir) -> Seal:
        """Raises IntegrityError when the salts are gone or damaged: then nobody can open the seal."""
        try:
            found = json.loads(run_dir.seal.read_bytes())
        except (OSError, ValueError):
            raise IntegrityError(f"{run_dir.seal}: missing or damaged; the sealed prompts cannot be opened") from None
        check_format(found.get("format"), SEAL_FORMAT, str(run_dir.seal))
        return cls(dict(found["salts"]))

    def public(self) -> dict[str, Any]:
        return {"scheme": SCHEME, "prompts": len(self.salts)}

    def close(self, stratum: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """A prompt's entry with the commitment in place of its hash."""
        salt = self.salts[f"{stratum}/{item['id']}"]
        return {**item, "ids_sha256": commitment(salt, stratum, item["id"], item["ids_sha256"]), "sealed": True}

    def write(self, run_dir: RunDir) -> None:
        body = {"format": SEAL_FORMAT, "salts": self.salts}
        write_bytes(run_dir.seal, json.dumps(body, indent=1).encode() + b"\n", PRIVATE)
