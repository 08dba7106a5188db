"""The provenance audit: the draft's training receipt is about this file, this champion and these prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def provenance_audit(plan: Mapping[str, Any], draft: Path | None) -> dict[str, Any] | None:
    """Body of the `provenance` audit; None without a draft, and without a receipt that the plan does not require.

    A receipt that is required and missing is a finding, not a gap. Its word is taken for what the draft was trained on;
    what is checked is that it is about this file, this champion, and the hashes of the strata that ship. Prompts from a
    user's own file are not in those hashes, and are listed as not covered.
    """
    if draft is None:
        return None
    from ..arms.errors import ArmError
    from ..arms.training_receipt import read, receipt_path
    from ..strata.load import data_folder

    if not receipt_path(draft).is_file() and not _required(plan):
        return None
    try:
        receipt = read(draft)
    except ArmError as error:
        return {"ok": False, "n": 1, "detail": {"reason": str(error).replace(f"{draft.parent}/", "")}}
    hashes = data_folder() / "ngram_hashes.bin"
    shipped = hashlib.sha256(hashes.read_bytes()).hexdigest() if hashes.is_file() else None
    problems = []
    if receipt.file_sha256 != plan["draft"]["sha256"]:
        problems.append("the receipt is about another file")
    if receipt.champion_sha256 not in ("", plan["champion"]["sha256"]):
        problems.append("the draft learned from another champion")
    if receipt.contamination_sha256 != shipped:
        problems.append("its training prompts were not filtered against these strata")
    own = [s["name"] for s in plan["strata"] if s["source"].startswith("file:")]
    return {
        "ok": not problems,
        "n": 1,
        "detail": {
            **({"reason": "; ".join(problems)} if problems else {}),
            "kind": receipt.kind,
            "licence": receipt.licence,
            "champion_licence": receipt.champion_licence,
            "contamination_dropped": receipt.contamination_dropped,
            "not_covered": own,
        },
    }


def provenance_notes(plan: Mapping[str, Any], draft: Path | None) -> tuple[str, ...]:
    """What the audit will hold against the draft, to be said when the plan is frozen and not after its run."""
    said = provenance_audit(plan, draft)
    if said is None or said["ok"]:
        return ()
    return (f"the provenance of the draft will not pass: {said['detail']['reason']}",)


def _required(plan: Mapping[str, Any]) -> bool:
    return any(gate["id"] == "provenance" and gate["requirement"] == "required" for gate in plan["gates"])
