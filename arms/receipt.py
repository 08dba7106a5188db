"""The privacy-safe receipt of one request: exactly these fields, and never a prompt, a text, a token or a path."""

from __future__ import annotations

import hashlib
import platform
import resource
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from .request import Completion, Request

RECEIPT_VERSION: Final = "draftgate-receipt/1"
NONE: Final = "none"

FIELDS: Final[Mapping[str, type]] = {
    "receipt_version": str,
    "request_nonce": str,
    "champion_artifact_hash": str,
    "draft_artifact_hash": str,
    "tokenizer_hash": str,
    "chat_template_hash": str,
    "adapter_chain_hash": str,
    "sampling_policy_hash": str,
    "grammar_hash": str,
    "position_policy_hash": str,
    "scheduler_policy_hash": str,
    "hardware_class": str,
    "runtime_version": str,
    "seed_commitment": str,
    "target_calls": int,
    "draft_calls": int,
    "proposals": int,
    "accepted_histogram": dict,
    "rejection_position_histogram": dict,
    "timing_ns": dict,
    "peak_resident_bytes": dict,
    "numeric_errors": dict,
    "failure_code": str,
}
"""Field -> type. Nothing else may be in a receipt."""

TIMINGS: Final = (
    "ttft",
    "total",
    "prefill",
    "draft_prefill",
    "draft",
    "verify",
    "sample",
    "rollback",
    "other",
    "finalise",
)
NUMERIC: Final = ("draft_numeric", "target_numeric", "residual_invariant", "proposal_invariant")
IDENTITIES: Final = (
    "champion_artifact_hash", "draft_artifact_hash", "tokenizer_hash", "chat_template_hash", "adapter_chain_hash",
    "sampling_policy_hash", "grammar_hash", "position_policy_hash", "scheduler_policy_hash",
)  # fmt: skip


def digest(text: str | None) -> str:
    """sha256 of a text; ``none`` where there is none."""
    return NONE if text is None else hashlib.sha256(text.encode()).hexdigest()


def make_receipt(request: Request, completion: Completion, identities: Mapping[str, Any]) -> dict[str, Any]:
    """``identities``: any of IDENTITIES, as hashes; what is not given is ``none``."""
    rounds = completion.rounds
    rejected = Counter(r.accepted + 1 for r in rounds if r.outcome == "rejected")
    phases = {
        name: sum(getattr(r, f"{name}_ns") for r in rounds)
        for name in ("draft", "verify", "sample", "rollback", "other")
    }
    whole = {
        name: getattr(completion, f"{name}_ns") for name in ("ttft", "total", "prefill", "draft_prefill", "finalise")
    }
    timings = {**whole, **phases}
    receipt = {
        "receipt_version": RECEIPT_VERSION,
        "request_nonce": digest(request.request_id)[:16],
        **{name: str(identities.get(name, NONE)) for name in IDENTITIES},
        "hardware_class": f"{platform.machine()}/{sys.platform}",
        "runtime_version": f"python {platform.python_version()}",
        "seed_commitment": digest(f"{request.seed:016x}|{request.stream}"),
        "target_calls": completion.champion_calls,
        "draft_calls": completion.draft_calls,
        "proposals": sum(r.proposed for r in rounds),
        "accepted_histogram": {str(n): c for n, c in sorted(Counter(r.accepted for r in rounds if r.proposed).items())},
        "rejection_position_histogram": {str(n): c for n, c in sorted(rejected.items())},
        "timing_ns": {name: int(timings[name]) for name in TIMINGS},
        "peak_resident_bytes": {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024},
        "numeric_errors": {name: completion.counters[name] for name in NUMERIC if completion.counters.get(name)},
        "failure_code": completion.failure or completion.fallback or NONE,
    }
    problems = receipt_problems(receipt)
    if problems:
        raise AssertionError(f"a receipt broke its own schema: {problems[0]}")
    return receipt


def receipt_problems(receipt: Mapping[str, Any]) -> list[str]:
    """Why a mapping is no receipt: fields missing or not allowed, wrong types, text where only numbers belong."""
    problems = [f"field {name} is not allowed" for name in receipt if name not in FIELDS]
    problems += [f"field {name} is missing" for name in FIELDS if name not in receipt]
    for name, kind in FIELDS.items():
        value = receipt.get(name)
        if name in receipt and (not isinstance(value, kind) or isinstance(value, bool)):
            problems.append(f"field {name} is not a {kind.__name__}")
        elif isinstance(value, dict):
            allowed = {"timing_ns": TIMINGS, "numeric_errors": NUMERIC, "peak_resident_bytes": ("process", "kv")}.get(
                name
            )
            for key, entry in value.items():
                fine = key in allowed if allowed is not None else str(key).isdigit()
                if not fine or not isinstance(entry, int) or isinstance(entry, bool):
                    problems.append(f"field {name} holds {key!r}, which is not allowed")
        elif isinstance(value, str) and len(value) > 64:
            problems.append(f"field {name} is longer than a hash")
    return problems
