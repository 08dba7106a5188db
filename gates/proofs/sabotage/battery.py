"""Everything a user's plan runs on a finished run, over the toys: gates through their real code, and the audits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...evidence import Evidence
from ...registry import build_check
from ..accounting import check_accounting
from ..battery import check_battery
from ..conformance import check_causality, check_conformance
from ..enumeration import check_enumeration
from ..families import Family, settings, shapes
from ..finding import Finding
from ..fresh_state import check_fresh_state
from ..replay import Auditor
from ..timing_shape import check_timing_shape
from ..toy_models import toy_arm
from .world import STOP, Run, World, score

ALARMS = ("fail", "invalid")
"""Statuses of a gate that turn a verdict to NO-GO or INVALID."""
ENUMERATED = ("generic-v4-k1", "remaining-one", "top-k", "stop-inside", "equal")
ENUMERATED_MATCHES = ("generic-v4-k1", "remaining-one", "top-k")
"""Drawing at every row has many more outcomes than accepting."""


@dataclass(frozen=True)
class Alarm:
    by: str
    n: int
    """What it looked at: decisions, rows, tokens, requests."""
    why: str


Detector = Callable[[], Finding]


def gate_alarm(name: str, evidence: Evidence) -> Alarm | None:
    """One gate at its defaults; None when it neither fails nor is invalid."""
    check = build_check({"id": name, "requirement": "required", "params": {}})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = check.evaluate(evidence)
    except Exception as error:  # as the judge has it: a gate that stumbles is invalid
        return Alarm(f"gate {name}", 0, f"{type(error).__name__}: {error}")
    return Alarm(f"gate {name}", result.n, result.reason) if result.status in ALARMS else None


def families(world: World) -> list[Family]:
    wanted = ENUMERATED if world.method == "residual" else ENUMERATED_MATCHES
    return [f for f in (*shapes(), *settings()) if f.name in wanted]


def alarms(run: Run, first_only: bool = False, deterministic: bool = True) -> Iterator[Alarm]:
    """Alarms of the whole battery on one run, cheapest first.

    ``deterministic``: include the audits that do not depend on the run's seed. Called while the fault is still planted,
    as the audits of a user's run would be.
    """
    for name, detector in detectors(run, deterministic):
        alarm = _try(name, detector)
        if alarm is not None:
            yield alarm
            if first_only:
                return


def _try(name: str, detector: Callable[[], Alarm | Finding | None]) -> Alarm | None:
    try:
        found = detector()
    except Exception as error:  # an audit that stumbles is one that is not ok
        return Alarm(name, 0, f"{type(error).__name__}: {error}")
    if isinstance(found, Finding):
        return None if found.ok else Alarm(name, found.n, _said(found.detail))
    return found


def _said(detail: Mapping[str, Any]) -> str:
    for key in ("reason", "mismatches", "differences", "first_difference"):
        if detail.get(key):
            value = detail[key]
            return str(value[0] if isinstance(value, list) else value)[:200]
    return "not in order"


def detectors(run: Run, deterministic: bool) -> Iterator[tuple[str, Callable[[], Alarm | Finding | None]]]:
    world = run.world
    champion, draft = world.models(run.seed)
    evidence = Evidence(
        plan=world.plan(), plan_id="toy", requests=run.requests, rounds=run.rounds, canaries=tuple(run.canaries)
    )
    yield "audit accounting", lambda: _accounting(run)
    yield "audit reliability", lambda: _shown(run)
    if world.greedy:
        yield "gate exact-greedy", lambda: gate_alarm("exact-greedy", evidence)
    yield "gate liveness", lambda: gate_alarm("liveness", evidence)
    yield "gate reliability", lambda: gate_alarm("reliability", evidence)
    auditor = Auditor(champion, draft, world.decoding, {str(world.spec["name"]): world.spec}, world.method)
    yield "audit replay", lambda: auditor.replay(run.traces).finding()
    yield "audit timing_shape", lambda: check_timing_shape(_candidate_rounds(run))
    yield "audit fresh_state", lambda: _fresh(world, run.seed)
    if not world.greedy:

        def law() -> Alarm | None:
            score(run, champion, draft)
            return gate_alarm("exact-law", evidence.replace(scores=run.scores))

        yield "gate exact-law", law
    if deterministic:
        yield f"audit {'greedy_battery' if world.greedy else 'battery'}", lambda: _ends(world, run.seed)
        ids = [[*t.prompt, *t.output] for t in run.traces[:2]]
        engine = cast(Any, champion.engine)
        yield "audit conformance", lambda: check_conformance(engine, ids)
        yield "audit causality", lambda: check_causality(engine, ids)
        if not world.greedy:
            yield "audit enumeration", lambda: check_enumeration(families(world), lambda f: [_neural(f)])


def _neural(family: Family) -> Mapping[str, Any]:
    return {"name": "neural_draft", "kind": "neural_draft", "k": family.k}


def _candidate_rounds(run: Run) -> list[Any]:
    rows: list[Any] = run.rounds[run.rounds["arm"] == run.world.spec["name"]].to_dict("records")
    return rows


def _accounting(run: Run) -> Finding:
    rounds: dict[str, list[Any]] = {}
    for row in run.rounds.to_dict("records"):
        rounds.setdefault(str(row["request_id"]), []).append(row)
    requests: list[Any] = run.requests.to_dict("records")
    limits = {str(r["request_id"]): run.world.tokens for r in requests}
    drafts = [str(run.world.spec["name"])] if run.world.spec["kind"] == "neural_draft" else []
    return check_accounting(requests, rounds, limits, drafts, run.world.preamble)


def _shown(run: Run) -> Finding:
    detail = {"reason": run.shown[0]} if run.shown else {}
    return Finding("reliability", not run.shown, max(1, len(run.traces)), "requests", detail)


def _fresh(world: World, seed: int) -> Finding:
    champion, draft = world.models(seed)
    arm = toy_arm(world.spec, champion, draft, world.decoding)
    requests = [request for keys, request in world.requests(seed, str(world.spec["name"])) if not keys["where"]]
    return check_fresh_state(arm, requests[:3], every=2)


def _ends(world: World, seed: int) -> Finding:
    champion, draft = world.models(seed)
    prompts = [[(3 * i + j) % STOP for j in range(3)] for i in range(4)]
    return check_battery(world.spec, champion, draft, world.decoding, prompts, method=world.method)
