"""Reading verdict.json: checked against its published schema, refused by name where it is of another version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..gates.result import Verdict
from ..gates.verdict_file import FORMAT, bound_digest
from ..harness.canonical import digest_file
from .files import Damaged, ReportError


class OtherVersion(ReportError):
    """A verdict file of a format that this version does not read."""


def schema() -> dict[str, Any]:
    """The JSON Schema of verdict.json, as shipped."""
    return dict(json.loads(files(__package__).joinpath("schemas", "verdict.schema.json").read_text("utf-8")))


def read_stored_verdict(path: Path) -> dict[str, Any]:
    """The JSON value of a verdict file. Raises ReportError: missing, no JSON or malformed; OtherVersion."""
    import jsonschema

    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ReportError(f"{path}: there is no such verdict file; `draftgate gate DIR` writes one") from None
    except (OSError, ValueError) as error:
        raise ReportError(f"{path}: not readable as a verdict ({error})") from None
    found = value.get("format") if isinstance(value, Mapping) else None
    if found != FORMAT:
        named = isinstance(found, str) and found.startswith(FORMAT.partition("/")[0] + "/")
        raise (OtherVersion if named else ReportError)(
            f"{path}: format {found!r}, this version reads {FORMAT!r}; write it anew with `draftgate gate DIR`"
        )
    trouble = next(
        iter(
            sorted(jsonschema.Draft202012Validator(schema()).iter_errors(value), key=lambda e: list(map(str, e.path)))
        ),
        None,
    )
    if trouble is not None:
        where = "/".join(map(str, trouble.path)) or "the file"
        raise ReportError(f"{path}: not a verdict of format {FORMAT}: {where}: {trouble.message[:200]}")
    return dict(value)


def contradiction(run_dir: Path, verdict: Verdict) -> str:
    """What a stored verdict.json says that the records do not; empty where there is none or it agrees.

    Raises ReportError for a file of another version, Damaged for one about another plan.
    """
    path = Path(run_dir) / "verdict.json"
    if not path.exists():
        return ""
    bound = bound_digest(run_dir)
    if bound is not None and digest_file(path) != bound:
        return (
            f"{path}: is not the verdict that the ledger binds, it was edited or damaged; the reports follow the "
            "records (`draftgate gate` writes their verdict and keeps this file beside it)"
        )
    try:
        stored = read_stored_verdict(path)
    except OtherVersion:
        raise
    except ReportError as error:
        return f"{error}; the reports follow the records"
    if stored["plan_id"] != verdict.plan_id:
        raise Damaged(
            f"{path}: is about plan {stored['plan_id'][:12]}, this folder's plan is {verdict.plan_id[:12]}; remove it"
        )
    before = {g["id"]: g["status"] for g in stored["gates"]}
    now = {g.id: g.status for g in verdict.gates}
    different = sorted(id for id in before.keys() | now.keys() if before.get(id) != now.get(id))
    if stored["verdict"] != verdict.verdict or different:
        listed = ", ".join(f"{id} {before.get(id, 'absent')} → {now.get(id, 'absent')}" for id in different[:8])
        return (
            f"{path}: says {stored['verdict']}, the records give {verdict.verdict} ({listed or 'no gate differs'}); "
            "the reports follow the records"
        )
    return ""
