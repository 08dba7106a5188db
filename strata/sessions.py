"""How long a session with a workload lasts: the declared defaults that the break-even gate integrates over.

A session is what one load of the draft has to pay for: new tokens decoded between the start of the process (or the
page, or the app) and its end. Nobody measured these; they are stated so that they can be argued with, and a plan
replaces them under ``session_lengths``. Each is a log-normal, since session lengths are positive and long-tailed: the
median is an answer's usual length times the answers in a sitting, sigma says how much sittings differ (0.7: the middle
two thirds lie within a factor 2 of the median; 1.1: within a factor 3).
"""

from __future__ import annotations

from typing import Any

LENGTHS: dict[str, tuple[float, float, str]] = {
    "casual_chat": (600, 1.1, "six to ten short answers; many people say one thing and leave, a few stay all evening"),
    "ambiguous_requests": (
        150,
        0.9,
        "one guess or question back, then one answer; the rest of the talk is other strata",
    ),
    "source_conflict": (300, 0.8, "two or three comparisons of a paragraph each"),
    "current_preference": (300, 0.9, "a few short exchanges around one preference, then the subject changes"),
    "distrust_of_memory": (150, 0.8, "a refusal or a check is short, and there are one or two of them"),
    "summaries": (400, 0.8, "three or four documents, about a hundred tokens each"),
    "rewrites": (350, 0.8, "the rewritten text is as long as the text; people rewrite twice or thrice"),
    "structured_json": (800, 1.2, "called by programs in loops: many small objects from one warm process"),
    "extraction": (500, 1.2, "called by programs too, with shorter answers than JSON records"),
    "code": (1200, 1.0, "functions of a hundred to two hundred tokens, edited several times"),
    "repetitive_text": (500, 0.8, "lists and form letters run long; usually one or two a sitting"),
    "multilingual": (500, 1.0, "like chat, with more tokens per word where the vocabulary lacks the script"),
    "long_context": (250, 0.8, "two to four questions about one document, answered briefly; the prefill is the cost"),
    "adversarial": (200, 0.7, "nobody works like this all day: a few answers, kept short"),
}
FALLBACK = (400, 1.0, "an unknown workload: the middle of the known ones, spread wide")


def session_length(stratum: str) -> dict[str, Any]:
    """``{"kind": "lognormal", "median": new tokens, "sigma": …}`` of a stratum, or the fallback."""
    median, sigma, _ = LENGTHS.get(stratum, FALLBACK)
    return {"kind": "lognormal", "median": median, "sigma": sigma}


def session_lengths(strata: list[str]) -> dict[str, dict[str, Any]]:
    """The plan's ``session_lengths`` section for these strata, with ``*`` for any other."""
    return {**{name: session_length(name) for name in strata}, "*": session_length("*")}
