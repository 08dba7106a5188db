"""A DSSE envelope around plan.json, by a PEM key. Extra `[sign]`."""

from __future__ import annotations

import binascii
import json
from pathlib import Path
from typing import Any

from .atomic import write_bytes
from .errors import DraftgateError, IntegrityError, PlanError
from .rundir import RunDir

PAYLOAD_TYPE = "application/vnd.draftgate.plan+json"


def _modules() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from securesystemslib import dsse, exceptions, signer
    except ImportError as error:
        raise DraftgateError(f"envelopes need the extra: pip install 'draftgate[sign]' ({error})") from None
    return serialization, dsse, signer, exceptions


def write_envelope(run_dir: RunDir, key: Path) -> Path:
    """Sign plan.json's bytes with an unencrypted private key in PEM (Ed25519, ECDSA or RSA). Raises PlanError."""
    serialization, dsse, signer, _ = _modules()
    try:
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{key}: not readable as an unencrypted PEM private key ({error})") from None
    envelope = dsse.Envelope(run_dir.plan.read_bytes(), PAYLOAD_TYPE, {})
    envelope.sign(signer.CryptoSigner(private))
    return write_bytes(run_dir.envelope, json.dumps(envelope.to_dict(), indent=1).encode() + b"\n")


def check_envelope(run_dir: RunDir, public_key: Path) -> None:
    """Raises IntegrityError when the envelope is missing, holds another plan, or its signature does not hold."""
    serialization, dsse, signer, exceptions = _modules()
    try:
        key = signer.SSlibKey.from_crypto(serialization.load_pem_public_key(public_key.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{public_key}: not readable as a PEM public key ({error})") from None
    try:
        envelope = dsse.Envelope.from_dict(json.loads(run_dir.envelope.read_bytes()))
        envelope.verify([key], 1)
    except FileNotFoundError:
        raise IntegrityError(f"{run_dir.envelope}: there is no envelope") from None
    except (exceptions.VerificationError, ValueError, KeyError, TypeError, binascii.Error) as error:
        raise IntegrityError(f"{run_dir.envelope}: the signature does not hold ({error})") from None
    if envelope.payload_type != PAYLOAD_TYPE or envelope.payload != run_dir.plan.read_bytes():
        raise IntegrityError(f"{run_dir.envelope}: holds something else than this plan")


__all__ = ["PAYLOAD_TYPE", "check_envelope", "write_envelope"]
