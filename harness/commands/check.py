"""Re-verify every bound identity, print what would run and about how long it takes. Runs nothing that is recorded."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from .plan_options import add_model_options, path_overrides


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR", help="run directory with plan.json")
    add_model_options(parser)
    parser.add_argument(
        "--no-measure", action="store_true", help="skip the short measurement, and with it the estimate"
    )
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..backend import DEFAULT_BACKEND
    from ..bound import bind
    from ..estimate import estimate
    from ..freeze import load_operational, load_plan, plan_id
    from ..journal import live_records
    from ..ledger import read_ledger
    from ..process import SubprocessExecutor
    from ..room import needed_bytes
    from ..rundir import RunDir
    from ..schedule import Schedule

    run_dir = RunDir(args.dir)
    plan = load_plan(run_dir)
    operational = load_operational(run_dir) | path_overrides(args)
    executor = SubprocessExecutor()
    bound = bind(run_dir, plan, operational, DEFAULT_BACKEND, executor)
    schedule = Schedule(plan)
    done = sum(1 for _ in live_records(read_ledger(run_dir).records, "request")) if run_dir.ledger.exists() else 0
    found: dict[str, Any] = {
        "plan_id": plan_id(plan), "identities": "match", "units": len(schedule.units), "arms": schedule.arms,
        "requests": sum(1 for _ in schedule.requests()), "recorded": done,
    }  # fmt: skip
    if schedule.interleaved:
        found["memory_bytes"] = needed_bytes(plan, bound.paths)
    if not args.no_measure:
        kernel = operational.get("kernel")
        found["estimate"] = dataclasses.asdict(estimate(plan, bound, DEFAULT_BACKEND, executor, kernel))
    if args.json:
        print(json.dumps(found))
    else:
        _print(plan, schedule, found)
    return 0


def _print(plan: dict[str, Any], schedule: Any, found: dict[str, Any]) -> None:
    from ..wording import counted, spoken

    size = plan["schedule"]
    print(f"plan {found['plan_id']}: every bound identity matches")
    prompts = sum(len(s["prompts"]) for s in plan["strata"])
    strata, blocks = counted(len(plan["strata"]), "stratum", "strata"), counted(size["blocks"], "block")
    new = counted(size["max_new_tokens"], "new token")
    print(f"{strata}, {counted(prompts, 'prompt')}, {blocks}, {new} at most")
    print(f"arms, one fresh process each per stratum and block: {', '.join(schedule.arms)}")
    first = "a cold entry, " if size["cold"] else ""
    warmups = counted(size["warmup_requests"], "warm-up request")
    print(f"per process: {first}{warmups}, then the warm ones; rest {size['rest_s']:g} s before it")
    if schedule.interleaved:
        print(
            f"the processes of a unit live side by side (about {found['memory_bytes'] / 1e9:.1f} GB together), "
            "and every arm answers a warm request before the next one"
        )
    if schedule.preamble_tokens is not None:
        words = counted(schedule.preamble_tokens, "token")
        print(f"not read again: the chat template's beginning ({words}), and a conversation's earlier turns")
    print(f"canaries per arm at start, middle and end: {size['canaries']}")
    for unit in schedule.units[:6]:
        print(f"  {unit.id}: {' → '.join(unit.order)}")
    if len(schedule.units) > 6:
        print(f"  … {counted(len(schedule.units) - 6, 'more unit')}")
    print(f"{counted(found['requests'], 'request')}, {found['recorded']} recorded")
    if "estimate" in found:
        e = found["estimate"]
        print(
            f"about {spoken(e['seconds'])} at most for all of it: {counted(e['processes'], 'process', 'processes')}, "
            f"up to {counted(e['tokens'], 'token')}"
        )
