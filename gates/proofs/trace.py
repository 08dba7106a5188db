"""What a run says it did, request by request: the public rows and the private token ids that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...harness.journal import live_records, read_line
from ...harness.ledger import read_ledger
from ...harness.rundir import RunDir


class TraceMissing(Exception):
    """The private part of a run was withheld or deleted; replay needs it."""

    exit_code = 2


@dataclass(frozen=True)
class Trace:
    """One request as recorded. Everything here is a claim that the audit re-derives."""

    request_id: str
    arm: str
    prompt: Sequence[int]
    output: Sequence[int]
    finish_reason: str
    seed: int
    stream: str
    max_new_tokens: int
    stop_ids: Sequence[int] = ()
    stop_strings: Sequence[str] = ()
    rounds: Sequence[Mapping[str, Any]] = ()
    """Rows of the `rounds` table without their keys."""
    steps: Sequence[Mapping[str, Any]] = ()
    """The private trace: per round its proposals, forced and emitted tokens."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """new_tokens, rounds, proposed and accepted of the request's row."""
    forced: bool = False
    """Force-decoded for timing: nothing was chosen."""
    failure: str = ""
    fallback: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)


def from_completion(request: Any, arm: str, completion: Any) -> Trace:
    """The trace of a completion still in memory (`arms.request`)."""
    rounds = [{**vars(r), "forced_tokens": r.forced, "entropy": list(r.entropy)} for r in completion.rounds]
    return Trace(
        request_id=request.request_id,
        arm=arm,
        prompt=list(request.prompt),
        output=list(completion.tokens),
        finish_reason=completion.finish_reason,
        seed=request.seed,
        stream=request.stream,
        max_new_tokens=request.max_new_tokens,
        stop_ids=request.stop.token_ids,
        stop_strings=request.stop.strings,
        rounds=rounds,
        steps=completion.trace,
        totals={
            "new_tokens": len(completion.tokens),
            "rounds": len(rounds),
            "proposed": sum(r["proposed"] for r in rounds),
            "accepted": sum(r["accepted"] for r in rounds),
        },
        forced=request.forced is not None,
        failure=completion.failure or "",
        fallback=completion.fallback or "",
        counters=dict(completion.counters),
    )


def recorded_traces(run_dir: Path | str | RunDir, plan: Mapping[str, Any], arms: Sequence[str]) -> Iterator[Trace]:
    """Traces of the ``arms``' requests, in ledger order; the canaries', under the same arms, at their places.

    Streams, seeds and limits are taken from the plan's schedule, never from what the run wrote. Raises TraceMissing
    where the private part is gone, ValueError where its bytes are not what the ledger binds.
    """
    from ...harness.schedule import Schedule

    where = RunDir(run_dir)
    schedule = Schedule(plan)
    items = {i.request_id: i for i in schedule.requests()}
    items |= {
        i.request_id: i for place in ("start", "middle", "end") for a in arms for i in schedule.canaries(place, a)
    }
    for _, body in live_records(read_ledger(where.path).records, "request", "canary"):
        if body["arm"] not in arms:
            continue
        try:
            private, public = read_line(where, body, private=True), read_line(where, body)
        except FileNotFoundError:
            raise TraceMissing(f"{where.path}: the private part of the run is not here; replay needs it") from None
        item = items.get(body["request_id"])
        if item is None:
            raise ValueError(f"{body['request_id']}: the plan schedules no such request")
        yield Trace(
            request_id=item.request_id,
            arm=item.arm,
            prompt=private["prompt"],
            output=private["output"],
            finish_reason=body["finish_reason"],
            seed=int(item.seed, 16),
            stream=item.stream,
            max_new_tokens=item.max_new_tokens,
            stop_ids=plan["stop_token_ids"],
            stop_strings=plan["decoding"].get("stop_strings", ()),
            rounds=public["rounds"],
            steps=private["trace"] or (),
            totals={k: body[k] for k in ("new_tokens", "rounds", "proposed", "accepted")},
            forced=bool(body["forced"]),
            failure=body["failure"],
            fallback=body["fallback"],
            counters=private.get("counters") or {},
        )
