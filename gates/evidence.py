"""Everything a verdict may rest on: one run directory, read once, changed never."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ..arms.kinds import BASELINE as BASELINE
from ..harness.canonical import digest_file, digest_value
from ..harness.errors import DraftgateError, IncompleteRun, IntegrityError
from ..harness.freeze import load_plan, plan_id
from ..harness.journal import live_records
from ..harness.ledger import LedgerReading, read_ledger
from ..harness.rundir import RunDir
from .private_outputs import PrivateOutputs

REQUIRED_TABLES = ("requests", "rounds")
FRAMES = ("requests", "rounds", "memory", "shadow", "scores")
NOTHING = pd.DataFrame()


class EvidenceError(DraftgateError):
    """A run directory that cannot be read at all. Readable but wrong evidence is a gate's business, not an error."""


@dataclass(frozen=True)
class Ledger:
    """The records in order, and the first thing wrong with the chain; None when it holds."""

    records: Sequence[Mapping[str, Any]] = ()
    problem: str | None = None


@dataclass(frozen=True)
class Evidence:
    """One run. Frames have the columns of `harness.tables`, and may be empty; nothing here is modified in place."""

    plan: Mapping[str, Any]
    plan_id: str
    requests: pd.DataFrame
    rounds: pd.DataFrame
    memory: pd.DataFrame = field(default_factory=pd.DataFrame)
    shadow: pd.DataFrame = field(default_factory=pd.DataFrame)
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    ledger: Ledger = Ledger()
    audits: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Bodies of the audit records by name."""
    deviations: Sequence[Mapping[str, Any]] = ()
    canaries: Sequence[Mapping[str, Any]] = ()
    table_problems: Sequence[str] = ()
    """Tables whose bytes, plan id or schema are not what the ledger says."""
    with_excluded: bool = False
    """Count pairs that an exclusion rule dropped, too (the all-data verdict)."""

    decision_card: Mapping[str, Any] | None = None
    """Computed at freeze; None when the plan has none, or its bytes are not those the plan is bound to."""
    outputs: Callable[[Iterable[str]], Mapping[str, list[int]]] | None = None
    """Token ids of answers by request id, where the private folder is at hand: for messages, never for a decision."""
    method: str = "section-3"
    """How intervals of paired means are made; others are for the multiverse."""
    given: Mapping[tuple[str, str, str], Any] = field(default_factory=dict)
    """Pairs by (arm, baseline, column) made without tables: the decision card's simulations."""
    root: Path | None = None
    """The run directory it was read from, resolved; None for evidence that was made."""
    known_pairs: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Pairs already made of these requests (`gates.pairs`), by what they depend on besides."""

    @property
    def candidate(self) -> str:
        return str(self.plan.get("candidate", ""))

    @property
    def greedy(self) -> bool:
        decoding = self.plan.get("decoding") or {}
        return float(decoding.get("temperature", 0.0) or 0.0) == 0.0

    @property
    def alpha(self) -> float:
        """One-sided level of every gate: the plan's alpha over its budget of attempts."""
        return float(self.plan.get("alpha", 0.025)) / max(1, int(self.plan.get("attempts_budget", 1) or 1))

    @property
    def environment(self) -> Mapping[str, Any]:
        """What the ledger's first record says of the machine; empty when it says nothing."""
        for record in self.ledger.records:
            if record.get("kind") == "plan":
                return dict((record.get("body") or {}).get("environment") or {})
        return {}

    def arms(self, kind: str | None = None) -> list[Mapping[str, Any]]:
        return [a for a in self.plan.get("arms", ()) if kind is None or a.get("kind") == kind]

    def weights(self) -> dict[str, float]:
        """Stratum weights of the plan, normalised; equal when the plan has none."""
        strata = list(self.plan.get("strata", ()))
        raw = {str(s["name"]): float(s.get("weight", 1.0) or 0.0) for s in strata}
        total = sum(raw.values())
        if total <= 0:
            raw, total = dict.fromkeys(raw, 1.0), float(len(raw) or 1)
        return {name: w / total for name, w in raw.items()}

    def designated(self) -> tuple[str, ...]:
        return tuple(str(s["name"]) for s in self.plan.get("strata", ()) if s.get("designated"))

    @classmethod
    def without_tables(cls, plan: Mapping[str, Any]) -> Evidence:
        """A plan and nothing else."""
        return cls(plan, "", NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)

    def replace(self, **changes: Any) -> Evidence:
        changed = dataclasses.replace(self, **changes)
        if not changes.keys() & {"requests", "given"}:
            changed.known_pairs.update(self.known_pairs)
        return changed


def warm(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of requests or rounds without those of cold entries."""
    return rows[(rows["entry"] != "cold").to_numpy()] if "entry" in rows else rows


def cluster_column(rows: pd.DataFrame) -> str:
    """The column that names a row's cluster: the family of its prompt, or the prompt where no family is told."""
    return "family_id" if "family_id" in rows else "prompt_id"


def load_evidence(run_dir: Path | str) -> Evidence:
    """Reads plan, ledger and tables. Raises EvidenceError when it is unreadable, IncompleteRun before its end, and
    IntegrityError when a record is not what a runner writes."""
    root = Path(run_dir)
    if not root.is_dir():
        raise EvidenceError(f"{root}: no such run directory")
    try:
        return _load(root)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IntegrityError(
            f"{root}: plan or records cannot be read ({type(error).__name__}: {str(error)[:80]}); "
            "`draftgate verify` says where"
        ) from error


def _load(root: Path) -> Evidence:
    plan = load_plan(root)
    identifier = plan_id(plan)
    reading = read_ledger(root)
    if not len(reading.records) and reading.problem is not None and root.joinpath("ledger.jsonl").exists():
        raise IntegrityError(f"{root / 'ledger.jsonl'}: {reading.problem}")
    if not len(reading.records):
        raise IncompleteRun(f"{root.name}: nothing has run yet; `draftgate run` starts")
    ledger = Ledger(reading.records, reading.problem)
    missing = [name for name in REQUIRED_TABLES if not _paths(root, name)]
    # A chain broken in the middle hides the close: that run is not unfinished but invalid, and the gates say so.
    ended = any(reading.records.of_kind("close")) or (reading.problem is not None and reading.torn_at is None)
    if missing or not ended:
        what = ", ".join(f"results/{m}.parquet" for m in missing) or "closing record"
        raise IncompleteRun(f"{root.name}: the run has not ended (no {what}); `draftgate run` goes on from here")
    frames: dict[str, Any] = {}
    problems = _table_hashes(root, reading)
    for name in FRAMES:
        frames[name], trouble = _read(root, name, identifier)
        problems += trouble
    card, card_problem = _card(root, plan)
    problems += card_problem
    audits: dict[str, list[Mapping[str, Any]]] = {}
    deviations, canaries = [], []
    for kind, body in live_records(reading.records, "audit", "deviation", "canary"):
        if kind == "audit":
            audits.setdefault(str(body.get("name", "")), []).append(body)
        elif kind == "canary":
            canaries.append(body)
        else:
            deviations.append(body)
    return Evidence(
        plan=plan,
        plan_id=identifier,
        ledger=ledger,
        audits=audits,
        deviations=tuple(deviations),
        canaries=tuple(canaries),
        decision_card=card,
        outputs=PrivateOutputs(root),
        table_problems=tuple(problems),
        root=root.resolve(),
        **frames,
    )


def _card(root: Path, plan: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The decision card the plan is bound to; a problem when the file beside it is another one."""
    bound = plan.get("decision_card_sha256")
    if not bound:
        return None, []
    try:
        card = json.loads(RunDir(root).card.read_bytes())
    except (OSError, ValueError):
        return None, []
    if digest_value(card) != bound:
        return None, ["decision_card.json: not the card whose hash the plan holds"]
    return card, []


def _paths(root: Path, name: str) -> list[Path]:
    single, folder = root / "results" / f"{name}.parquet", root / "results" / name
    if single.is_file():
        return [single]
    if single.is_dir():
        folder = single
    return sorted(folder.glob("*.parquet")) if folder.is_dir() else []


def _read(root: Path, name: str, plan_id: str) -> tuple[pd.DataFrame, list[str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ..harness.tables import SCHEMA_VERSION, schema

    parts, problems = [], []
    for path in _paths(root, name):
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            problems.append(f"{path.name}: not readable ({type(error).__name__})")
            continue
        said = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        if said.get("draftgate.schema") != SCHEMA_VERSION:
            problems.append(
                f"{path.name}: schema {said.get('draftgate.schema')!r}, this version reads {SCHEMA_VERSION}"
            )
            continue
        if said.get("draftgate.plan_id") != plan_id:
            problems.append(f"{path.name}: belongs to plan {str(said.get('draftgate.plan_id'))[:12]}")
        parts.append(table)
    if not parts:
        return schema(name).empty_table().to_pandas(), problems
    return pa.concat_tables(parts, promote_options="permissive").to_pandas(), problems


def _table_hashes(root: Path, reading: LedgerReading) -> list[str]:
    """Compares every table the ledger closed with the bytes on disk."""
    problems = []
    closed = {str(r.body.get("name")): r.body.get("sha256") for r in reading.records.of_kind("table")}
    problems += [f"{name}: no record of the ledger binds its bytes" for name in REQUIRED_TABLES if name not in closed]
    for name, sha in closed.items():
        paths = _paths(root, name)
        if len(paths) != 1:
            problems.append(f"{name}: {'missing' if not paths else 'more parts than the ledger closed'}")
        elif digest_file(paths[0]) != sha:
            problems.append(f"{paths[0].name}: bytes differ from the ledger's hash")
    return problems
