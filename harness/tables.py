"""The tables of a run: every column's name, type, unit and meaning in one place. Readers return pandas frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

SCHEMA_VERSION = "draftgate-tables/3"
"""1: first. 2: rounds say which of them were probes. 3: requests say how much of their prompt was kept."""


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    unit: str
    doc: str
    nullable: bool = False


_S, _I, _F, _B = pa.string(), pa.int64(), pa.float64(), pa.bool_()

_KEYS = (
    Column("request_id", _S, "", "Unique in the run: arm, stratum, prompt, block, turn and entry."),
    Column("arm", _S, "", "champion_alone, prompt_lookup, neural_draft, …"),
    Column("stratum", _S, "", "The workload stratum of the prompt."),
    Column("prompt_id", _S, "", "The prompt within its stratum."),
    Column("family_id", _S, "", "The cluster: hand-written siblings share one."),
    Column("block", _I, "", "Repetition block, from 0."),
    Column("turn", _I, "", "Turn of a conversation, from 0."),
    Column("entry", _S, "", "warm (models loaded, warmed up) or cold (first request of a fresh process)."),
)

REQUESTS: tuple[Column, ...] = _KEYS + (
    Column("unit", _S, "", "Stratum × block: what is resumed and scheduled as one."),
    Column("segment", _I, "", "Counts the times the unit was resumed in the middle; 0 when never."),
    Column(
        "order", _I, "", "From 0: the arm's turn at this request (interleaved), or its process's place in the unit."
    ),
    Column("seed", _S, "", "Request seed: 16 hexadecimal digits of an unsigned 64-bit number."),
    Column("prompt_tokens", _I, "tokens", "Rendered prompt."),
    Column("cached_tokens", _I, "tokens", "Of the prompt, not read by the champion: kept from the request before."),
    Column("new_tokens", _I, "tokens", "Emitted, stop token included."),
    Column("finish_reason", _S, "", "stop, stop_string, length, context, cancelled, error."),
    Column("ttft_ns", _I, "ns", "Token ids ready to first token, prefills included, loads not."),
    Column("total_ns", _I, "ns", "Token ids ready to last token, prefills included, loads not."),
    Column("prefill_ns", _I, "ns", "Champion prefill."),
    Column("draft_prefill_ns", _I, "ns", "Draft prefill; 0 without a draft."),
    Column("load_ns", _I, "ns", "Champion load in this request's process."),
    Column("draft_load_ns", _I, "ns", "Draft load in this request's process; 0 without a draft."),
    Column("finalise_ns", _I, "ns", "Receipt, text, task check bookkeeping after the last token inside total_ns."),
    Column("champion_calls", _I, "", "Forward calls of the champion, prefill chunks excluded."),
    Column("draft_calls", _I, "", "Forward calls of the draft, prefill chunks excluded."),
    Column("rounds", _I, "", "Rounds, champion steps included."),
    Column("proposed", _I, "tokens", "Proposals sent to verification."),
    Column("accepted", _I, "tokens", "Proposals accepted."),
    Column("forced", _B, "", "The tokens were force-decoded (timing of stochastic plans)."),
    Column(
        "output_digest", _S, "", "sha256 of the run's private salt and the emitted ids: equal texts, equal digests."
    ),
    Column("quality_check", _S, "", "Name of the task check; empty where the prompt has none."),
    Column("quality", _F, "0…1", "Score of the task check.", nullable=True),
    Column("failure", _S, "", "Named failure; empty when none."),
    Column("fallback", _S, "", "Why champion-alone took over before the first token; empty when it did not."),
    Column("excluded", _S, "", "Arm-blind exclusion rule that dropped the pair; empty when none."),
    Column("probe_ns", _I, "ns", "Fixed small computation timed just before the request: the machine, not the arm."),
    Column("steal_ticks", _I, "ticks", "CPU steal during the request, from the kernel; -1 where not readable."),
    Column("started_ns", _I, "ns", "Monotonic start, comparable within one run of the parent process only."),
    Column("wall_ns", _I, "ns", "The whole call of the arm, bookkeeping after the last token included.", nullable=True),
    Column(
        "energy_uj", _I, "µJ", "Energy of the CPU packages during the request; null where not measured.", nullable=True
    ),
)

ROUNDS: tuple[Column, ...] = _KEYS + (
    Column("round", _I, "", "From 0."),
    Column("context_tokens", _I, "tokens", "Prompt and emitted tokens before this round, pending included."),
    Column("requested", _I, "tokens", "k asked for by the policy."),
    Column("proposed", _I, "tokens", "Proposals sent to verification."),
    Column("tested", _I, "tokens", "Proposals whose acceptance was decided."),
    Column("accepted", _I, "tokens", "Proposals accepted."),
    Column("emitted", _I, "tokens", "Tokens the user gets from this round."),
    Column("outcome", _S, "", "accepted_all, rejected, stop, length, champion_step, failed."),
    Column("censored", _S, "", "Exogenous reason for proposing or testing fewer: none, length, context, cancelled."),
    Column("draft_ns", _I, "ns", "Proposing, catch-up included."),
    Column("verify_ns", _I, "ns", "The champion's forward pass."),
    Column("sample_ns", _I, "ns", "Processing rows, drawing, accepting, correcting."),
    Column("rollback_ns", _I, "ns", "Commit and rollback of caches and state."),
    Column("other_ns", _I, "ns", "The rest of the round."),
    Column("total_ns", _I, "ns", "The round."),
    Column("forced_tokens", _I, "tokens", "Grammar-forced; never proposed or accepted."),
    Column(
        "entropy",
        pa.list_(pa.field("element", pa.float32())),
        "nats",
        "Draft entropy per proposed position; empty when deterministic.",
    ),
    Column("probe", _B, "", "Chosen by lot to ask for the largest k, whatever the policy would have asked."),
)

MEMORY: tuple[Column, ...] = (
    Column("unit", _S, "", "Stratum × block."),
    Column("arm", _S, "", "Arm of the process sampled."),
    Column("block", _I, "", "Block."),
    Column("sample", _I, "", "From 0, in time order."),
    Column("elapsed_ns", _I, "ns", "Since the process started."),
    Column("phase", _S, "", "start, load_champion, load_draft, warmup, request, idle, end."),
    Column("resident_bytes", _I, "bytes", "Resident set of the process."),
    Column("peak_resident_bytes", _I, "bytes", "Kernel high-water mark so far."),
    Column("kv_bytes", _I, "bytes", "Keys and values allocated, as the engines count them."),
)

SHADOW: tuple[Column, ...] = _KEYS + (
    Column("round", _I, "", "The round whose start was replayed."),
    Column("position", _I, "", "1-based proposal position i of a full block of K."),
    Column(
        "survival",
        _F,
        "probability",
        "Greedy: 1 when the first i would be accepted; stochastic: product of min(1, q/p).",
    ),
)

SCORES: tuple[Column, ...] = _KEYS + (
    Column("position", _I, "", "Emitted token, from 0, in frozen order."),
    Column("pit_ratio", _F, "0…1", "Randomised PIT with the vocabulary ordered by p/q."),
    Column("pit_id", _F, "0…1", "Randomised PIT with the vocabulary ordered by id."),
    Column("in_excess", _B, "", "The token lies in {p > q}."),
    Column("excess_mass", _F, "probability", "q of {p > q}."),
    Column("tv", _F, "probability", "Total variation between p and q at this prefix."),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "requests": REQUESTS,
    "warmups": REQUESTS,
    "rounds": ROUNDS,
    "memory": MEMORY,
    "shadow": SHADOW,
    "scores": SCORES,
}


def schema(table: str, plan_id: str = "") -> pa.Schema:
    """Arrow schema of one table; units and docs in the field metadata, plan id and version in the schema's."""
    fields = [
        pa.field(c.name, c.type, nullable=c.nullable, metadata={"unit": c.unit, "doc": c.doc}) for c in TABLES[table]
    ]
    return pa.schema(fields, metadata={"draftgate.schema": SCHEMA_VERSION, "draftgate.plan_id": plan_id})


def build(table: str, rows: Iterable[Mapping[str, Any]], plan_id: str) -> pa.Table:
    """Rows (mappings with the table's columns) to an Arrow table. Raises KeyError for a missing one that is not
    nullable."""
    columns = TABLES[table]
    listed: Sequence[Mapping[str, Any]] = list(rows)
    try:
        picked = list(map(itemgetter(*(c.name for c in columns)), listed))
    except KeyError:
        picked = [tuple(row.get(c.name) if c.nullable else row[c.name] for c in columns) for row in listed]
    values = zip(*picked, strict=True) if picked else ([] for _ in columns)
    arrays = [pa.array(column, type=c.type) for c, column in zip(columns, values, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema(table, plan_id))
