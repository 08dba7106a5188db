"""From a worker's answer to the rows that are recorded: request, rounds, and what stays private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .canonical import digest
from .errors import IncompleteRun
from .schedule import Item


def output_digest(salt: str, tokens: Sequence[int]) -> str:
    """Equal texts, equal digests, and nothing else to be read from it: salted with the run's private salt."""
    return digest(f"{salt}|{','.join(map(str, tokens))}".encode())


def request_row(
    item: Item,
    answer: Mapping[str, Any],
    *,
    unit: str,
    segment: int,
    order: int,
    loads: Mapping[str, int],
    prompt_tokens: int,
    forced: bool,
    salt: str,
    check: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A row of `requests` (harness.tables), columns in order. ``excluded`` is decided when tables are built."""
    done, rounds = answer["completion"], answer["completion"]["rounds"]
    return {
        "request_id": item.request_id,
        "arm": item.arm,
        "stratum": item.stratum,
        "prompt_id": item.prompt_id,
        "family_id": item.family_id,
        "block": item.block,
        "turn": item.turn,
        "entry": item.entry,
        "unit": unit,
        "segment": segment,
        "order": order,
        "seed": item.seed,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": done["cached_tokens"],
        "new_tokens": len(done["tokens"]),
        "finish_reason": done["finish_reason"],
        "ttft_ns": done["ttft_ns"],
        "total_ns": done["total_ns"],
        "prefill_ns": done["prefill_ns"],
        "draft_prefill_ns": done["draft_prefill_ns"],
        "load_ns": loads["load_ns"],
        "draft_load_ns": loads["draft_load_ns"],
        "finalise_ns": done["finalise_ns"],
        "champion_calls": done["champion_calls"],
        "draft_calls": done["draft_calls"],
        "rounds": len(rounds),
        "proposed": sum(r["proposed"] for r in rounds),
        "accepted": sum(r["accepted"] for r in rounds),
        "forced": forced,
        "output_digest": output_digest(salt, done["tokens"]),
        "quality_check": str(check.get("kind", "check")) if check is not None else "",
        "quality": answer["quality"],
        "failure": done["failure"] or "",
        "fallback": done["fallback"] or "",
        "excluded": "",
        "probe_ns": answer["probe_ns"],
        "steal_ticks": answer["steal_ticks"],
        "started_ns": answer["started_ns"],
        "wall_ns": answer["wall_ns"],
        "energy_uj": answer["energy_uj"],
    }


def round_rows(item: Item, rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `rounds` without the keys they share with their request, which are added when the table is built."""
    return [
        {
            **{k: r[k] for k in (
                "round", "context_tokens", "requested", "proposed", "tested", "accepted", "emitted", "outcome",
                "censored",
                "draft_ns", "verify_ns", "sample_ns", "rollback_ns", "other_ns", "total_ns",
            )},
            "forced_tokens": r["forced"],
            "entropy": list(r["entropy"]),
            "probe": r["probe"],
        }
        for r in rounds
    ]  # fmt: skip


def check_times(item: Item, answer: Mapping[str, Any], asked_ns: int) -> None:
    """Raises IncompleteRun when a clock ran backwards during the request: its times mean nothing, so nothing is
    recorded."""
    done = answer["completion"]
    times = {k: done[k] for k in ("ttft_ns", "total_ns", "prefill_ns", "draft_prefill_ns")}
    times |= {"wall_ns": answer["wall_ns"], "probe_ns": answer["probe_ns"], "asked_ns": asked_ns}
    bad = [k for k, v in times.items() if v < 0]
    if bad or any(r["total_ns"] < 0 for r in done["rounds"]):
        raise IncompleteRun(
            f"the clock ran backwards during {item.request_id} ({', '.join(bad) or 'a round'} is negative); it is "
            f"not recorded: "
            "run the same command again"
        )


def unexplained(answer: Mapping[str, Any]) -> int:
    """Nanoseconds of the whole that no phase accounts for; negative where phases overlap."""
    done = answer["completion"]
    phases = done["prefill_ns"] + done["draft_prefill_ns"] + done["finalise_ns"]
    return int(done["total_ns"] - phases - sum(r["total_ns"] for r in done["rounds"]))


def private_line(item: Item, prompt: Sequence[int], answer: Mapping[str, Any], salt: str) -> dict[str, Any]:
    """What replay needs and tables must not hold: token ids and the trace of proposals."""
    return {
        "request_id": item.request_id,
        "salt": salt,
        "prompt": list(prompt),
        "output": answer["completion"]["tokens"],
        "stream": item.stream,
        "trace": answer["trace"],
        "counters": answer["completion"]["counters"],
    }
