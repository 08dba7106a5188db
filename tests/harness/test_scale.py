"""A ledger of a million requests: resumed and verified in bounded memory. Prints its figures; run with ``-m long
-s``."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness.canonical import canonical_bytes, compact, digest_file
from draftgate.harness.formats import HEAD_FORMAT, LEDGER_FORMAT
from draftgate.harness.freeze import load_plan, plan_id
from draftgate.harness.ledger import scan_ledger
from draftgate.harness.rundir import RunDir
from draftgate.harness.schedule import Schedule, process_id
from draftgate.harness.store import write_tables

REQUESTS = 1_000_000
BYTES = 1_000_000_000


class Writer:
    """Appends chained records without waiting for the disk."""

    def __init__(self, path: Path) -> None:
        self.file, self.seq, self.prev = path.open("ab", buffering=1 << 20), 0, "0" * 64

    def add(self, kind: str, body: dict[str, Any]) -> None:
        line = compact({"seq": self.seq, "prev": self.prev, "kind": kind, "body": body})
        self.file.write(line + b"\n")
        self.seq, self.prev = self.seq + 1, sha256(line).hexdigest()


def million(finished: Path, folder: Path) -> RunDir:
    """The toy's plan with many prompts and blocks, and records copied from its own."""
    run_dir = RunDir(folder)
    plan = load_plan(finished)
    records = scan_ledger(RunDir(finished).ledger).records
    blocks = REQUESTS // (len(plan["strata"]) * 250 * len(plan["arms"]))
    plan["schedule"] |= {"blocks": blocks, "cold": False, "canaries": 0, "warmup_requests": 0}
    for stratum in plan["strata"]:
        prompt = stratum["prompts"][0]
        stratum["prompts"] = [prompt | {"id": f"{stratum['name']}-{i:04d}"} for i in range(250)]
    plan["decision_card_sha256"] = None
    run_dir.parts.mkdir(parents=True)
    run_dir.plan.write_bytes(canonical_bytes(plan))
    row, process = next(records.of_kind("request")).body, next(records.of_kind("process")).body
    first = records[0].body | {"plan": plan, "plan_id": plan_id(plan), "format": LEDGER_FORMAT}
    writer, schedule = Writer(run_dir.ledger), Schedule(plan)
    writer.add("plan", first)
    with (finished / "parts" / "00000.jsonl").open("rb") as file:
        rounds = json.loads(file.readline())["rounds"][:1]
    for unit in schedule.units:
        writer.add("segment", {"segment_id": f"{unit.id}#0", "unit": unit.id, "segment": 0, "arms": [], "wall_ns": 1})
        with run_dir.part(unit.index).open("wb", buffering=1 << 20) as part:
            at = 0
            for order, arm in enumerate(unit.order):
                for item in schedule.items(unit, arm):
                    line = compact({"request_id": item.request_id, "receipt": None, "rounds": rounds}) + b"\n"
                    part.write(line)
                    place = {"request_id": item.request_id, "part": [unit.index, at, len(line), 0, 0],
                             "rounds_sha256": sha256(line).hexdigest(), "output_sha256": "0" * 64}  # fmt: skip
                    own = {"arm": arm, "stratum": item.stratum, "prompt_id": item.prompt_id, "block": item.block,
                           "turn": 0, "entry": "warm", "seed": item.seed, "unit": unit.id, "order": order}  # fmt: skip
                    writer.add("request", place | {k: v for k, v in (row | own).items() if k not in place})
                    at += len(line)
                line = compact({"memory": [[1, "start", 1, 1, 0]]}) + b"\n"
                part.write(line)
                place = {"process_id": process_id(unit, arm, 0), "part": [unit.index, at, len(line), 0, 0],
                         "rounds_sha256": sha256(line).hexdigest(), "output_sha256": ""}  # fmt: skip
                body = process | {"unit": unit.id, "arm": arm}
                writer.add("process", place | {k: v for k, v in body.items() if k not in place})
                at += len(line)
    writer.file.flush()
    for body in write_tables(run_dir, plan, plan_id(plan), scan_ledger(run_dir.ledger).records):
        writer.add("table", body)
    writer.add("close", {"requests": REQUESTS, "wall_ns": 2})
    writer.file.close()
    run_dir.head.write_text(json.dumps({"format": HEAD_FORMAT, "records": writer.seq, "sha256": writer.prev}))
    return run_dir


RESUME = """
from draftgate.harness.journal import Journal
from draftgate.harness.rundir import RunDir
from draftgate.harness.freeze import load_plan
from draftgate.harness.schedule import Schedule
run_dir = RunDir({folder!r})
journal = Journal(run_dir)
schedule = Schedule(load_plan(run_dir))
owed = sum(not journal.has("request", i) for u in schedule.units for a in u.order for i in schedule.request_ids(u, a))
assert owed == 0 and journal.index.count("request") == schedule.total() == {requests}
"""
VERIFY = """
from draftgate.harness.verify import verify_run
report = verify_run({folder!r}, None)
assert report.ok and report.complete, report.problems
"""


def timed(script: str) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and peak resident bytes of a Python of its own."""
    tail = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script + tail], capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-2000:]
    used = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
    return wall, used, int(done.stdout.split()[-1]) * 1024


@pytest.mark.long
def test_a_million_requests_resume_and_verify_in_bounded_memory(finished: Path, tmp_path: Path) -> None:
    run_dir = million(finished, tmp_path / "million")
    size = run_dir.ledger.stat().st_size
    before = time.perf_counter()
    digest_file(run_dir.ledger)
    print(f"\nledger {size / 1e6:.0f} MB, sha256 alone {time.perf_counter() - before:.1f} s")
    for name, script in (("resume", RESUME), ("verify", VERIFY)):
        wall, used, peak = timed(script.format(folder=str(run_dir.path), requests=REQUESTS))
        print(f"{name}: {wall:.1f} s, {used:.1f} s of processor, peak {peak / 1e6:.0f} MB")
        assert peak <= BYTES
