"""Exactness by enumeration: the shipped session along every outcome, against the champion's law, in exact fractions.

An arm is run once for every path of its draws. At each round start that any path reaches, the law of that round's
block, continued by the champion, must be the champion's law of the same tokens: equality of fractions. That is the
induction step from every reachable state; the law of whole answers is compared as well. The champion's law is the
auditor's own (`law`, `history`), read from the engine one token at a time.

The shipped sampler takes part: at every draw, its own mapping from integers to outcomes is tried at the boundaries of
each outcome, which fixes the number of integers that lead to it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ...arms.request import Request, StopPolicy
from .choices import outcomes
from .families import Family
from .finding import Finding
from .history import law_after
from .law import ONE, Masses
from .reading import Reading
from .replay import compiled
from .sampler import SamplerChoices
from .toy_models import models_of, toy_arm

Tokens = tuple[int, ...]
Node = tuple[tuple[str, int, int], ...]
"""A point in the tree of outcomes: the decisions (domain, position, value) before it."""
Row = Callable[[Tokens], Masses]
"""New tokens after the prompt to the champion's integer row."""


@dataclass
class Account:
    """What an enumeration found; probabilities are exact."""

    answers: dict[Tokens, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    ends: dict[Tokens, set[str]] = field(default_factory=lambda: defaultdict(set))
    rounds: dict[Node, dict[tuple[Tokens, Node], Fraction]] = field(default_factory=dict)
    """Round start to the ways its block can come about, each with its probability."""
    starts: dict[Node, Tokens] = field(default_factory=dict)
    observed: dict[str, dict[Any, Fraction]] = field(default_factory=dict)
    """What ``observe`` says of each path: name to the exact law of its values."""
    paths: int = 0
    events: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def enumerate_arm(
    arm: Any,
    request: Request,
    limit: int = 200_000,
    observe: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]] | None = None,
) -> Account:
    """Every outcome of ``arm`` on ``request``; ``arm`` opens a session whose draws are replaced. Raises TreeTooLarge.

    ``observe`` reads named values off the private trace of each path.
    """
    account = Account()

    def once(choices: SamplerChoices) -> tuple[list[tuple[int, int]], Any]:
        session = arm.open(request)
        session.draws_of = lambda seed, stream, round: choices
        marks = []
        try:
            session.prefill()
            while not session.finished():
                marks.append((len(choices.trail), len(session.emitted)))
                session.step()
            marks.append((len(choices.trail), len(session.emitted)))
        finally:
            session.close()
        return marks, session

    checked: set[Any] = set()
    for outcome in outcomes(once, limit, lambda script: SamplerChoices(script, checked=checked)):
        marks, session = outcome.result
        if session.failure is not None:
            raise AssertionError(f"a path failed: {session.failure}")
        answer = tuple(session.emitted)
        account.paths += 1
        account.answers[answer] += outcome.probability
        account.ends[answer].add(str(session.finish))
        for name, value in (observe(session.trace) if observe is not None else {}).items():
            law = account.observed.setdefault(name, defaultdict(Fraction))
            law[value] += outcome.probability
        for record in session.records:
            account.events[record.outcome] += 1
        for (begin, emitted), (end, after) in itertools.pairwise(marks):
            node = tuple((c.domain, c.position, c.value) for c in outcome.trail[:begin])
            weight = Fraction(1)
            for c in outcome.trail[begin:end]:
                weight *= c.probability
            way = tuple((c.domain, c.position, c.value) for c in outcome.trail[begin:end])
            account.rounds.setdefault(node, {})[answer[emitted:after], way] = weight
            account.starts[node] = answer[:emitted]
    return account


def champion_law(row: Row, start: Tokens, tokens: int, stops: Callable[[Tokens], bool]) -> dict[Tokens, Fraction]:
    """The champion's law of the next ``tokens`` tokens after ``start`` (fewer after a stop)."""
    law: dict[Tokens, Fraction] = {(): Fraction(1)}
    for _ in range(tokens):
        grown: dict[Tokens, Fraction] = {}
        for block, weight in law.items():
            if block and stops(start + block):
                grown[block] = weight
                continue
            masses = row(start + block)
            for token in np.flatnonzero(masses).tolist():
                grown[(*block, token)] = weight * Fraction(int(masses[token]), ONE)
        law = grown
    return law


@dataclass(frozen=True)
class Discrepancy:
    where: str
    prefix: Tokens
    block: Tokens
    found: str
    expected: str


def compare(account: Account, row: Row, room: int, stops: Callable[[Tokens], bool]) -> list[Discrepancy]:
    """Every answer and every round start against the champion's law; ``room`` is the most tokens an answer can have."""
    wrong = []
    expected = champion_law(row, (), room, stops)
    for answer in sorted(set(expected) | set(account.answers)):
        a, b = account.answers.get(answer, Fraction(0)), expected.get(answer, Fraction(0))
        if a != b:
            wrong.append(Discrepancy("answer", (), answer, str(float(a)), str(float(b))))
    for node, blocks in account.rounds.items():
        found = _round_discrepancy(account.starts[node], blocks, row)
        if found is not None:
            wrong.append(found)
    return wrong


def _round_discrepancy(start: Tokens, blocks: Mapping[tuple[Tokens, Node], Fraction], row: Row) -> Discrepancy | None:
    """Where the law of one round's block, continued by the champion, is not the champion's; None where it is.

    Equivalent, and linear in the blocks: after every prefix of a block, given that the block goes on, its next token
    follows the champion's row. (By induction on the length: what ended there is continued by the champion, what goes on
    must take the rest of each token's share.)
    """
    reach: dict[Tokens, Fraction] = defaultdict(Fraction)
    ended: dict[Tokens, Fraction] = defaultdict(Fraction)
    for (block, _), weight in blocks.items():
        ended[block] += weight
        for size in range(len(block) + 1):
            reach[block[:size]] += weight
    for prefix in sorted(reach, key=len):
        going_on = reach[prefix] - ended.get(prefix, Fraction(0))
        if not going_on:
            continue
        masses = row(start + prefix)
        for token, mass in enumerate(masses.tolist()):
            found, expected = reach.get((*prefix, token), Fraction(0)), going_on * Fraction(mass, ONE)
            if found != expected:
                return Discrepancy("round", start, (*prefix, token), str(float(found)), str(float(expected)))
    return None


def request_of(family: Family) -> Request:
    return Request("enumeration", family.prompt, family.max_new_tokens, 0, StopPolicy(family.stop_ids))


def decoding_of(family: Family) -> dict[str, Any]:
    return {"temperature": 1.0, **family.decoding}


def row_of(family: Family, champion: Any) -> Row:
    """The champion's integer row after new tokens, by the auditor's law from a reading one token at a time."""
    decoding, grammar = compiled(champion, decoding_of(family))
    known: dict[Tokens, Masses] = {}

    def row(new: Tokens) -> Masses:
        if new not in known:
            reading = Reading(champion.engine, family.context_limit, chunk=1)
            raw = reading.after([*family.prompt, *new])
            known[new] = law_after(raw, decoding, family.prompt, new, family.stop_ids, grammar)
        return known[new]

    return row


def stops_of(family: Family) -> Callable[[Tokens], bool]:
    """Whether an answer is over with these tokens: a stop, the length, or the edge of the context."""
    room = min(family.max_new_tokens, family.context_limit - len(family.prompt) + 1)
    return lambda new: new[-1] in family.stop_ids or len(new) >= room


def enumerate_family(
    family: Family, spec: Mapping[str, Any], limit: int = 200_000, **more: Any
) -> tuple[Account, list[Discrepancy]]:
    """One family under one arm entry."""
    champion, draft = models_of(family)
    arm = toy_arm(spec, champion, draft, decoding_of(family))
    account = enumerate_arm(arm, request_of(family), limit, **more)
    return account, compare(account, row_of(family, champion), family.max_new_tokens, stops_of(family))


def arms_of(family: Family) -> Iterator[dict[str, Any]]:
    """The arm entries a family is tried under: a draft at fixed k; on small ones also every other way to propose."""
    draft = {"name": "neural_draft", "kind": "neural_draft", "k": family.k}
    yield draft
    if family.name not in ("generic-v3-k2", "stop-inside"):
        return
    costs = {"draft": 0.4, "verify": [1.0] * (family.k + 1), "prior": 0.3, "weight": 1.0, "explore": 2}
    yield draft | {"name": "confidence", "policy": {"kind": "confidence", "threshold": 0.7}}
    yield draft | {"name": "hf-heuristic", "policy": {"kind": "hf-heuristic", "start": 1}}
    yield draft | {"name": "cost-model", "policy": {"kind": "cost-model", **costs}}
    sharp = {**costs, "prior": 0.9, "sharpness": 0.7}
    yield draft | {"name": "cost-model, sharp", "policy": {"kind": "cost-model", **sharp}}
    yield draft | {"name": "own decoding", "draft_decoding": {"temperature": 0.6, "top_k": 2}}
    yield draft | {"name": "hybrid", "kind": "hybrid", "copy_k": 1, "min_match": 1}
    yield {"name": "prompt_lookup", "kind": "prompt_lookup", "k": family.k, "min_ngram": 1, "max_ngram": 2}
    yield {"name": "suffix_automaton", "kind": "suffix_automaton", "k": family.k, "min_match": 1}


Specs = Callable[[Family], Iterable[Mapping[str, Any]]]


def check_enumeration(families: Iterable[Family], specs: Specs = arms_of) -> Finding:
    """Every family under every arm entry; ok when every fraction is equal."""
    paths = starts = 0
    events: dict[str, int] = defaultdict(int)
    wrong: list[dict[str, Any]] = []
    names = []
    for family in families:
        names.append(family.name)
        for spec in specs(family):
            try:
                account, found = enumerate_family(family, spec)
            except AssertionError as error:
                paths += 1
                wrong.append({"family": family.name, "arm": spec["name"], "reason": str(error)})
                continue
            paths += account.paths
            starts += len(account.rounds)
            for name, count in account.events.items():
                events[name] += count
            wrong += [{"family": family.name, "arm": spec["name"], **vars(d)} for d in found[:3]]
    detail = {"families": names, "round_starts": starts, "outcomes": dict(events), "differences": wrong[:20]}
    return Finding("enumeration", not wrong and paths > 0, paths, "paths", detail)
