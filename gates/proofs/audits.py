"""The audits of a run whose requests are all recorded: what the gates on exactness and conduct rest on.

`run_audits` yields bodies for the ledger, in a fixed order. Amounts are bounded by tokens, never by time, so that a
resumed run makes the same ones; a whole run can be audited afterwards by ``draftgate verify --replay``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...arms.build import build_arm
from ...arms.kinds import DRAFT_ALONE
from ...arms.request import Request, StopPolicy
from ...harness.arm_files import located_arms
from ...harness.freeze import load_operational, load_plan
from ...harness.journal import live_records, read_line
from ...harness.ledger import read_ledger
from ...harness.rundir import RunDir
from ...harness.schedule import Schedule
from .accounting import check_accounting
from .battery import check_battery
from .conduct import check_deletion, check_reliability
from .conformance import check_causality, check_conformance
from .enumeration import check_enumeration
from .families import settings, shapes
from .finding import Finding
from .fresh_state import check_fresh_state
from .history import is_greedy
from .pit import score_rows
from .replay import Auditor, LoadModel, chosen
from .timing_shape import check_timing_shape
from .trace import Trace, TraceMissing, recorded_traces

REPLAY_TOKENS = 1500
BATTERY_PROMPTS = 10
"""Of at most so many tokens each; seven places and four ways make some 250 short requests, more than 59 of each."""
BATTERY_PROMPT_TOKENS = 12
FRESH_REQUESTS = 3
FRESH_EVERY = 3
CONFORMANCE_TOKENS = 80
SCORE_TOKENS = 20_000

Body = dict[str, Any]


def run_audits(run_dir: Path | str, load_model: LoadModel) -> Iterator[Body]:
    """Bodies ``{name, ok, n, detail}`` of the audits a plan's gates ask for; one with ``tables`` for the scores.

    ``load_model("champion" | "draft")`` gives a model of the plan. An audit that stumbles is one that is not ok.
    """
    run = Audited(RunDir(run_dir), load_model)
    for name, audit in run.audits():
        try:
            yield audit().body()
        except TraceMissing as error:
            yield {"name": name, "ok": False, "n": 0, "detail": {"reason": str(error)}}
        except Exception as error:
            yield {"name": name, "ok": False, "n": 0, "detail": {"reason": f"{type(error).__name__}: {error}"}}
    try:
        rows = list(run.scores())
    except Exception as error:
        yield {"name": "scores", "ok": False, "n": 0, "detail": {"reason": f"{type(error).__name__}: {error}"}}
        return
    if rows:
        detail = {"tokens": len(rows)}
        yield {"name": "scores", "ok": True, "n": len(rows), "detail": detail, "tables": {"scores": rows}}


class Audited:
    """One run and its models, loaded once."""

    def __init__(self, run_dir: RunDir, load_model: LoadModel) -> None:
        self.run_dir, self.plan = run_dir, load_plan(run_dir)
        self.champion = load_model("champion")
        self.draft = load_model("draft") if self.plan.get("draft") else None
        self.arms = {a["name"]: a for a in located_arms(run_dir, self.plan, load_operational(run_dir))}
        self.spec: Mapping[str, Any] = self.arms[self.plan["candidate"]]
        self.decoding: Mapping[str, Any] = self.plan["decoding"]
        self.greedy = is_greedy(self.decoding)

    def audits(self) -> Iterator[tuple[str, Callable[[], Finding]]]:
        yield "accounting", self.accounting
        yield "replay", self.replay
        yield "enumeration", lambda: check_enumeration([*shapes(), *settings()])
        yield "conformance", self.conformance
        yield "causality", lambda: check_causality(self.champion.engine, self.sequences(2))
        yield "fresh_state", self.fresh_state
        yield ("greedy_battery" if self.greedy else "battery"), self.battery
        yield "reliability", self.reliability
        yield "deletion", check_deletion
        yield "timing_shape", self.timing_shape

    def measurement(self, name: str, default: int) -> int:
        value = self.plan["measurement"].get(name)
        return default if value is None else int(value)

    # -- material -----------------------------------------------------------------------------------------------------

    def traces(self, arms: Sequence[str]) -> Iterator[Trace]:
        return recorded_traces(self.run_dir, self.plan, arms)

    def sequences(self, count: int) -> list[list[int]]:
        """Prompts with their answers, cut to a bounded length; of the candidate's first requests."""
        out = []
        for trace in self.traces([self.spec["name"]]):
            ids = [*trace.prompt, *trace.output][-CONFORMANCE_TOKENS:]
            if len(ids) > 4:
                out.append(ids)
            if len(out) == count:
                break
        return out

    def prompts(self, count: int, tokens: int) -> list[list[int]]:
        """The ends of different prompts of the run, spread over its strata."""
        seen: dict[tuple[int, ...], None] = {}
        for trace in chosen(self.traces([self.spec["name"]]), False, 1 << 40):
            seen.setdefault(tuple(trace.prompt[-tokens:]))
            if len(seen) == count:
                break
        return [list(p) for p in seen]

    # -- audits -------------------------------------------------------------------------------------------------------

    def accounting(self) -> Finding:
        limits = {i.request_id: i.max_new_tokens for i in Schedule(self.plan).requests()}
        requests, rounds = [], {}
        for _, body in live_records(read_ledger(self.run_dir.path).records, "request"):
            requests.append(body)
            rounds[body["request_id"]] = read_line(self.run_dir, body)["rounds"]
            if body["forced"]:
                limits.pop(body["request_id"], None)
        drafts = [name for name, spec in self.arms.items() if spec["kind"] in DRAFT_ALONE]
        return check_accounting(requests, rounds, limits, drafts, Schedule(self.plan).preamble_tokens)

    def timing_shape(self) -> Finding:
        rounds: list[Any] = []
        for _, body in live_records(read_ledger(self.run_dir.path).records, "request"):
            if body["arm"] == self.spec["name"]:
                rounds += read_line(self.run_dir, body)["rounds"]
        return check_timing_shape(rounds)

    def replay(self) -> Finding:
        auditor = Auditor(self.champion, self.draft, self.decoding, self.arms)
        traces = self.traces(list(self.arms) if self.greedy else [self.spec["name"]])
        budget = self.measurement("replay_tokens", REPLAY_TOKENS)
        return auditor.replay(chosen(traces, self.greedy, budget)).finding()

    def conformance(self) -> Finding:
        engine = self.champion.engine
        others: list[tuple[str, Callable[[], Any]]] = []
        file, load = getattr(engine, "file", None), getattr(type(engine), "load", None)
        if file is not None and load is not None:
            count = 1 if engine.threads > 1 else 2
            others = [(f"threads {count}", lambda: load(file, threads=count))]
        return check_conformance(engine, self.sequences(2), others=others)

    def fresh_state(self) -> Finding:
        arm = build_arm(dict(self.spec), self.champion, self.draft, self.decoding)
        requests = []
        for trace in chosen(self.traces([self.spec["name"]]), True, 1 << 40):
            stop = StopPolicy(tuple(trace.stop_ids), tuple(trace.stop_strings))
            limit = min(48, trace.max_new_tokens)
            requests.append(Request(trace.request_id, tuple(trace.prompt), limit, trace.seed, stop, trace.stream))
            if len(requests) == FRESH_REQUESTS:
                break
        return check_fresh_state(arm, requests, FRESH_EVERY)

    def battery(self) -> Finding:
        prompts = self.prompts(BATTERY_PROMPTS, BATTERY_PROMPT_TOKENS)
        return check_battery(self.spec, self.champion, self.draft, self.decoding, prompts)

    def reliability(self) -> Finding:
        return check_reliability(self.spec, self.champion, self.draft, self.decoding, self.prompts(2, 16))

    def scores(self) -> Iterator[Body]:
        models = {"champion": self.champion, "draft": self.draft}
        return score_rows(self.run_dir.path, models.__getitem__, self.measurement("score_tokens", SCORE_TOKENS))
