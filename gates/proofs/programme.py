"""All nine proofs in order, on toys and, where one is given, on a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...arms.request import Request, StopPolicy
from .battery import check_battery
from .conformance import check_causality, check_conformance
from .enumeration import arms_of, check_enumeration, decoding_of
from .families import Family, settings, shapes
from .finding import Finding
from .fresh_state import check_fresh_state
from .golden import check_golden
from .monte_carlo import FULL, QUICK, check_monte_carlo
from .real_proofs import (
    DRAFT,
    Amounts,
    Material,
    real_conformance,
    real_fresh_state,
    real_greedy,
    real_pit,
    real_replay,
    scored,
    sequences,
)
from .replay import Auditor
from .toy import tables
from .toy_models import models_of, toy_arm, toy_model
from .trace import from_completion

QUICK_AMOUNTS = Amounts(False, 4, 24, 6, 500, False)
FULL_AMOUNTS = Amounts(True, 40, 96, 70, 15_500, True)


@dataclass(frozen=True)
class Proved:
    """A line of the table."""

    proof: str
    checked: str
    power: str
    finding: Finding
    seconds: float


Step = tuple[str, str, Callable[[], Finding], Callable[[Finding], str]]


def prove(amounts: Amounts, material: Material | None) -> Iterator[Proved]:
    """Runs every proof and yields its line; a proof that raises has failed."""
    for proof, checked, work, power in _steps(amounts, material):
        began = time.monotonic()
        try:
            finding = work()
        except Exception as error:
            finding = Finding(proof, False, 0, "", {"reason": f"{type(error).__name__}: {error}"})
        said = power(finding) if finding.n else ""
        yield Proved(proof, checked, said, finding, time.monotonic() - began)


def _exact(finding: Finding) -> str:
    return "exact: no tolerance"


def _steps(amounts: Amounts, material: Material | None) -> Iterator[Step]:
    families = [*shapes(amounts.full), *settings(amounts.full)]
    yield "1 enumeration", "shipped round, every outcome", lambda: check_enumeration(families), _exact
    yield "2 fresh state", "toys, after every round", lambda: toy_fresh_state(amounts), _exact
    yield "3 replay", "toys, every decision again", lambda: toy_replay(amounts), _exact
    yield "4 Monte Carlo", "real draws, joint tables", lambda: monte_carlo(amounts), _counts
    yield "5 greedy", "toys, ends put everywhere", toy_battery, _bound
    yield "6 PIT", "toys, two orders and the shift", lambda: toy_pit(amounts), _scores
    yield "7 conformance", "toys, rows bitwise", toy_conformance, _exact
    yield "8 golden", "vectors derived again", lambda: check_golden(material and material.champion), _exact
    yield "9 sabotage", "planted faults", lambda: sabotaged(amounts), _bank
    if material is None:
        return
    yield "2 fresh state", "real model, sampled", lambda: real_fresh_state(material), _exact
    yield "3 replay", "real model, sampled", lambda: real_replay(material, amounts), _exact
    yield "5 greedy", "real model, lookup and draft", lambda: real_greedy(material, amounts), _bound
    yield "6 PIT", f"real model, {material.draft_name}", lambda: real_pit(material, amounts), _scores
    yield "7 conformance", "real model, rows bitwise", lambda: real_conformance(material, amounts), _exact
    yield "7 causality", "real model", lambda: check_causality(material.champion.engine, sequences(material)), _exact


def _counts(finding: Finding) -> str:
    detail = finding.detail
    return f"TV {detail['tv']:.1%} with power {detail['least_power']:.2f}, level {detail['level']:.1%}"


def _scores(finding: Finding) -> str:
    detail = finding.detail
    return f"TV {detail['detectable_tv']:.1%} with power 0.90, level {detail['level']:.1%}"


def _bound(finding: Finding) -> str:
    bound = finding.detail.get("upper_bound")
    return f"95 % bound {3 / finding.n:.2%} of requests" if bound is None else f"95 % bound {bound:.2%} of prompts"


def _bank(finding: Finding) -> str:
    return str(finding.detail.get("false_alarms", ""))


# ---- on toys --------------------------------------------------------------------------------------------------------


def toy_pairs(amounts: Amounts) -> Iterator[tuple[Family, Mapping[str, Any], float]]:
    """Every family under every arm and both temperatures."""
    for family in [*shapes(amounts.full), *settings(amounts.full)]:
        for spec in arms_of(family):
            for temperature in (0.0, 1.0):
                if temperature or "draft_decoding" not in spec:
                    yield replace(family, context_limit=48), spec, temperature


def _toy_setup(family: Family, spec: Mapping[str, Any], temperature: float, count: int) -> tuple[Any, ...]:
    decoding = decoding_of(family)
    decoding["temperature"] = temperature * float(decoding["temperature"])
    champion, draft = models_of(family)
    arm = toy_arm(spec, champion, draft, decoding)
    stop = StopPolicy(family.stop_ids, ("cab",) if family.vocabulary > 2 else ())
    requests = [Request(f"toy/{i}", family.prompt, 24, i, stop, f"toy/{i}") for i in range(count)]
    return Auditor(champion, draft, decoding, {arm.name: spec}), arm, requests


def toy_fresh_state(amounts: Amounts) -> Finding:
    n, wrong = 0, []
    for family, spec, temperature in toy_pairs(amounts):
        _, arm, requests = _toy_setup(family, spec, temperature, max(1, amounts.toy_requests // 4))
        found = check_fresh_state(arm, requests)
        n += found.n
        wrong += [{**m, "family": family.name} for m in found.detail["mismatches"]]
    return Finding("fresh_state", not wrong and n > 0, n, "states compared", {"mismatches": wrong[:20]})


def toy_replay(amounts: Amounts) -> Finding:
    n, wrong = 0, []
    for family, spec, temperature in toy_pairs(amounts):
        auditor, arm, requests = _toy_setup(family, spec, temperature, amounts.toy_requests)
        result = auditor.replay(from_completion(r, arm.name, arm.generate(r)) for r in requests)
        n += result.decisions
        wrong += [{**m.body(), "family": family.name} for m in result.mismatches]
    return Finding("replay", not wrong and n > 0, n, "decisions", {"mismatches": wrong[:20]})


def monte_carlo(amounts: Amounts) -> Finding:
    return check_monte_carlo(shapes(), FULL if amounts.full else QUICK)


def _toy_pair() -> tuple[Any, Any]:
    champion, draft = tables(12, 5, 0.85)
    return toy_model(champion, "champion", (11,)), toy_model(draft, "draft", (11,))


def toy_battery() -> Finding:
    champion, draft = _toy_pair()
    prompts = [[i % 11, (3 * i) % 11, i // 11] for i in range(16)]
    return check_battery(DRAFT, champion, draft, {"temperature": 0.0}, prompts)


def toy_pit(amounts: Amounts) -> Finding:
    champion, draft = _toy_pair()
    decoding = {"temperature": 0.8, "top_p": 0.95}
    prompts = [[i % 11, (5 * i) % 11] for i in range(4 * amounts.pit_tokens // 30)]
    return scored(DRAFT, champion, draft, decoding, prompts, 30, 4 * amounts.pit_tokens)


def toy_conformance() -> Finding:
    champion, _ = _toy_pair()
    return check_conformance(champion.engine, [[(7 * i + j) % 12 for i in range(30)] for j in range(4)])


def sabotaged(amounts: Amounts) -> Finding:
    from .sabotage.bank import run_bank

    return run_bank(full=amounts.sabotage_full).finding()
