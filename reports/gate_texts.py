"""What each gate asks, in plain words, and which way its threshold points. Text only; `gates/` does the deciding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Label = Literal["measured", "derived", "assumed"]
"""measured: read from a clock or a counter of this run, or compared token by token in it; derived: computed from
measured values by a stated formula; assumed: declared in the plan and not measured here."""


@dataclass(frozen=True)
class GateText:
    title: str
    asked: str
    """The question, as a sentence."""
    matters: str
    """Why a wrong answer would hurt a user."""
    bound: Literal[">=", "<=", "=", "within", ""] = ""
    """Which side of the threshold passes; empty where there is no number to compare."""
    label: Label = "measured"
    change: str = ""
    """What could turn a gate that failed or is invalid."""
    settle: str = "More prompts or blocks under a new plan, until the interval clears the rule on one side."
    """What could settle one that stayed open."""
    group: Literal["records", "exactness", "performance", "resources", "conduct"] = "conduct"


GROUPS: Mapping[str, str] = {
    "records": "Can the records be trusted?",
    "exactness": "Is the answer still the champion's?",
    "performance": "Is it faster, and for everybody?",
    "resources": "What does it cost to keep around?",
    "conduct": "Does it behave?",
}

GATE_TEXTS: Mapping[str, GateText] = {
    "identity": GateText(
        "Identity",
        "Were the models, tokenizer, template, prompts and code the very ones that the plan names?",
        "Numbers about another file say nothing about this one.",
        change="Restore the files that the plan names, or freeze a new plan for the files at hand, and run again.",
        settle="Run the check again where every bound file can be read.",
        group="records",
    ),
    "complete": GateText(
        "Completeness",
        "Does every scheduled request have its record, in an unbroken chain?",
        "Missing requests are rarely missing at random.",
        change="Resume the run with the same command until every request is recorded.",
        settle="Resume the run with the same command until every request is recorded.",
        group="records",
    ),
    "exact-greedy": GateText(
        "Greedy exactness",
        "Is every answer, stop tokens and ends included, token for token what the champion alone gives?",
        "One differing token means that the champion is no longer the model being served.",
        "=",
        change="Find the first differing token (the mismatch names request, position and both tokens) and repair "
        "the verifier.",
        settle="More prompts, or a reduced-context battery, until every event class that the plan requires was seen "
        "often enough.",
        group="exactness",
    ),
    "exact-law": GateText(
        "Exactness of the law",
        "Do sampled answers follow the champion's own distribution?",
        "A biased sampler changes what users read without any visible error.",
        "within",
        label="derived",
        change="Repair the sampling path, or score more tokens if the interval is merely too wide.",
        settle="More scored tokens, until the interval of the shift lies inside the bound or outside it.",
        group="exactness",
    ),
    "logit-conformance": GateText(
        "Logit conformance",
        "Does checking several tokens in one call give the same numbers as checking them one at a time?",
        "Exactness rests on it: the champion that verifies must be the champion that writes.",
        "=",
        change="Make the engine's many-token path agree with its one-token path as declared.",
        settle="Run the conformance audit as part of the run.",
        group="exactness",
    ),
    "quality": GateText(
        "Task quality",
        "Do the task checks (valid JSON, exact extraction, code that runs, language and length as asked) come out "
        "no worse?",
        "Speed bought with worse answers is a loss.",
        ">=",
        change="Look at the prompts whose check failed; for an exact greedy arm any difference is a defect.",
        settle="More prompts with a task check.",
        group="exactness",
    ),
    "control": GateText(
        "Controls",
        "Does the clock see nothing where there is nothing, and a planted 5 % slowdown as 5 %?",
        "If the controls miss, every timing below is in doubt, so the timing gates can then only be inconclusive.",
        "within",
        change="Run on a quieter machine or with more blocks; a miss here never condemns the draft.",
        settle="A quieter machine or more blocks; a miss here never condemns the draft.",
        group="performance",
    ),
    "speedup": GateText(
        "Speed-up",
        "Is the whole answer, prompt reading included, faster by the planned factor in every designated stratum and "
        "overall?",
        "This is the reason to adopt a draft at all.",
        ">=",
        label="derived",
        change="A draft that is accepted more often or costs less per token; more prompts or blocks if the interval "
        "is too wide.",
        group="performance",
    ),
    "no-regression": GateText(
        "No regression",
        "Does every stratum, without exemption, keep at least nearly its old speed?",
        "A good average can hide a group of users for whom it got slower.",
        ">=",
        label="derived",
        change="A policy that proposes nothing where proposals are rejected, frozen before the next run.",
        group="performance",
    ),
    "tail": GateText(
        "Tail",
        "How many single requests became more than 10 % slower?",
        "Users remember the slow answers.",
        "<=",
        label="derived",
        change="Fewer or shorter proposals where acceptance is low; more prompts to narrow the upper limit.",
        group="performance",
    ),
    "ttft": GateText(
        "Time to first token",
        "Does the first token come as soon as before, for short and long prompts?",
        "A second model must read the prompt too, and the user waits for it.",
        "<=",
        label="derived",
        change="A cheaper draft prefill, or a draft that starts after the first token.",
        group="performance",
    ),
    "break-even": GateText(
        "Break-even",
        "Does a session of the declared length win back the time spent on loading the draft and reading the prompt "
        "with it?",
        "A draft that pays after a thousand tokens is no use in sessions of two hundred.",
        ">=",
        label="derived",
        change="A smaller draft, a cheaper load, longer sessions (shown, not assumed), or a larger gain per token.",
        settle="At least twelve cold loads of the draft, a declared session length, and more prompts.",
        group="performance",
    ),
    "beats-lookup": GateText(
        "Better than lookup",
        "Is a neural draft worth its weights compared with copying from the prompt, which needs none?",
        "The free method is the honest baseline.",
        ">=",
        label="derived",
        change="A better draft, or adopting prompt lookup instead.",
        settle="Prompt lookup as an arm of the same plan, and more prompts.",
        group="performance",
    ),
    "liveness": GateText(
        "Liveness",
        "Is the draft still accepted as often at the end of the run as at the start?",
        "Caches that drift apart show up as slowly falling acceptance.",
        ">=",
        label="measured",
        change="Look for state that leaks between requests.",
        settle="Canary requests at start, middle and end of the run.",
        group="conduct",
    ),
    "memory": GateText(
        "Memory",
        "Does peak resident memory, loading included, stay within the plan's envelope and near champion-alone?",
        "A process that is killed for memory has no latency.",
        "<=",
        change="A smaller draft, a smaller cache, or loading in another order.",
        settle="A memory timeline from at least five fresh processes of each arm.",
        group="resources",
    ),
    "energy": GateText(
        "Energy",
        "Does a token cost no more joules than before?",
        "Time saved on battery can still be a loss.",
        "<=",
        change="Run on a machine whose energy counter can be read.",
        settle="A machine whose energy counter can be read.",
        group="resources",
    ),
    "reliability": GateText(
        "Reliability",
        "Do rollback, cancellation and failure leave a clean state, and never a duplicated answer?",
        "A restart after visible output repeats or contradicts what the user has read.",
        change="Repair the failing transaction or cancellation case.",
        settle="The audits that feed this gate, as part of the run.",
        group="conduct",
    ),
    "deletion": GateText(
        "Clean deletion",
        "Can speculation be removed and the champion's path stay as it was?",
        "What cannot be removed has to be kept for ever.",
        change="Remove the dependency of the champion's path on the speculative code.",
        settle="The audits that feed this gate, as part of the run.",
        group="conduct",
    ),
    "privacy": GateText(
        "Privacy",
        "Are receipts and tables free of prompts, answers, token strings and local paths?",
        "Evidence is meant to be shared; private text is not.",
        change="Remove the field that the check names.",
        settle="The audits that feed this gate, as part of the run.",
        group="conduct",
    ),
    "provenance": GateText(
        "Provenance",
        "Is it recorded where the draft comes from, and that it was not trained on these prompts?",
        "A draft that has seen the test prompts looks better than it is.",
        change="Supply the receipt written when the draft was trained, or train without the overlapping prompts.",
        settle="The audits that feed this gate, as part of the run.",
        group="conduct",
    ),
}


def gate_text(id: str) -> GateText:
    """The text of a gate; a plain stand-in for ids this version does not know."""
    return GATE_TEXTS.get(id, GateText(id, f"Does the gate {id} hold?", "The plan asks for it."))


LABELS: Mapping[str, str] = {
    "measured": "read from a clock or counter of this run, or compared token by token in it",
    "derived": "computed from measured values by a stated formula",
    "assumed": "declared in the plan, not measured here",
}
