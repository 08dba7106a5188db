"""A third party's check: chain, hashes, tables and verdict recomputed from the raw records. Needs no model."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .canonical import digest_file, digest_value
from .compare import json_differences
from .errors import DraftgateError
from .formats import HEAD_FORMAT, LEDGER_FORMAT
from .freeze import load_plan, plan_id
from .journal import Index
from .ledger import LedgerReading, scan_ledger
from .own_files import foreign_files
from .rundir import RunDir
from .schedule import Schedule, process_id
from .tables import TABLES
from .verify_private import private_problems
from .verify_records import RecordCheck
from .wording import counted

MAX_PROBLEMS = 20
"""Of one kind; a directory that is wrong everywhere needs no longer list."""


@dataclass
class VerifyReport:
    """What was checked and held, what did not hold, and what could not be checked."""

    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    complete: bool = True
    plan_id: str = ""
    verdict: str | None = None

    @property
    def ok(self) -> bool:
        return not self.problems


class Verification:
    """One run directory under check. Every method adds to the report; none changes the directory."""

    def __init__(self, run_dir: RunDir, services: Any) -> None:
        self.run_dir, self.services = run_dir, services
        self.report = VerifyReport()
        self.plan: dict[str, Any] = {}
        self.index = Index()
        self.reading: LedgerReading | None = None

    def run(self) -> VerifyReport:
        """Raises nothing for a bad directory; a missing one is a PlanError."""
        if not self.run_dir.path.is_dir():
            load_plan(self.run_dir)
        if self._bad(foreign_files(self.run_dir, links=True)):
            return self.report
        try:
            if self._plan() and self._ledger():
                self._schedule()
                self._records()
                self._private()
                self._verdict()
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
            self._bad([f"a record or the plan lacks what a runner writes ({type(error).__name__}: {str(error)[:80]})"])
        return self.report

    def _bad(self, problems: list[str]) -> bool:
        self.report.problems += problems[:MAX_PROBLEMS]
        if len(problems) > MAX_PROBLEMS:
            self.report.problems.append(f"… and {len(problems) - MAX_PROBLEMS} more like these")
        return bool(problems)

    def _plan(self) -> bool:
        try:
            self.plan = load_plan(self.run_dir)
        except DraftgateError as error:
            self._bad([f"plan: {error}"])
            return False
        self.report.plan_id = plan_id(self.plan)
        self.report.checked.append(f"plan.json is canonical, id {self.report.plan_id}")
        card = self.plan["decision_card_sha256"]
        if card is not None:
            try:
                found = digest_value(json.loads(self.run_dir.card.read_bytes()))
            except FileNotFoundError:
                self.report.not_checked.append("decision card: not in the directory")
            except ValueError:
                self._bad(["decision_card.json: not JSON"])
            else:
                self._bad([] if found == card else ["decision_card.json: not the card whose hash the plan holds"])
        return True

    def _ledger(self) -> bool:
        if not self.run_dir.ledger.exists():
            self.report.complete = False
            self.report.not_checked.append("run: the plan was not run yet")
            return False
        reading = self.reading = scan_ledger(self.run_dir.ledger, self.index.visit)
        count = len(reading.records)
        problems = [f"ledger: {reading.problem}"] if reading.problem is not None else []
        problems += [f"ledger: {key} is recorded twice" for key in self.index.twice]
        first = self.index.first
        if first is None or reading.records[0].kind != "plan":
            problems.append("ledger: does not begin with a plan record")
        elif first.get("format") != LEDGER_FORMAT:
            problems.append(f"ledger: format {first.get('format')!r}, this version reads {LEDGER_FORMAT}")
        else:
            if first.get("plan_id") != self.report.plan_id:
                problems.append(f"ledger: opens with plan {str(first.get('plan_id'))[:12]}, plan.json is another")
            if first.get("plan") != self.plan:
                problems.append("ledger: the plan in its first record is not plan.json")
        problems += self._head(reading)
        if self._bad(problems):
            return False
        self.report.complete = self.index.closed
        self.report.checked.append(f"ledger: a chain of {counted(count, 'record')}, beginning with the plan")
        return True

    def _head(self, reading: LedgerReading) -> list[str]:
        try:
            head = json.loads(self.run_dir.head.read_bytes())
            said = (head["records"], head["sha256"], head["format"])
        except FileNotFoundError:
            return ["ledger.head.json is missing from a closed run"] if self.index.closed else []
        except (ValueError, KeyError, TypeError):
            return ["ledger.head.json: damaged"]
        if said == (len(reading.records), reading.head, HEAD_FORMAT):
            return []
        if not self.index.closed and isinstance(said[0], int) and said[0] < len(reading.records):
            return []  # reopened after a close: the head is written again at the end
        return ["ledger.head.json does not match the ledger: its last record was edited, added or dropped"]

    def _schedule(self) -> None:
        schedule, live = Schedule(self.plan), self.index.live
        recorded, total = self.index.count("request"), schedule.total()
        ids = (i for unit in schedule.units for arm in unit.order for i in schedule.request_ids(unit, arm))
        found = sum(f"request:{i}" in live for i in ids)
        missing = total - found
        problems = []
        if found < recorded:
            owed = {i for unit in schedule.units for arm in unit.order for i in schedule.request_ids(unit, arm)}
            foreign = [k.partition(":")[2] for k in live if k.startswith("request:")]
            problems = [f"request {key} was never scheduled" for key in foreign if key not in owed]
        if self.index.closed:
            problems += [f"{missing} scheduled requests have no record"] if missing else []
            ended = {key.rpartition("#")[0] for key in live if key.startswith("process:")}
            wanted = {f"process:{process_id(u, arm, 0)}".rpartition("#")[0] for u in schedule.units for arm in u.order}
            problems += [f"{key} has no record" for key in sorted(wanted - ended)]
        if not self._bad(problems):
            self.report.checked.append(f"schedule: {recorded} of {total} requests recorded, none twice, none foreign")

    def _records(self) -> None:
        assert self.reading is not None
        check = RecordCheck(self.run_dir, self.plan, self.report.plan_id, self.index)
        check.run(self.reading.records)
        if not self._bad(check.parts_problems):
            self.report.checked.append(f"parts: {check.lines} lines hold the recorded hashes")
        if not self.index.closed:
            self.report.not_checked.append("tables and verdict: the run has not ended")
        elif not self._bad(check.table_problems):
            self.report.checked.append(
                f"tables: {len(TABLES)} hold their hashes and equal the rows rebuilt from the records"
            )

    def _private(self) -> None:
        assert self.reading is not None
        if not self.run_dir.private.is_dir():
            self.report.not_checked.append(
                "private token ids: withheld; prompts, outputs and replay were not re-checked"
            )
            return
        if not self._bad(list(private_problems(self.run_dir, self.plan, self.reading.records, self.index))):
            self.report.checked.append(
                "private: prompts are the frozen ones, outputs hold the recorded hashes and digests"
            )

    def _verdict(self) -> None:
        assert self.reading is not None
        if not self.index.closed:
            return
        said = self.index.bodies["verdict"]
        if not said and not self.run_dir.verdict.exists():
            self.report.not_checked.append("verdict: none was written")
            return
        try:
            stored = json.loads(self.run_dir.verdict.read_bytes())
        except (OSError, ValueError, RecursionError):
            stored = None
        if not isinstance(stored, dict) or not isinstance(stored.get("gates"), list):
            self._bad(["verdict.json: missing or damaged"])
            return
        problems = []
        if not said or digest_file(self.run_dir.verdict) != said[-1]["sha256"]:
            problems.append("verdict.json: its bytes are not what was recorded")
        problems += self._recomputed(stored)
        if not self._bad(problems):
            self.report.verdict = str(stored.get("verdict"))
            self.report.checked.append(f"verdict: {stored.get('verdict')}, recomputed from the tables")

    def _recomputed(self, stored: dict[str, Any]) -> list[str]:
        try:
            again = self.services.judge(self.run_dir.path)
            with tempfile.TemporaryDirectory() as folder:
                found = json.loads(Path(self.services.write_verdict(Path(folder), again)).read_bytes())
        except ModuleNotFoundError as error:
            self.report.not_checked.append(f"verdict: {error.name} is not installed")
            return []
        except DraftgateError as error:
            return [f"verdict cannot be recomputed: {error}"]
        return [f"verdict.json: {line}" for line in json_differences(_decisive(stored), _decisive(found))]


def _decisive(verdict: dict[str, Any]) -> dict[str, Any]:
    """What must come out the same; sentences may count records that were added after them."""
    fields = ("id", "status", "estimate", "interval", "threshold", "requirement")
    gates = {str(g.get("id")): {k: g.get(k) for k in fields} for g in verdict.get("gates", ()) if isinstance(g, dict)}
    return {"verdict": verdict.get("verdict"), "plan_id": verdict.get("plan_id"), "gates": gates}


def verify_run(run_dir: RunDir | Path | str, services: Any) -> VerifyReport:
    """Check one run directory."""
    return Verification(RunDir(run_dir), services).run()
