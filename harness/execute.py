"""The whole life of a run: lock, mend, check what is bound, run what is missing, tables, audits, verdict, close."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import atomic
from .attempts import attempts_file, count_attempt
from .bound import Bound, bind, mismatch
from .canonical import canonical_bytes, digest, digest_file
from .clock import iso
from .errors import IntegrityError
from .formats import HEAD_FORMAT, LEDGER_FORMAT
from .freeze import load_operational, load_plan, plan_id
from .hardware import cpu_model, hardware_class, machine_fingerprint
from .identity import package_version
from .journal import Index, Journal
from .ledger import scan_ledger
from .lock import RunLock
from .machine import machine_state, memory_bandwidth
from .offclock_pass import off_clock
from .own_files import require_own_files
from .privacy import privacy_audit
from .provenance import provenance_audit
from .room import require_room
from .rundir import RunDir
from .runner import Runner, RunOptions, private_salt
from .schedule import Schedule
from .set_aside import set_aside
from .store import write_tables


@dataclass(frozen=True)
class RunOutcome:
    plan_id: str
    requests: int
    verdict: Any = None
    """`gates.result.Verdict`; None when the gates are not installed."""
    notes: tuple[str, ...] = ()
    deviations: int = 0


@dataclass
class Execution:
    """One call of `run`."""

    run_dir: RunDir
    services: Any
    options: RunOptions
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Paths given on the command line: champion_path, draft_path."""
    accept_machine: bool = False
    with_verdict: bool = True

    def go(self) -> RunOutcome:
        """Raises IncompleteRun, IntegrityError, PlanError; whatever was recorded stays."""
        if not self.run_dir.path.is_dir():
            load_plan(self.run_dir)
        require_own_files(self.run_dir)
        with RunLock(self.run_dir):
            restore_plan(self.run_dir)
            plan = load_plan(self.run_dir)
            identifier = plan_id(plan)
            journal = Journal(self.run_dir, lambda index, records: self._admit(identifier, index, records))
            try:
                return self._go(plan, identifier, journal)
            finally:
                journal.close()

    def _go(self, plan: dict[str, Any], identifier: str, journal: Journal) -> RunOutcome:
        self._circumstances(identifier, journal)
        if journal.index.closed:
            journal.mend()
        if journal.index.closed and self._tables_hold(journal):
            if self.run_dir.private.is_dir():
                private_salt(self.run_dir, journal)
            return self._conclude(identifier, journal, closed=True)
        operational = load_operational(self.run_dir) | dict(self.overrides)
        bound = bind(self.run_dir, plan, operational, self.options.backend, self.options.executor)
        if journal.index.count("request") < Schedule(plan).total():
            require_room(plan, bound.paths)
        journal.mend()  # only now: a run that is not what was frozen leaves every byte where it lies
        if journal.index.first is None:
            journal.append("plan", self._first(plan, identifier, bound))
            for name, salt in sorted(bound.salts.items()):
                journal.append("reveal", {"prompt": name, "salt": salt})
        runner = Runner(self.run_dir, plan, operational, bound, journal, self.options)
        total = runner.schedule.total()
        self.options.progress.begin(total, journal.index.count("request"))
        runner.run()
        off_clock(runner)
        self._tables(plan, identifier, journal)
        self._conduct(plan, operational, bound, journal)
        self._audits(plan, identifier, bound, journal)
        journal.append("close", {
            "requests": total, "wall_ns": self.options.clock.wall_ns(), "at": iso(self.options.clock.wall_ns()),
            "state": machine_state(), "bandwidth_bytes_per_s": memory_bandwidth(plan["schedule"]["threads"]),
        })  # fmt: skip
        return self._conclude(identifier, journal, closed=False)

    def _admit(self, identifier: str, index: Index, records: int) -> None:
        """The ledger is this plan's, and this machine's. Raises before anything is changed."""
        first, path = index.first, self.run_dir.ledger
        if first is None:
            if records:
                raise IntegrityError(f"{path}: does not begin with a plan record: not one of our ledgers")
            return
        if first.get("format") != LEDGER_FORMAT:
            raise IntegrityError(f"{path}: ledger format {first.get('format')!r}, this version reads {LEDGER_FORMAT}")
        if first.get("plan_id") != identifier:
            raise IntegrityError(
                f"the ledger belongs to plan {str(first.get('plan_id'))[:12]}, plan.json is {identifier[:12]}: "
                "a foreign ledger or an edited plan; nothing was changed"
            )
        here = machine_fingerprint(identifier)
        if not index.closed and first["environment"]["machine"] != here and not self.accept_machine:
            raise IntegrityError(
                "this run was started on another machine; its times cannot be continued here "
                "(--accept-machine goes on and records a deviation); nothing was changed"
            )

    def _circumstances(self, identifier: str, journal: Journal) -> None:
        """What is different from when the run began: recorded, once the run goes on."""
        first = journal.index.first
        if first is None or journal.index.closed:
            return
        if first["environment"]["machine"] != machine_fingerprint(identifier):
            reason = "the run was continued on another machine"
            journal.deviation("environment", reason, hardware_class=hardware_class())
        if self.options.clock.wall_ns() < journal.index.last_wall_ns:
            journal.deviation("clock", "the wall clock is behind the last record's; durations use the monotonic clock")

    def _first(self, plan: dict[str, Any], identifier: str, bound: Bound) -> dict[str, Any]:
        clock = self.options.clock
        return {
            "format": LEDGER_FORMAT,
            "plan_id": identifier,
            "plan": plan,
            "attempt": count_attempt(plan, identifier, clock, attempts_file(self.run_dir)),
            "wall_ns": clock.wall_ns(),
            "at": iso(clock.wall_ns()),
            "environment": {
                "hardware_class": hardware_class(),
                "machine": machine_fingerprint(identifier),
                "cpu_model": cpu_model(),
                "platform": f"{platform.system()} {platform.release()}",
                "python": platform.python_version(),
                "package_version": package_version(),
                "state": machine_state(),
                "bandwidth_bytes_per_s": memory_bandwidth(plan["schedule"]["threads"]),
            },
        }

    def _tables(self, plan: dict[str, Any], identifier: str, journal: Journal) -> None:
        self.options.progress.note("tables")
        known = {r.body["name"]: r.body for r in journal.records.of_kind("table")}
        try:
            written = write_tables(self.run_dir, plan, identifier, journal.records)
        except (KeyError, TypeError, ValueError) as error:
            raise IntegrityError(
                f"{self.run_dir.ledger}: no tables can be made of its records ({type(error).__name__}: "
                f"{str(error)[:80]}); `draftgate verify` says which"
            ) from error
        for body in written:
            if known.get(body["name"]) != body:
                journal.append("table", body)

    def _tables_hold(self, journal: Journal) -> bool:
        known = {r.body["name"]: r.body["sha256"] for r in journal.records.of_kind("table")}
        for name, sha in known.items():
            path = self.run_dir.table(name)
            if not path.is_file() or digest_file(path) != sha:
                journal.deviation("table", f"table {name} was missing or changed and is built again from the records")
                return False
        return True

    def _conduct(self, plan: dict[str, Any], operational: Mapping[str, Any], bound: Bound, journal: Journal) -> None:
        """What the harness itself can say of privacy and provenance."""
        if not journal.has("audit", "privacy"):
            body = privacy_audit(self.run_dir, bound, operational, journal.records)
            journal.append("audit", {"audit_id": "privacy", "name": "privacy", **body})
        if not journal.has("audit", "provenance"):
            said = provenance_audit(plan, bound.paths["draft"])
            if said is not None:
                journal.append("audit", {"audit_id": "provenance", "name": "provenance", **said})

    def _audits(self, plan: dict[str, Any], identifier: str, bound: Bound, journal: Journal) -> None:
        self.options.progress.note("audits")
        threads = plan["schedule"]["threads"]

        loaded: dict[str, Any] = {}

        def load(which: str = "champion") -> Any:
            """A model of the plan, loaded in this process: ``champion`` or ``draft``; None when there is none."""
            import importlib

            path = bound.paths[which]
            backend = importlib.import_module(self.options.backend)
            if path is None:
                return None
            if which == "draft":
                return backend.load_draft(str(path), load("champion"), threads=threads, kernel=None)
            if "champion" not in loaded:
                loaded["champion"] = backend.load_model(str(path), threads=threads, kernel=None)
            return loaded["champion"]

        try:
            bodies = self.services.audits(self.run_dir.path, load)
        except ModuleNotFoundError as error:
            journal.deviation("audits", f"audits were not run: {error.name} is not installed")
            return
        again = False
        for i, body in enumerate(bodies):
            if journal.has("audit", f"proofs/{i}"):
                continue
            plain = json.loads(json.dumps(body))
            tables = plain.pop("tables", {})
            journal.append("audit", {"audit_id": f"proofs/{i}", **plain})
            for table, rows in tables.items():
                again = True
                write_rows(journal, f"proofs/{i}/{table}", table, rows)
        if again:
            self._tables(plan, identifier, journal)

    def _conclude(self, identifier: str, journal: Journal, *, closed: bool) -> RunOutcome:
        """Verdict, its hash, and the head of the chain."""
        notes: list[str] = []
        verdict = None
        if self.with_verdict:
            said = [r.body for r in journal.records.of_kind("verdict")]
            there = self.run_dir.verdict
            try:
                verdict = self.services.judge(self.run_dir.path)
                bound = said[-1].get("sha256") if closed and said else None
                if bound is None or not there.is_file() or digest_file(there) != bound:
                    if bound is not None and there.is_file():
                        notes.append(
                            f"{there} is not the verdict that the ledger binds: it was edited or damaged; the records' "
                            f"own replaces it, and what was there is kept in {set_aside(there).name}"
                        )
                    path = self.services.write_verdict(self.run_dir.path, verdict)
                    if digest_file(path) != bound:
                        journal.append("verdict", {"verdict": verdict.verdict, "sha256": digest_file(path)})
            except ModuleNotFoundError as error:
                notes.append(f"no verdict: {error.name} is not installed")
        write_head(self.run_dir, journal)
        count = journal.index.count("request")
        deviations = sum(1 for _ in journal.records.of_kind("deviation"))
        return RunOutcome(identifier, count, verdict, tuple(notes), deviations)


def write_rows(journal: Journal, key: str, table: str, rows: list[dict[str, Any]]) -> None:
    """Rows of a table that is measured after the requests, bound by an audit record of their own."""
    from .journal import EXTRA

    body = {"name": "rows", "ok": True, "n": len(rows), "table": table, "detail": {}}
    journal.write("audit", ("audit_id", key), EXTRA, {"table": table, "rows": rows}, None, body)


def write_head(run_dir: RunDir, journal: Journal) -> None:
    """Length and last hash, so that a dropped or edited last record shows."""
    body = {"format": HEAD_FORMAT, "records": journal.ledger.length, "sha256": journal.ledger.head}
    atomic.write_bytes(run_dir.head, json.dumps(body).encode() + b"\n")


def restore_plan(run_dir: RunDir) -> bool:
    """A plan file torn by a crash (a true prefix of the recorded plan) is written again from the ledger's first record.

    Anything else that differs is an edit, and left for the checks to name.
    """
    records = scan_ledger(run_dir.ledger).records
    if not len(records):
        return False
    try:
        there = run_dir.plan.read_bytes()
    except FileNotFoundError:
        there = b""
    body = records[0].body
    plan = body.get("plan")
    if not isinstance(plan, dict):
        return False
    whole = canonical_bytes(plan)
    if digest(whole) != body.get("plan_id") or there == whole or not whole.startswith(there):
        return False
    atomic.write_bytes(run_dir.plan, whole)
    return True


__all__ = ["Execution", "RunOutcome", "mismatch", "restore_plan", "write_head", "write_rows"]
