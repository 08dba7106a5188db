"""Gates that rest on deterministic checks done during the run: one bad audit fails, none at all is not measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...harness.wording import counted
from ..check import Check
from ..evidence import Evidence
from ..result import GateResult


class AuditCheck(Check):
    audits: ClassVar[tuple[str, ...]]
    needed: ClassVar[tuple[str, ...]] = ()
    """Of the audits, those without which the gate does not pass; all of them where empty."""

    def evaluate(self, evidence: Evidence) -> GateResult:
        found = [(name, body) for name in self.audits for body in evidence.audits.get(name, ())]
        bad = [(name, body) for name, body in found if not body.get("ok")] + self.also_bad(evidence)
        n = sum(int(body.get("n") or 0) for _, body in found)
        detail = {
            "audits": [{"name": name, "ok": bool(b.get("ok")), "n": b.get("n"), **_detail(b)} for name, b in found]
        }
        if bad:
            said = "; ".join(f"{name}: {_said(body)}" for name, body in bad[:3])
            return self.result("fail", said, n=n, details=detail)
        missing = [name for name in (self.needed or self.audits) if name not in {name for name, _ in found}]
        if missing:
            return self.result(
                "not-measured", f"no {' and no '.join(missing)} audit in the record", n=n, details=detail
            )
        if n <= 0:
            return self.result("inconclusive", "the audits checked nothing", n=n, details=detail)
        return self.result(
            "pass",
            f"{', '.join(dict.fromkeys(x for x, _ in found))}: {counted(n, 'check')} in order",
            n=n,
            details=detail,
        )

    def also_bad(self, evidence: Evidence) -> list[tuple[str, Mapping[str, Any]]]:
        return []

    def disturb(self, evidence: Evidence) -> Evidence | None:
        audits = dict(evidence.audits)
        for name in self.audits:
            if audits.get(name):
                audits[name] = [{**body, "ok": False} for body in audits[name]]
        return evidence.replace(audits=audits)


def _detail(body: Mapping[str, Any]) -> dict[str, Any]:
    detail = body.get("detail")
    small = (
        {k: v for k, v in detail.items() if isinstance(v, (str, int, float, bool))}
        if isinstance(detail, Mapping)
        else {}
    )
    return {"detail": small}


def _said(body: Mapping[str, Any]) -> str:
    detail = body.get("detail")
    if isinstance(detail, Mapping):
        for key in ("reason", "first", "first_mismatch", "problem", "problems"):
            if detail.get(key):
                return str(detail[key])[:200]
    return "not in order"


class LogitConformance(AuditCheck):
    id = "logit-conformance"
    asks = "Does checking several tokens in one call give the same rows as one at a time, as the engine declares?"
    audits = ("conformance", "causality")


class Reliability(AuditCheck):
    id = "reliability"
    asks = "Did no request fail, and does a failure end visibly, without output twice?"
    audits = ("reliability", "timing_shape")
    needed = ("reliability",)

    def also_bad(self, evidence: Evidence) -> list[tuple[str, Mapping[str, Any]]]:
        frame = evidence.requests
        if frame.empty or "failure" not in frame:
            return []
        mine = frame[(frame["arm"] == evidence.candidate).to_numpy()]
        failed = mine[(mine["failure"].fillna("") != "") | (mine["finish_reason"] == "error")]
        if failed.empty:
            return []
        first = (
            f"{len(failed)} of {counted(len(mine), 'request')} failed, first {failed.iloc[0].get('failure') or 'error'}"
        )
        return [("requests", {"detail": {"reason": first}})]


class Deletion(AuditCheck):
    id = "deletion"
    asks = "Does the champion path stand alone when speculation is deleted?"
    audits = ("deletion",)


class Privacy(AuditCheck):
    id = "privacy"
    asks = "Do receipts and tables hold no prompt, no text, no token string, no local path?"
    audits = ("privacy",)


class Provenance(AuditCheck):
    id = "provenance"
    asks = "Is it known where the draft comes from, and that it never saw these prompts?"
    audits = ("provenance",)

    def evaluate(self, evidence: Evidence) -> GateResult:
        if evidence.plan.get("draft") is None:
            return self.result("not-applicable", "the candidate has no draft file")
        return super().evaluate(evidence)
