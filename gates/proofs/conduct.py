"""How an arm behaves when something breaks, and whether speculation can be taken away.

Two audits without a statistic: reliability (faults are injected through the engine's own errors) and deletion (the
champion's path in a process where speculation cannot be imported).
"""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...arms.build import build_arm
from ...arms.engine.contract import EngineError
from ...arms.kinds import WITH_DRAFT
from ...arms.request import Request, StopPolicy
from .finding import Finding

SPECULATIVE = (
    "speculation", "speculative_arm", "neural_draft", "feature_draft", "hybrid", "prompt_lookup", "suffix_automaton",
    "ngram_cache", "model_free", "policies",
)  # fmt: skip
"""Modules of `arms` that can be deleted."""
PACKAGE = __name__.rsplit(".gates.", 1)[0]


class InjectedFailure(EngineError):
    """Not a real one."""


class Failure:
    """Fails an engine at its n-th call that reads logits, once."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def of(self, engine: Any) -> Any:
        """A copy of ``engine`` that fails so; of the same class, and over the same weights."""
        broken = copy.copy(engine)
        for name in ("verify_linear", "verify_with_hidden", "draft"):
            if hasattr(engine, name):
                setattr(broken, name, self._counted(getattr(engine, name)))
        return broken

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            if args[-1] != "none":
                self.seen += 1
                if self.seen == self.at:
                    raise InjectedFailure("injected")
            return call(*args)

        return counted


def check_reliability(
    spec: Mapping[str, Any],
    champion: Any,
    draft: Any | None,
    decoding: Mapping[str, Any],
    prompts: Sequence[Sequence[int]],
    tokens: int = 12,
) -> Finding:
    """Champion and draft fail in turn before and after the first token: no token twice, none wrong, the end named."""
    tried, problems = 0, []
    stop = StopPolicy(tuple(champion.tokenizer.stop_ids))
    whole = build_arm(dict(spec), champion, draft, decoding)
    for number, prompt in enumerate(prompts):
        request = Request(f"reliability/{number}", tuple(prompt), tokens, number, stop, f"reliability/{number}")
        good = whole.generate(request).tokens
        for which in ("champion", *(("draft",) if draft is not None and spec["kind"] in WITH_DRAFT else ())):
            for at in (1, 2, 4):
                models: dict[str, Any] = {"champion": champion, "draft": draft}
                failure = Failure(at)
                models[which] = dataclasses.replace(models[which], engine=failure.of(models[which].engine))
                arm = build_arm(dict(spec), models["champion"], models["draft"], decoding)
                shown: list[int] = []
                done = arm.generate(request, shown.extend)
                tried += 1
                broken = failure.seen >= at
                problem = _problem(done, shown, good, broken)
                if problem is not None:
                    problems.append(
                        {"request_id": request.request_id, "reason": f"{which} failing at call {at}: {problem}"}
                    )
    detail: dict[str, Any] = {"arm": spec["name"], "mismatches": problems[:20]}
    if problems:
        detail["reason"] = problems[0]["reason"]
    return Finding("reliability", not problems and tried > 0, tried, "failures injected", detail)


def _problem(done: Any, shown: list[int], good: list[int], broken: bool) -> str | None:
    if shown != done.tokens:
        return f"{len(shown)} tokens were shown, the completion has {len(done.tokens)}"
    if done.fallback:
        return None if not done.failure else "a fallback that failed without a word"
    if broken and not done.failure:
        return "the failure is not named in the completion"
    if done.failure and done.finish_reason != "error":
        return f"failed, but the end says {done.finish_reason}"
    if shown != good[: len(shown)]:
        return "tokens after the failure differ from an undisturbed run"
    return None


_WITHOUT = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.rsplit(".", 1)[0] == "{package}.arms" and name.rsplit(".", 1)[1] in {names!r}:
            raise ModuleNotFoundError(name + " has been deleted")
sys.meta_path.insert(0, Blocked())
import {package}.arms.champion_alone, {package}.arms.session
left = [n for n in {names!r} if "{package}.arms." + n in sys.modules]
print("left" if left else "alone")
"""


def check_deletion() -> Finding:
    """The champion's path imports and stands in a process from which every module of speculation is gone."""
    names = SPECULATIVE
    code = _WITHOUT.format(package=PACKAGE, names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    ok = done.returncode == 0 and done.stdout.strip() == "alone"
    detail: dict[str, Any] = {"removed": list(names)}
    if not ok:
        detail["reason"] = (done.stderr.strip().splitlines() or [done.stdout.strip() or "no answer"])[-1][:200]
    return Finding("deletion", ok, len(names), "modules removed", detail)
