"""All nine proofs in order, on toys and, where one is given, on a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...arms.build import build_arm
from ...arms.request import Request, StopPolicy
from .battery import check_battery
from .coarse import coarse_draft
from .conformance import check_causality, check_conformance
from .enumeration import arms_of, check_enumeration, decoding_of
from .families import Family, settings, shapes
from .finding import Finding
from .fresh_state import check_fresh_state
from .golden import check_golden
from .greedy_identity import check_greedy_identity
from .monte_carlo import FULL, QUICK, check_monte_carlo
from .pit import Scorer, judge_scores
from .replay import Auditor
from .toy import tables
from .toy_models import models_of, toy_arm, toy_model
from .trace import from_completion

LOOKUP = {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 5, "min_ngram": 2, "max_ngram": 4}
DRAFT = {"name": "neural_draft", "kind": "neural_draft", "k": 4}


@dataclass(frozen=True)
class Amounts:
    """How much of each proof; the rest follows from powers."""

    full: bool
    toy_requests: int
    greedy_tokens: int
    """New tokens a prompt, on the real model."""
    prompts: int
    pit_tokens: int
    """On the real model; on toys four times as many."""
    sabotage_full: bool


QUICK_AMOUNTS = Amounts(False, 4, 24, 6, 500, False)
FULL_AMOUNTS = Amounts(True, 40, 96, 70, 15_500, True)


@dataclass(frozen=True)
class Material:
    """A real pair and prompts as token ids."""

    champion: Any
    draft: Any
    draft_name: str
    prompts: Sequence[Sequence[int]]


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


def scored(
    spec: Mapping[str, Any],
    champion: Any,
    draft: Any,
    decoding: Mapping[str, Any],
    prompts: Sequence[Sequence[int]],
    tokens: int,
    limit: int,
) -> Finding:
    """Sample, then score every token from the prefix alone; prompts in order until ``limit`` tokens are there."""
    arm = build_arm(dict(spec), champion, draft, decoding)
    scorer = Scorer(champion, draft, decoding, spec)
    scores: list[Any] = []
    stop = StopPolicy(tuple(champion.tokenizer.stop_ids))
    number = 0
    while len(scores) < limit and prompts:
        prompt = prompts[number % len(prompts)]
        request = Request(f"pit/{number}", tuple(prompt), tokens, number, stop, f"pit/{number}")
        scores += scorer.scores(from_completion(request, arm.name, arm.generate(request)))
        number += 1
    verdict = judge_scores(scores)
    detail = {
        "p_values": dict(verdict.family.p_values),
        "rejected": list(verdict.family.rejected),
        "shift": verdict.shift,
        "shift_error": verdict.shift_error,
        "detectable_tv": verdict.detectable_tv,
        "level": verdict.family.level,
        "mean_tv": sum(s.tv for s in scores) / len(scores),
    }
    return Finding("pit", verdict.family.ok, verdict.n, "tokens", detail)


def sabotaged(amounts: Amounts) -> Finding:
    from .sabotage.bank import run_bank

    return run_bank(full=amounts.sabotage_full).finding()


# ---- on the real model ----------------------------------------------------------------------------------------------


def _requests(material: Material, count: int, tokens: int, name: str) -> list[Request]:
    stop = StopPolicy(tuple(material.champion.tokenizer.stop_ids))
    return [
        Request(f"{name}/{i}", tuple(p), tokens, i, stop, f"{name}/{i}") for i, p in enumerate(material.prompts[:count])
    ]


def real_fresh_state(material: Material) -> Finding:
    arm = build_arm(DRAFT, material.champion, material.draft, {"temperature": 0.7})
    return check_fresh_state(arm, _requests(material, 2, 24, "fresh"), every=2)


def real_replay(material: Material, amounts: Amounts) -> Finding:
    decoding = {"temperature": 0.7, "top_p": 0.9}
    arm = build_arm(DRAFT, material.champion, material.draft, decoding)
    requests = _requests(material, max(2, amounts.prompts // 4), amounts.greedy_tokens, "replay")
    auditor = Auditor(material.champion, material.draft, decoding, {arm.name: DRAFT})
    return auditor.replay(from_completion(r, arm.name, arm.generate(r)) for r in requests).finding()


def real_greedy(material: Material, amounts: Amounts) -> Finding:
    prompts = material.prompts[: amounts.prompts]
    return check_greedy_identity([LOOKUP, DRAFT], material.champion, material.draft, prompts, amounts.greedy_tokens)


def real_pit(material: Material, amounts: Amounts) -> Finding:
    decoding = {"temperature": 1.0}
    tokens = min(64, amounts.pit_tokens)
    return scored(DRAFT, material.champion, material.draft, decoding, material.prompts, tokens, amounts.pit_tokens)


def sequences(material: Material) -> list[list[int]]:
    return [list(p[:64]) for p in material.prompts if len(p) >= 16][:2]


def real_conformance(material: Material, amounts: Amounts) -> Finding:
    engine = material.champion.engine
    file, load = getattr(engine, "file", None), getattr(type(engine), "load", None)
    others: list[tuple[str, Callable[[], Any]]] = []
    if file is not None and load is not None:
        count = 1 if engine.threads > 1 else 2
        others.append((f"threads {count}", lambda: load(file, threads=count)))
        if amounts.full:
            others.append(("portable kernels", lambda: load(file, kernel="portable")))
    return check_conformance(engine, sequences(material), others=others)


def real_material(model: str, draft: str | None, prompts: int) -> Material:
    """Loads a pair and the shipped strata's prompts; without a draft, the champion's coarsened self stands in."""
    from ...arms.models import load_draft, load_model
    from ...strata.load import load_stratum, names

    champion = load_model(model)
    second = coarse_draft(champion) if draft is None else load_draft(draft, champion)
    name = "coarsened champion as draft" if draft is None else "draft given"
    by_stratum = [load_stratum(n) for n in names()]
    listed: list[list[int]] = []
    for depth in range(max(map(len, by_stratum))):
        for stratum in by_stratum:
            if depth >= len(stratum) or len(listed) >= prompts:
                continue
            prompt = stratum[depth]
            ids = (
                champion.encode_raw(prompt.raw)
                if prompt.raw is not None
                else champion.encode_chat([{"role": m.role, "content": m.content} for m in prompt.turns[0]])
            )
            if len(ids) <= 256:
                listed.append(ids)
    return Material(champion, second, name, listed)
