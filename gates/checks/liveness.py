"""Gate on liveness: the draft still proposes what is accepted, at the end of the run as at its start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ...harness.wording import counted
from ..check import Check, frozen
from ..evidence import Evidence
from ..result import GateResult

COUNTS = ("rounds", "proposed", "accepted", "new_tokens")


class Liveness(Check):
    id = "liveness"
    asks = (
        "Are identical requests at the start, the middle and the end answered alike, and is anything accepted at all?"
    )
    defaults = frozen({"drop": 0.02, "floor": 0.02})
    thresholds = ("drop", "floor")

    def evaluate(self, evidence: Evidence) -> GateResult:
        floor, drop = float(self.params["floor"]), float(self.params["drop"])
        share, proposed = accepted_share(evidence)
        common: dict[str, Any] = {"estimate": share, "threshold": floor, "n": proposed, "unit": "share"}
        if share is None:
            return self.result("inconclusive", "nothing was proposed", threshold=floor, unit="share")
        if share < floor:
            found = f"{share:.1%} of {counted(proposed, 'proposal')} were accepted"
            return self.result("fail", f"{found}; a live draft has at least {floor:.0%}", **common)
        places = canary_counts(evidence)
        details = {"canaries": {where: dict(counts) for where, counts in places.items()}}
        if not {"start", "middle", "end"} <= set(places):
            there = ", ".join(places) or "none"
            reason = f"canaries are needed at start, middle and end; recorded: {there}"
            return self.result("inconclusive", reason, **common, details=details)
        if evidence.greedy:
            different = [w for w in ("middle", "end") if places[w]["key"] != places["start"]["key"]]
            if different:
                return self.result("fail", f"identical canaries differ between start and {different[0]}", **common,
                                   details=details)  # fmt: skip
            return self.result("pass", "identical canaries gave identical counts at start, middle and end", **common,
                               details=details)  # fmt: skip
        start, end = (_share(places[w]) for w in ("start", "end"))
        if start is None or end is None:
            return self.result("inconclusive", "the canaries proposed nothing", **common, details=details)
        if start - end > drop:
            return self.result("fail", f"acceptance of the canaries fell from {start:.1%} to {end:.1%}", **common,
                               details=details)  # fmt: skip
        return self.result("pass", f"acceptance of the canaries went from {start:.1%} to {end:.1%}", **common,
                           details=details)  # fmt: skip

    def disturb(self, evidence: Evidence) -> Evidence:
        return evidence.replace(
            rounds=evidence.rounds.assign(accepted=0), requests=evidence.requests.assign(accepted=0)
        )


def accepted_share(evidence: Evidence) -> tuple[float | None, int]:
    """Share of the candidate's proposals that were accepted, over all its rounds; None when it proposed nothing."""
    rounds = evidence.rounds
    if rounds.empty or not {"arm", "proposed", "accepted"} <= set(rounds.columns):
        return None, 0
    mine = rounds[(rounds["arm"] == evidence.candidate).to_numpy()]
    proposed = int(mine["proposed"].sum())
    return (float(mine["accepted"].sum()) / proposed if proposed else None), proposed


def canary_counts(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """By place in the run: the candidate's summed counts, and a key that is equal exactly when every canary is."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for body in evidence.canaries:
        if body.get("arm") == evidence.candidate:
            found[str(body.get("where"))].append(body)
    out: dict[str, dict[str, Any]] = {}
    for where, bodies in found.items():
        counts: dict[str, Any] = {c: sum(int(b.get(c) or 0) for b in bodies) for c in COUNTS}
        each = sorted((b.get("index", 0), *(b.get(c) for c in COUNTS), b.get("output_digest")) for b in bodies)
        out[where] = {**counts, "requests": len(bodies), "key": repr(each)}
    return out


def _share(counts: Mapping[str, Any]) -> float | None:
    return counts["accepted"] / counts["proposed"] if counts["proposed"] else None
