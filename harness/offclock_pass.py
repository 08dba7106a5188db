"""After the requests: what is measured off the clock. Each result is an audit record, made once however often the
run resumes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..arms.kinds import BASELINE, WITH_DRAFT
from .freeze import load_message
from .journal import EXTRA, live_records
from .process import WorkerDied, WorkerFailed
from .runner import Runner
from .schedule import drawn
from .shadow import full_block_entry, sampled_starts

Body = dict[str, Any]


def off_clock(runner: Runner) -> None:
    """Runs what is not recorded yet. A measurement that cannot be made is recorded as such: it never stops the run."""
    passes: dict[str, Callable[[Runner], Body | None]] = {
        "cold_loads": cold_loads,
        "contention": contention,
        "memory_formula": memory_formula,
        "energy": energy,
        "overhead": overhead,
    }
    for name, work in passes.items():
        if runner.journal.has("audit", name):
            continue
        runner.options.progress.note(name.replace("_", " "))
        try:
            body = work(runner)
        except (WorkerDied, WorkerFailed) as error:
            body = {"ok": False, "n": 0, "detail": {"measured": False, "reason": str(error).splitlines()[0]}}
        if body is not None:
            runner.journal.append("audit", {"audit_id": name, "name": name, **body})
    for arm in runner.arms.values():
        if arm["kind"] != BASELINE and runner.plan["measurement"]["shadow_k"] > 0:
            _shadow(runner, arm)
    runner.journal.release_parts()


def _load(runner: Runner, which: tuple[str, ...], **more: Any) -> Body:
    paths = {w: (runner.bound.paths[w] if w in which else None) for w in ("champion", "draft")}
    threads = runner.plan["schedule"]["threads"]
    return load_message(runner.options.backend, paths, threads, runner.operational.get("kernel"), **more)


def cold_loads(runner: Runner) -> Body | None:
    """Loads of each model in fresh processes: the run's own, topped up to the number the plan asks for."""
    wanted = runner.plan["measurement"]["cold_loads"]
    if not wanted:
        return None
    detail: Body = {"fresh_process": True, "page_cache": "warm: the file had been read before"}
    bodies = [body for _, body in live_records(runner.journal.records, "process")]
    count = 0
    for which in ("champion", "draft"):
        if runner.bound.paths[which] is None:
            continue
        key = "load_ns" if which == "champion" else "draft_load_ns"
        loads = [int(b[key]) for b in bodies if b[key] > 0]
        first: list[int] = []
        while len(loads) < wanted or len(first) < min(wanted, 3):
            with runner.options.executor.start() as worker:
                said = worker.ask(_load(runner, ("champion", which)))
                first.append(worker.ask({"type": "call", "name": "first_forward"})["first_forward_ns"])
            loads.append(int(said[key]))
        detail[f"{which}_load_ns"], detail[f"{which}_first_forward_ns"] = loads, first
        count += len(loads)
    return {"ok": True, "n": count, "detail": detail}


def contention(runner: Runner) -> Body | None:
    """Whether an active draft slows the champion's decode; nothing to measure without a draft."""
    if runner.bound.paths["draft"] is None:
        return None
    with runner.options.executor.start() as worker:
        worker.ask(_load(runner, ("champion", "draft")))
        found = worker.ask({"type": "call", "name": "contention"})
    return {"ok": True, "n": found["steps"], "detail": found}


def memory_formula(runner: Runner) -> Body:
    limit = runner.plan["champion"]["context_limit"]
    tokens = min(512, limit, *([runner.plan["draft"]["context_limit"]] if runner.plan["draft"] else []))
    with runner.options.executor.start() as worker:
        worker.ask(_load(runner, ("champion", "draft")))
        found = worker.ask({"type": "call", "name": "memory_formula", "tokens": tokens})
    return {"ok": True, "n": 1, "detail": found}


def energy(runner: Runner) -> Body:
    """How many requests have a reading; none is "not measured", never zero."""
    read = [b["energy_uj"] for _, b in live_records(runner.journal.records, "request") if b["energy_uj"] is not None]
    asked = bool(runner.plan["measurement"]["energy"])
    return {"ok": True, "n": len(read), "detail": {"measured": bool(read), "asked": asked, "source": "RAPL packages"}}


def overhead(runner: Runner) -> Body:
    """What harness and tracing cost, and whether the phases of a request sum to the whole."""
    shares, gaps, rounds = [], [], []
    for _, body in live_records(runner.journal.records, "request"):
        if body["entry"] == "warm" and body["total_ns"] > 0:
            shares.append((body["asked_ns"] - body["total_ns"]) / body["total_ns"])
            if body["rounds"]:
                rounds.append((body["total_ns"] - body["prefill_ns"] - body["draft_prefill_ns"]) / body["rounds"])
            gaps.append(body["unexplained_ns"] / body["total_ns"])
    with runner.options.executor.start() as worker:
        worker.ask(_load(runner, ("champion",)))
        tracing = worker.ask({"type": "call", "name": "tracing"})["tracing_ns_per_round"]
    if not shares:
        return {"ok": False, "n": 0, "detail": {"measured": False, "reason": "no warm request"}}
    round_ns = statistics.median(rounds) if rounds else 0.0
    detail = {
        "harness_share_median": statistics.median(shares),
        "tracing_ns_per_round": tracing,
        "round_ns_median": round_ns,
        "tracing_share": tracing / round_ns if round_ns else None,
        "phase_gap_max": max(map(abs, gaps)),
    }
    return {"ok": detail["phase_gap_max"] <= 0.02, "n": len(shares), "detail": detail}


def _shadow(runner: Runner, arm: Mapping[str, Any]) -> None:
    """Shadow replay of one arm, a stratum at a time: rows of the `shadow` table."""
    waiting = [s for s in runner.schedule.strata if not runner.journal.has("audit", f"shadow/{arm['name']}/{s}")]
    if not waiting:
        return
    measure, plan = runner.plan["measurement"], runner.plan
    resident = ("champion", "draft") if arm["kind"] in WITH_DRAFT else ("champion",)
    entry = full_block_entry(arm, measure["shadow_k"])
    try:
        with runner.options.executor.start() as worker:
            worker.ask(_load(runner, resident, arm=entry, decoding=plan["decoding"]))
            for stratum in waiting:
                runner.options.progress.note(f"shadow replay · {stratum}")
                bodies = list(_bodies(runner, arm["name"], stratum))
                found = worker.ask({
                    "type": "call", "name": "shadow", "requests": [_shadow_request(runner, b) for b in bodies],
                    "k": measure["shadow_k"], "greedy": runner.greedy, "stop_token_ids": plan["stop_token_ids"],
                    "stop_strings": plan["decoding"]["stop_strings"],
                })  # fmt: skip
                rows = list(_shadow_rows(bodies, found["requests"]))
                runner.journal.write(
                    "audit", ("audit_id", f"shadow/{arm['name']}/{stratum}"), EXTRA, {"table": "shadow",
                    "rows": rows}, None,
                    {"name": "shadow", "ok": True, "n": len(rows), "table": "shadow", "detail": {"arm": arm["name"]}},
                )  # fmt: skip
    except (WorkerDied, WorkerFailed) as error:
        reason = f"shadow replay of {arm['name']}: {str(error).splitlines()[0]}"
        runner.journal.deviation("not_measured", reason)


def _bodies(runner: Runner, arm: str, stratum: str) -> Iterator[Body]:
    """Warm requests of the first block: later blocks repeat them."""
    for _, body in live_records(runner.journal.records, "request"):
        if body["arm"] == arm and body["stratum"] == stratum and body["entry"] == "warm" and body["block"] == 0:
            yield body


def _shadow_request(runner: Runner, body: Body) -> Body:
    from .journal import read_line

    public, private = read_line(runner.run_dir, body), read_line(runner.run_dir, body, private=True)
    count = runner.plan["measurement"]["shadow_rounds_per_request"]
    seed = drawn(runner.plan["seed"], "shadow", body["request_id"])
    return {
        "request_id": body["request_id"], "prompt": private["prompt"], "output": private["output"],
        "seed": body["seed"],
        "stream": private["stream"], "max_new_tokens": max(1, body["new_tokens"]),
        "starts": sampled_starts(public["rounds"], count, seed),
    }  # fmt: skip


def _shadow_rows(bodies: list[Body], found: list[Body]) -> Iterator[Body]:
    keys = ("request_id", "arm", "stratum", "prompt_id", "family_id", "block", "turn", "entry")
    by_id = {b["request_id"]: b for b in bodies}
    for item in found:
        body = by_id[item["request_id"]]
        for number, (_, survival) in enumerate(item["survival"]):
            for position, value in enumerate(survival, start=1):
                yield {k: body[k] for k in keys} | {"round": number, "position": position, "survival": value}
