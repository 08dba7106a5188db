"""The verdict as an in-toto statement with the test-result predicate; signed in a DSSE envelope where a key is given.

Statement: in-toto v1, predicate https://in-toto.io/attestation/test-result/v0.1. Attested are the digests of the plan,
of the candidate's and champion's files and of the reports, with every gate as passed, warned or failed test.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from ..gates.checks.speed import WITHOUT_DRAFT
from ..gates.result import GateResult, Verdict
from .files import ReportError, write_text
from .records import RunRecords

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
RESULTS = {"GO": "PASSED", "NO-GO": "FAILED", "INCONCLUSIVE": "WARNED", "INVALID": "FAILED"}


def statement(records: RunRecords, verdict: Verdict, evidence_files: Sequence[Path] = ()) -> dict[str, Any]:
    """The unsigned statement. Its `result` is PASSED for GO alone; an open verdict is WARNED, never PASSED."""
    groups: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for gate in verdict.gates:
        if gate.status != "not-applicable":
            groups[_group(gate)].append(gate.id)
    configuration = [_resource("plan.json", verdict.plan_id)]
    for path in evidence_files:
        if path.is_file():
            configuration.append(_resource(path.name, hashlib.sha256(path.read_bytes()).hexdigest()))
    return {
        "_type": STATEMENT_TYPE,
        "subject": _subjects(records, verdict),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": RESULTS[verdict.verdict],
            "configuration": configuration,
            **groups,
            "annotations": {
                "verdict": verdict.verdict,
                "exploratory": verdict.exploratory,
                "reasons": list(verdict.reasons),
            },
        },
    }


def _group(gate: GateResult) -> str:
    return {"pass": "passedTests", "fail": "failedTests", "invalid": "failedTests"}.get(gate.status, "warnedTests")


def _resource(name: str, sha256: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": sha256}}


def _subjects(records: RunRecords, verdict: Verdict) -> list[dict[str, Any]]:
    """The candidate's file first; where the candidate needs none, champion and plan stand for the decision."""
    found = []
    kinds = {a["name"]: a.get("kind") for a in records.plan["arms"]}
    roles = ("draft", "champion") if kinds.get(records.candidate) not in WITHOUT_DRAFT else ("champion",)
    for role in roles:
        model: Mapping[str, Any] = records.plan.get(role) or {}
        if model.get("sha256"):
            found.append(_resource(f"{role}:{model.get('name', '')}", str(model["sha256"])))
    return [*found, _resource("plan.json", verdict.plan_id)]


def serialise(value: Mapping[str, Any]) -> bytes:
    """The bytes that are hashed and signed: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def write_attestation(run_dir: Path, records: RunRecords, verdict: Verdict, key: Path | None = None) -> Path:
    """Writes ``attestation.unsigned.intoto.json`` (a bare statement) or, with a key, ``attestation.dsse.json``.

    An unsigned statement is no envelope and says nothing about who wrote it; its name says so. Raises ReportError when
    a key is given and cannot be used: it never falls back to an unsigned file.
    """
    files = [run_dir / name for name in ("ledger.jsonl", "verdict.json", "report.html")]
    payload = serialise(statement(records, verdict, files))
    if key is None:
        return write_text(run_dir / "attestation.unsigned.intoto.json", payload.decode() + "\n")
    return write_text(run_dir / "attestation.dsse.json", json.dumps(sign(payload, key), indent=1) + "\n")


def sign(payload: bytes, key: Path) -> dict[str, Any]:
    """A DSSE envelope over ``payload`` by an unencrypted private key in PEM (Ed25519, ECDSA or RSA). Extra `[sign]`."""
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from securesystemslib.dsse import Envelope
        from securesystemslib.signer import CryptoSigner
    except ImportError as error:
        raise ReportError(f"signing needs the extra: pip install 'draftgate[sign]' ({error})") from error
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ReportError(f"{key}: not readable as an unencrypted PEM private key ({error})") from error
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(private))
    return dict(envelope.to_dict())


def verify(envelope: Mapping[str, Any], public_pem: bytes) -> dict[str, Any]:
    """The statement inside a DSSE envelope, once its signature holds under the PEM public key. Raises ReportError."""
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from securesystemslib.dsse import Envelope
        from securesystemslib.exceptions import VerificationError
        from securesystemslib.signer import SSlibKey
    except ImportError as error:
        raise ReportError(f"checking a signature needs the extra: pip install 'draftgate[sign]' ({error})") from error
    try:
        opened = Envelope.from_dict(deepcopy(dict(envelope)))  # it takes keys out of what it is given
        opened.verify([SSlibKey.from_crypto(load_pem_public_key(public_pem))], 1)
    except (VerificationError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"the attestation's signature does not hold ({error})") from error
    if opened.payload_type != PAYLOAD_TYPE:
        raise ReportError(f"the envelope holds {opened.payload_type!r}, not an in-toto statement")
    return dict(json.loads(opened.payload))
