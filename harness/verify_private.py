"""The private part under check: token ids against the plan's hashes, the records' hashes and the tables' digests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .canonical import digest, digest_ids
from .journal import Index, Parts, live_records
from .ledger import Records
from .requests import output_digest
from .rundir import RunDir
from .seal import commitment

KINDS = ("request", "warmup", "canary", "realised")


def private_problems(run_dir: RunDir, plan: Mapping[str, Any], records: Records, index: Index) -> Iterator[str]:
    """One line per private line that is not what was recorded or frozen, and per broken commitment."""
    planned = {(s["name"], p["id"]): p for s in plan["strata"] for p in s["prompts"]}
    salts = {body["prompt"]: body["salt"] for body in index.bodies["reveal"]}
    try:
        salt = json.loads(run_dir.salt.read_bytes())["salt"]
    except (OSError, ValueError, KeyError, TypeError):
        salt = None
    parts = Parts(run_dir)
    for kind, body in live_records(records, *KINDS, retracted=index.retracted):
        name = f"{kind} {body['request_id']}"
        try:
            data = parts.data(body, private=True)
        except OSError:
            data = b""
        if digest(data) != body["output_sha256"]:
            yield f"private: the line of {name} is missing or not what was recorded"
            continue
        line = json.loads(data)
        if line["salt"] != salt:
            yield f"private: {name} was recorded under another salt than salt.json"
        if output_digest(line["salt"], line["output"]) != body["output_digest"]:
            yield f"private: the output of {name} has another digest"
        if body["turn"] == 0 and _prompt_sha(body, line, planned, salts) != _planned_sha(body, planned):
            yield f"private: {name} was run on another prompt than the frozen one"
    parts.close()


def _planned_sha(body: Mapping[str, Any], planned: Mapping[Any, Any]) -> str | None:
    prompt = planned.get((body["stratum"], body["prompt_id"]))
    return None if prompt is None else str(prompt["ids_sha256"])


def _prompt_sha(
    body: Mapping[str, Any], line: Mapping[str, Any], planned: Mapping[Any, Any], salts: Mapping[str, str]
) -> str:
    sha = digest_ids(line["prompt"])
    if planned.get((body["stratum"], body["prompt_id"]), {}).get("sealed"):
        salt = salts.get(f"{body['stratum']}/{body['prompt_id']}", "")
        return commitment(salt, body["stratum"], body["prompt_id"], sha)
    return sha
