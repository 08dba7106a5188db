"""Sentences for people: what a gate asked, what was found, why that decides, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..gates.result import GateResult, Verdict
from .gate_texts import GateText, gate_text
from .numbers import NONE, bound, count, interval, quantity

STATUS_WORDS = {
    "pass": "passed",
    "fail": "failed",
    "inconclusive": "inconclusive",
    "not-measured": "not measured",
    "not-applicable": "not applicable",
    "invalid": "invalid",
}
SYMBOLS = {"pass": "✓", "fail": "✕", "inconclusive": "?", "not-measured": "○", "not-applicable": "–", "invalid": "!"}
VERDICT_SYMBOLS = {"GO": "✓", "NO-GO": "✕", "INCONCLUSIVE": "?", "INVALID": "!"}
VERDICT_SENTENCES = {
    "GO": "Every required gate passed: on prompts like these, the candidate may go in front of the champion.",
    "NO-GO": "At least one gate failed: the candidate should not go in front of the champion.",
    "INCONCLUSIVE": "Nothing failed, but at least one required gate could not be settled: the evidence does not "
    "carry a decision.",
    "INVALID": "The evidence cannot be used: something it rests on does not hold.",
}


WITHOUT_SPEED = (
    "Every required gate passed. Speed was not among them: on prompts like these the candidate did no harm that was "
    "looked for; whether it pays is for a plan that requires the speed-up."
)


def requires_speed(verdict: Verdict) -> bool:
    """Whether the verdict rests on the speed-up."""
    return any(g.id == "speedup" and g.requirement == "required" for g in verdict.gates)


def headline(verdict: Verdict) -> str:
    text = VERDICT_SENTENCES[verdict.verdict]
    if verdict.verdict == "GO" and not requires_speed(verdict):
        text = WITHOUT_SPEED
    if verdict.exploratory:
        return text + " Exploratory: results had been seen before the plan was changed, so this confirms nothing."
    return text


@dataclass(frozen=True)
class Explained:
    result: GateResult
    text: GateText
    estimate: str
    interval: str
    threshold: str
    found: str
    why: str
    change: str

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.result.status]

    @property
    def words(self) -> str:
        return STATUS_WORDS[self.result.status]

    @property
    def label(self) -> str:
        """Where the number comes from; empty where the gate has none, so that nothing unmeasured is called measured."""
        r = self.result
        known = r.status not in ("not-measured", "not-applicable") and (r.estimate is not None or r.n > 0)
        return self.text.label if known else ""

    @property
    def failing(self) -> str:
        return not_passed(self.result)


def explain(result: GateResult) -> Explained:
    text = gate_text(result.id)
    return Explained(
        result,
        text,
        quantity(result.estimate, result.unit),
        interval(result.interval, result.unit),
        bound(text.bound, result.threshold, result.unit),
        _found(result),
        _why(result, text),
        _change(result, text),
    )


def _found(result: GateResult) -> str:
    reason = result.reason.strip() or "no reason was given"
    lead = reason.split(":")[0]
    name = "_" in lead.split(" ")[0] or lead in {str(r.get("stratum")) for r in result.per_stratum}
    first = reason if name else reason[0].upper() + reason[1:]
    return first + ("" if reason.endswith((".", "!", "?")) else ".")


def _why(result: GateResult, text: GateText) -> str:
    status, where = result.status, not_passed(result)
    if result.threshold is not None and result.interval is not None and text.bound in (">=", "<="):
        up = text.bound == ">="
        rule, shown = bound(text.bound, result.threshold, result.unit), interval(result.interval, result.unit)
        low, high = result.interval
        holds = low >= result.threshold if up else high <= result.threshold
        breaks = high < result.threshold if up else low > result.threshold
        if status == "pass" and holds:
            limit, side = (low, "lower") if up else (high, "upper")
            end = f"the {side} end of the interval, {quantity(limit, result.unit)},"
            return f"It passes because even {end} keeps the rule ({rule})."
        if status == "fail" and breaks:
            return f"It fails because the whole interval {shown} lies on the wrong side of the rule ({rule})."
        if status == "inconclusive" and not holds and not breaks:
            return f"It stays open: the interval {shown} reaches across the rule ({rule}), which is no pass."
    if status in ("fail", "inconclusive") and where:
        word = "fails" if status == "fail" else "stays open"
        return f"It {word} because of {where}; every stratum has to hold, and no average makes up for one."
    return {
        "pass": _within(result, text) or "It passes: the check found nothing against it.",
        "fail": "It fails: what was found is enough by itself, and nothing else can outweigh it.",
        "inconclusive": "It stays open, and an open gate never counts as passed.",
        "not-measured": "It was not measured, and what is not measured is not passed"
        + (
            "; the plan requires it, so the verdict cannot be GO."
            if result.requirement == "required"
            else "; the plan asks for it only where it can be had."
        ),
        "not-applicable": "The plan fixed beforehand that it does not apply.",
        "invalid": "What was recorded cannot be used to answer the question, so no verdict on the draft is possible.",
    }[status]


def _within(result: GateResult, text: GateText) -> str:
    """Why an equality holds, where the whole interval lies inside its margin."""
    if text.bound != "within" or result.interval is None or result.threshold is None:
        return ""
    centre = 1.0 if result.unit == "ratio" else 0.0
    if max(abs(x - centre) for x in result.interval) > result.threshold - centre:
        return ""
    shown, rule = interval(result.interval, result.unit), bound(text.bound, result.threshold, result.unit)
    return f"It passes because the whole interval {shown} lies {rule}, not merely because no difference was found."


def not_passed(result: GateResult) -> str:
    """The strata in which a gate did not pass, in words; failures alone where there are any."""
    bad = [r for r in result.per_stratum if r.get("status") not in ("pass", "not-applicable", None)]
    worst = [r for r in bad if r.get("status") == "fail"] or bad
    return ", ".join(
        f"{r.get('stratum')} ({STATUS_WORDS.get(str(r.get('status')), str(r.get('status')))})" for r in worst
    )


def _change(result: GateResult, text: GateText) -> str:
    if result.status in ("pass", "not-applicable"):
        return ""
    if result.status in ("fail", "invalid"):
        return text.change or "Another candidate, or other evidence, under a new plan."
    return text.settle + (f" It rests on {count(result.n, 'independent unit')} so far." if result.n else "")


def what_would_change(verdict: Verdict, explained: Sequence[Explained]) -> list[tuple[str, str]]:
    """Pairs of gate id (or empty) and what could turn it. For a GO: what lies nearest to its threshold."""
    blocking = [
        e
        for e in explained
        if e.change and (e.result.requirement == "required" or e.result.status in ("fail", "invalid"))
    ]
    if blocking:
        return [(e.result.id, e.change) for e in blocking]
    if verdict.verdict != "GO":
        return [("", reason) for reason in verdict.reasons] or [("", "Nothing short of a new plan and a new run.")]
    close = sorted(((m, e) for e in explained for m in [_margin(e)] if m is not None), key=lambda pair: pair[0])
    lines = [
        (
            e.result.id,
            f"The nearest call: its interval {e.interval} clears {e.threshold} by {100 * m:.1f} % of the threshold.",
        )
        for m, e in close[:3]
    ]
    return [
        *lines,
        ("", "Another machine class, other prompts, another champion or a longer answer: each needs its own run."),
    ]


def _margin(e: Explained) -> float | None:
    """Distance from the deciding limit to the threshold, relative to the threshold; None where there is none."""
    r = e.result
    if r.status != "pass" or r.interval is None or not r.threshold or e.text.bound not in (">=", "<="):
        return None
    gap = r.interval[0] - r.threshold if e.text.bound == ">=" else r.threshold - r.interval[1]
    return abs(gap / r.threshold)


def gate_line(e: Explained) -> str:
    """One line for terminals and comments: estimate, interval and rule, without empty parts."""
    parts = [p for p in (e.estimate, e.interval) if p != NONE]
    return " ".join(parts) + (f" against {e.threshold}" if parts and e.threshold != NONE else "")
