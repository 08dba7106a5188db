"""The proofs on a real model: identity, replay, fresh state, scores, conformance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...arms.build import build_arm
from ...arms.request import Request, StopPolicy
from .coarse import coarse_draft
from .conformance import check_conformance
from .finding import Finding
from .fresh_state import check_fresh_state
from .greedy_identity import check_greedy_identity
from .pit import Scorer, judge_scores
from .replay import Auditor
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


@dataclass(frozen=True)
class Material:
    """A real pair and prompts as token ids."""

    champion: Any
    draft: Any
    draft_name: str
    prompts: Sequence[Sequence[int]]


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
