"""``draftgate strata seal`` and ``verify-seal``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..errors import StrataError
from ..files import output
from ..load import load_stratum
from ..schema import Prompt
from ..sealing import new_salt, reveal, seal, verify


def run_seal(args: argparse.Namespace) -> int:
    folder = Path(args.out)
    if (folder / "salt.hex").exists():
        raise StrataError(f"{folder / 'salt.hex'}: a set is sealed here already; choose another folder")
    salt = new_salt()
    sealed = seal(_part(args.name, args.all), salt)
    with output(folder / "salt.hex", 0o600) as handle:
        handle.write(salt.hex().encode() + b"\n")
    with output(folder / "seal.json") as handle:
        handle.write(json.dumps(sealed, indent=2).encode() + b"\n")
    print(f"{folder / 'seal.json'}: {len(sealed['commitments'])} prompts, root {sealed['root']}")
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """0 when every sealed prompt is there unchanged and no other; 5 otherwise, naming them."""
    try:
        sealed: Any = json.loads(Path(args.seal).read_text(encoding="utf-8"))
        salt = bytes.fromhex(Path(args.salt).read_text(encoding="utf-8").strip())
    except OSError as error:
        raise StrataError(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise StrataError(f"seal or salt is not readable: {error}") from None
    if not isinstance(sealed, dict):
        raise StrataError(f"{args.seal}: not a seal")
    outcome = verify(sealed, reveal(_part(args.name, args.all), salt))
    for what in ("changed", "missing", "added"):
        for name in getattr(outcome, what):
            print(f"{what}: {name}")
    print(f"{len(outcome.matching)} prompts as sealed" if outcome.ok else "the set is not the one that was sealed")
    return 0 if outcome.ok else 5


def _part(name: str, everything: bool) -> list[Prompt]:
    prompts = [p for p in load_stratum(name) if everything or p.split == "reserve"]
    if not prompts:
        raise StrataError(f"{name}: nothing to seal; no prompt is in the reserve (--all takes the open ones too)")
    return prompts
