"""The account a run gives of itself: do rounds add up to requests, and can each round have happened as counted?

Needs no model and no private part. Acceptance figures, survival curves and costs are sums of these counts, so a count
that cannot be is an error even where the text is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .finding import Finding

Row = Mapping[str, Any]


def round_problem(row: Row) -> str | None:
    """What is impossible about one round by itself; None when it can have happened."""
    requested, proposed, tested = int(row["requested"]), int(row["proposed"]), int(row["tested"])
    accepted, emitted, forced = int(row["accepted"]), int(row["emitted"]), int(row["forced_tokens"])
    outcome = row["outcome"]
    if min(requested, proposed, tested, accepted, emitted, forced) < 0:
        return "a negative count"
    if not accepted <= tested <= proposed <= requested:
        return f"accepted {accepted}, tested {tested}, proposed {proposed}, requested {requested} are not in order"
    own = emitted - forced
    if outcome == "rejected":
        fits = tested == accepted + 1 and own == accepted + 1
    elif outcome == "accepted_all":
        fits = 0 < proposed == tested == accepted and own == accepted + 1
    elif outcome in ("stop", "length"):
        fits = 0 < tested == accepted and own == accepted
    elif outcome == "champion_step":
        fits = proposed == tested == accepted == 0 and own in ((0, 1) if forced else (1,))
    elif outcome == "failed":
        fits = emitted == 0
    else:
        return f"outcome {outcome!r} is not one there is"
    if not fits:
        return (
            f"outcome {outcome} with proposed {proposed}, tested {tested}, accepted {accepted} and emitted {emitted} "
            f"({forced} forced)"
        )
    entropy = row.get("entropy")
    if entropy is not None and len(entropy) not in (0, proposed):
        return f"{len(entropy)} entropies for {proposed} proposals"
    if any(int(row[name]) < 0 for name in row if name.endswith("_ns")):
        return "a negative time"
    return None


def request_problem(
    request: Row, rounds: Sequence[Row], max_new_tokens: int | None = None, drafts: bool = False
) -> str | None:
    """What does not add up in one request and its rounds, in order; ``drafts``: its proposals come from a model."""
    context = int(request["prompt_tokens"])
    for number, row in enumerate(rounds):
        if int(row["round"]) != number:
            return f"round {number} is numbered {int(row['round'])}"
        if int(row["context_tokens"]) != context:
            return f"round {number} begins at {int(row['context_tokens'])} tokens, the rounds before end at {context}"
        problem = round_problem(row)
        if problem is not None:
            return f"round {number}: {problem}"
        context += int(row["emitted"])
        if row["outcome"] in ("stop", "length") and number + 1 < len(rounds):
            return f"round {number} ended the request, and {len(rounds) - number - 1} more follow"
    sums = {
        "rounds": len(rounds),
        "new_tokens": sum(int(r["emitted"]) for r in rounds),
        "proposed": sum(int(r["proposed"]) for r in rounds),
        "accepted": sum(int(r["accepted"]) for r in rounds),
    }
    for name, total in sums.items():
        if int(request[name]) != total:
            return f"{name} is {int(request[name])}, its rounds sum to {total}"
    new = int(request["new_tokens"])
    if max_new_tokens is not None:
        if new > max_new_tokens:
            return f"{new} tokens where at most {max_new_tokens} were asked for"
        if request["finish_reason"] == "length" and new != max_new_tokens:
            return f"ended by length after {new} of {max_new_tokens} tokens"
    if request["finish_reason"] not in ("error", "cancelled") and new == 0 and max_new_tokens != 0:
        return "ended without a token and without a reason"
    if any(r["outcome"] == "failed" for r in rounds) and not (request["failure"] or request["fallback"]):
        return "a round failed and the request says nothing of it"
    calls = sum(r["outcome"] != "failed" and int(r["emitted"]) > int(r["forced_tokens"]) for r in rounds)
    if int(request["champion_calls"]) < calls:
        return f"{int(request['champion_calls'])} calls of the champion for {calls} rounds that needed one"
    if drafts and int(request["draft_calls"]) < sums["proposed"]:
        return f"{int(request['draft_calls'])} calls of the draft for {sums['proposed']} proposals"
    return None


def kept_problem(request: Row, preamble: int | None) -> str | None:
    """More of the prompt kept from the request before than the plan's prefix cache allows."""
    kept, prompt = int(request["cached_tokens"]), int(request["prompt_tokens"])
    if preamble is None or request["entry"] == "cold":
        most = 0
    else:
        most = max(0, prompt - 1 if int(request["turn"]) > 0 else min(preamble, prompt - 1))
    return None if 0 <= kept <= most else f"{kept} tokens kept of a prompt of {prompt}, where {most} may be"


def check_accounting(
    requests: Iterable[Row],
    rounds_of: Mapping[str, Sequence[Row]],
    max_new_tokens: Mapping[str, int] | None = None,
    draft_arms: Collection[str] = (),
    preamble: int | None = None,
) -> Finding:
    """Every request against its rounds. ``rounds_of`` and ``max_new_tokens`` by request id; ``draft_arms``: the arms
    whose proposals come from a model, a call each; ``preamble``: tokens that any warm request may find read, None
    without a prefix cache."""
    count = 0
    wrong = []
    for request in requests:
        name = str(request["request_id"])
        limit = None if max_new_tokens is None else max_new_tokens.get(name)
        rounds = rounds_of.get(name, ())
        count += max(1, len(rounds))
        problem = request_problem(request, rounds, limit, request["arm"] in draft_arms)
        problem = problem or kept_problem(request, preamble)
        if problem is not None:
            wrong.append({"request_id": name, "reason": problem})
    detail = {"mismatches": wrong[:20], "mismatch_count": len(wrong)}
    if wrong:
        detail["reason"] = f"{wrong[0]['request_id']}: {wrong[0]['reason']}"
    return Finding("accounting", not wrong and count > 0, count, "rounds", detail)
