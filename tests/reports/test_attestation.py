"""The statement says what was tested and passes for a GO alone; a signature holds or the file is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from draftgate.gates.result import GateResult, Verdict, VerdictName
from draftgate.reports.attestation import serialise, sign, statement, verify, write_attestation
from draftgate.reports.files import ReportError
from draftgate.reports.records import RunRecords
from support.synthetic_run import SyntheticRun


def keys(tmp_path: Path, private: Any) -> tuple[Path, bytes]:
    path = tmp_path / "key.pem"
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return path, public


@pytest.mark.parametrize("name", get_args(VerdictName))
def test_only_a_go_is_passed(records: RunRecords, shared_run: SyntheticRun, name: Any) -> None:
    found = statement(records, replace(shared_run.verdict, verdict=name))
    assert (found["predicate"]["result"] == "PASSED") == (name == "GO")
    assert found["predicate"]["result"] in ("PASSED", "WARNED", "FAILED")


def test_the_subject_is_the_draft_and_every_gate_is_in_one_group(records: RunRecords, shared_run: SyntheticRun) -> None:
    gates = (GateResult("a", "pass", ""), GateResult("b", "fail", ""), GateResult("c", "inconclusive", ""),
             GateResult("d", "not-measured", ""), GateResult("e", "invalid", ""), GateResult("f", "not-applicable",
             ""))  # fmt: skip
    found = statement(records, Verdict("INVALID", shared_run.plan_id, gates))
    predicate = found["predicate"]
    assert (predicate["passedTests"], predicate["failedTests"], predicate["warnedTests"]) == (
        ["a"],
        ["b", "e"],
        ["c", "d"],
    )
    assert found["subject"][0] == {"name": "draft:toy-draft", "digest": {"sha256": shared_run.plan["draft"]["sha256"]}}
    assert {"name": "plan.json", "digest": {"sha256": shared_run.plan_id}} in found["subject"]


def test_the_bound_files_are_those_on_disk(own_run: SyntheticRun, records: RunRecords) -> None:
    path = write_attestation(own_run.path, records, own_run.verdict)
    assert path.name == "attestation.unsigned.intoto.json"
    named = {c["name"]: c["digest"]["sha256"] for c in json.loads(path.read_text())["predicate"]["configuration"]}
    assert named["ledger.jsonl"] == hashlib.sha256((own_run.path / "ledger.jsonl").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "private", [ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())], ids=["ed25519", "p256"]
)
def test_a_signature_holds_and_no_altered_envelope_does(tmp_path: Path, private: Any) -> None:
    key, public = keys(tmp_path, private)
    payload = {"a": [1, "é"]}
    envelope = sign(serialise(payload), key)
    assert verify(envelope, public) == payload
    other = keys(tmp_path, ed25519.Ed25519PrivateKey.generate())[1]
    spoiled: list[dict[str, Any]] = [
        {**envelope, "payload": sign(serialise({"a": 2}), key)["payload"]},
        {**envelope, "payloadType": "text/plain"},
        {**envelope, "signatures": []},
    ]
    for bad in spoiled:
        with pytest.raises(ReportError):
            verify(bad, public)
    with pytest.raises(ReportError, match="does not hold"):
        verify(envelope, other)


def test_a_key_that_cannot_sign_never_leaves_an_unsigned_file(
    own_run: SyntheticRun, records: RunRecords, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no key")
    for key in (bad, tmp_path / "missing.pem"):
        with pytest.raises(ReportError, match="not readable as an unencrypted PEM private key"):
            write_attestation(own_run.path, records, own_run.verdict, key)
    assert not list(own_run.path.glob("attestation.*"))
