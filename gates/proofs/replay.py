"""The replay audit: a finished run's decisions derived again, and compared with the record. No tolerance.

From the token ids of a run's private part, the seeds of its plan and the models, the interpreter re-derives what was
proposed, accepted, corrected and emitted, how each round is classified and counted, and how the request ended; a record
that says anything else is a mismatch, with the request, the position, both tokens and the champion's margin there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...harness.rundir import RunDir
from .differences import Mismatch, differences, end_differences
from .finding import Finding
from .guesser_choice import guesser_of
from .interpreter import Case, Interpreter
from .law import Chance, LawError
from .reading import Reading
from .trace import Trace, recorded_traces

MOST_MISMATCHES = 20

LoadModel = Callable[[str], Any]


@dataclass
class ReplayResult:
    """``decisions`` counts every argmax, draw and acceptance that was derived again."""

    requests: int = 0
    rounds: int = 0
    tokens: int = 0
    decisions: int = 0
    skipped: int = 0
    """Requests that chose nothing (force-decoded) or fell back before the first token."""
    events: dict[str, int] = field(default_factory=dict)
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.mismatches and self.decisions > 0

    def finding(self) -> Finding:
        detail = {
            "requests": self.requests,
            "rounds": self.rounds,
            "tokens": self.tokens,
            "skipped": self.skipped,
            "events": dict(sorted(self.events.items())),
            "mismatches": [m.body() for m in self.mismatches[:MOST_MISMATCHES]],
            "mismatch_count": len(self.mismatches),
        }
        return Finding("replay", self.ok, self.decisions, "decisions", detail)


@dataclass(frozen=True)
class Auditor:
    """What replay needs besides traces: the models, the plan's decoding and the arms' entries."""

    champion: Any
    """`arms.models.Model`, or anything with ``engine`` and ``tokenizer``."""
    draft: Any | None
    decoding: Mapping[str, Any]
    arms: Mapping[str, Mapping[str, Any]]
    method: str = "residual"
    """Of the stochastic round: ``residual`` (as shipped) or ``sampler-match`` (a declared variant, as exact)."""

    def replay(self, traces: Iterable[Trace]) -> ReplayResult:
        """Raises nothing for a wrong record: that is a mismatch."""
        result = ReplayResult()
        for trace in traces:
            if trace.forced or trace.fallback or trace.failure:
                result.skipped += 1
                continue
            result.requests += 1
            mismatch = self._one(trace, result)
            if mismatch is not None:
                result.mismatches.append(mismatch)
        return result

    def _one(self, trace: Trace, result: ReplayResult) -> Mismatch | None:
        interpreter, close = self._interpreter(trace)
        number = 0
        try:
            for number, step in enumerate(interpreter.steps()):
                if number >= len(trace.rounds) or number >= len(trace.steps):
                    return Mismatch(
                        trace.request_id, step.context_tokens - len(trace.prompt), number, "round", None, "one more"
                    )
                wrong = differences(trace, number, step)
                result.rounds += 1
                result.tokens += len(step.tokens)
                result.decisions += step.decisions
                result.events[step.outcome] = result.events.get(step.outcome, 0) + 1
                if wrong is not None:
                    return wrong
        except (LawError, ValueError) as error:
            return Mismatch(trace.request_id, len(interpreter.new), number, "law", "emitted", str(error))
        finally:
            close()
        return end_differences(trace, interpreter)

    def _interpreter(self, trace: Trace) -> tuple[Interpreter, Callable[[], None]]:
        engine = self.champion.engine
        decoding, grammar = compiled(self.champion, self.decoding)
        spec = self.arms[trace.arm]
        case = Case(
            prompt=trace.prompt,
            max_new_tokens=trace.max_new_tokens,
            context_limit=engine.context_limit,
            stop_ids=trace.stop_ids,
            stop_strings=trace.stop_strings,
            decoding=decoding,
            probe_rate=float(spec.get("probe_rate", 0.0)),
            method=self.method,
        )
        reading = Reading(engine, len(trace.prompt) + trace.max_new_tokens + 1)
        guesser = guesser_of(spec, self.champion, self.draft, self.decoding, case, trace, grammar)
        decode = getattr(self.champion.tokenizer, "decode", None)

        def close() -> None:
            reading.close()
            if hasattr(guesser, "close"):
                guesser.close()

        return Interpreter(case, Chance(trace.seed, trace.stream), reading, guesser, decode, grammar), close


def compiled(champion: Any, decoding: Mapping[str, Any]) -> tuple[dict[str, Any], Any | None]:
    """The plan's decoding with its text words as token ids, and its grammar compiled."""
    words = [champion.tokenizer.encode(w) if isinstance(w, str) else list(w) for w in decoding.get("bad_words", ())]
    grammar = None
    if decoding.get("grammar") is not None:
        from ...arms.grammar import Grammar

        stops = tuple(champion.tokenizer.stop_ids)
        grammar = Grammar(decoding["grammar"], champion.tokenizer, champion.engine.vocabulary, stops)
    return {**decoding, "bad_words": words}, grammar


def chosen(traces: Iterable[Trace], greedy: bool, tokens: int | None) -> Iterator[Trace]:
    """Traces up to about ``tokens`` emitted tokens (all when None); of a greedy run the first block only: repeats
    of it say nothing new. Which ones is a function of the request ids alone."""
    import hashlib

    listed = [t for t in traces if not greedy or "/b0/" in t.request_id or t.request_id.startswith("canary/")]
    if tokens is None:
        yield from listed
        return
    listed.sort(key=lambda t: hashlib.sha256(t.request_id.encode()).digest())
    used = 0
    for trace in listed:
        if used >= tokens:
            return
        used += max(1, len(trace.output))
        yield trace


def replay_run(
    run_dir: Path | str,
    load_model: LoadModel | None = None,
    tokens: int | None = None,
    arms: Sequence[str] | None = None,
) -> ReplayResult:
    """Audit a finished run. ``load_model``: "champion" or "draft" to a model (default: the paths the run directory
    names). ``tokens``: audit about so many (None: all). ``arms``: default every arm that proposes, and champion-alone.

    Raises TraceMissing without the private part; ArmError where a model is not to be had.
    """
    from ...harness.arm_files import located_arms
    from ...harness.freeze import load_operational, load_plan

    plan = load_plan(RunDir(run_dir))
    load = load_model or run_loader(run_dir, plan)
    names = list(arms or dict.fromkeys([plan["candidate"], *(a["name"] for a in plan["arms"])]))
    auditor = Auditor(
        champion=load("champion"),
        draft=load("draft") if plan.get("draft") else None,
        decoding=plan["decoding"],
        arms={a["name"]: a for a in located_arms(RunDir(run_dir), plan, load_operational(RunDir(run_dir)))},
    )
    greedy = float(plan["decoding"]["temperature"]) == 0
    return auditor.replay(chosen(recorded_traces(run_dir, plan, names), greedy, tokens))


def run_loader(run_dir: Path | str, plan: Mapping[str, Any]) -> LoadModel:
    """Loads the models of a run from the paths in its operational part, or by their names; checks their hashes."""
    from ...arms.models import load_draft, load_model, resolve
    from ...harness.errors import IntegrityError
    from ...harness.freeze import load_operational

    operational = load_operational(RunDir(run_dir))
    loaded: dict[str, Any] = {}

    def load(which: str) -> Any:
        path = resolve(operational.get(f"{which}_path") or plan[which]["name"])
        if which not in loaded:
            loaded[which] = load_model(path) if which == "champion" else load_draft(path, load("champion"))
        if loaded[which].file.sha256 != plan[which]["sha256"]:
            raise IntegrityError(f"{path.name}: not the {which} of this plan (sha256 differs)")
        return loaded[which]

    return load
