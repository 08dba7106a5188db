"""The gate on greedy exactness: the candidate's answers are champion-alone's, token for token, stop included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...harness.wording import counted
from ..check import Check, frozen
from ..event_classes import event_classes
from ..evidence import BASELINE, Evidence, warm
from ..private_outputs import first_difference
from ..result import GateResult

KEYS = ["stratum", "prompt_id", "block", "turn"]
AUDITS = ("greedy_battery", "greedy_identity", "replay", "enumeration", "fresh_state")
"""One of these that is not in order fails the gate; their mismatches name the place."""
SAME = ["output_digest", "new_tokens", "finish_reason"]


class ExactGreedy(Check):
    id = "exact-greedy"
    asks = "Is every greedy answer the champion's own, token for token, end included?"
    defaults = frozen({"mismatches": 0, "classes": ("accepted_all", "rejected"), "occurrences": 59})

    def evaluate(self, evidence: Evidence) -> GateResult:
        if not evidence.greedy:
            return self.result("not-applicable", "the plan samples; exact-law speaks about it")
        merged = compare(evidence.requests, evidence.candidate)
        if isinstance(merged, str):
            return self.result("inconclusive", merged)
        prompts = len(merged[["stratum", "prompt_id"]].drop_duplicates())
        wrong = merged[merged["differs"]]
        classes = event_classes(evidence)
        short = {
            name: classes.get(name, 0)
            for name in self.params["classes"]
            if classes.get(name, 0) < self.params["occurrences"]
        }
        bound = 3.0 / prompts
        details: dict[str, Any] = {
            "pairs": len(merged),
            "mismatches": len(wrong),
            "event_classes": classes,
            "upper_bound": bound,
        }
        common: dict[str, Any] = {
            "estimate": float(len(wrong)),
            "threshold": float(self.params["mismatches"]),
            "n": prompts,
            "unit": "mismatches",
            "per_stratum": tuple(_by_stratum(merged)),
            "details": details,
        }
        failed = _failed_audits(evidence)
        if len(wrong) > self.params["mismatches"] or failed:
            examples = mismatches(evidence, wrong)
            details["examples"] = examples
            said = describe(examples[0]) if examples else failed[0]
            what = (
                f"{len(wrong)} of {counted(len(merged), 'answer')} differ from champion-alone"
                if len(wrong)
                else failed[0]
            )
            return self.result("fail", f"{what}: {said}" if said != what else what, **common)
        other = _other_arm_differs(evidence)
        if other:
            return self.result("inconclusive", other, **common)
        if merged["output_digest"].eq("").any():
            return self.result("inconclusive", "answers without a digest cannot be compared", **common)
        if short:
            said = ", ".join(f"{name} {count}" for name, count in short.items())
            return self.result(
                "inconclusive",
                f"no mismatch, but too few events of a class the plan requires ({self.params['occurrences']}): {said}",
                **common,
            )
        reason = (
            f"no mismatch in {counted(len(merged), 'answer')} to {counted(prompts, 'prompt')} (95 % upper bound 3/n = "
            f"{bound:.2%} of prompts)"
        )
        return self.result("pass", reason, **common)

    def disturb(self, evidence: Evidence) -> Evidence:
        frame = evidence.requests.copy()
        mine = frame.index[(frame["arm"] == evidence.candidate) & (frame["entry"] != "cold")]
        frame.loc[mine[-1:], "output_digest"] = "disturbed"
        return evidence.replace(requests=frame)


def compare(requests: pd.DataFrame, arm: str, baseline: str = BASELINE) -> pd.DataFrame | str:
    """One row a pair of warm requests with ``differs``; a sentence instead when there is nothing to compare."""
    needed = {"arm", *KEYS, *SAME}
    if requests.empty or not needed <= set(requests.columns):
        return "requests lack " + ", ".join(sorted(needed - set(requests.columns)) or ["rows"])
    rows = warm(requests)
    columns = [*KEYS, *SAME, *(c for c in ("request_id",) if c in rows)]
    mine, base = rows[rows["arm"] == arm][columns], rows[rows["arm"] == baseline][columns]
    if mine.empty or base.empty:
        return f"no requests of arm {arm if mine.empty else baseline}"
    if mine.duplicated(KEYS).any() or base.duplicated(KEYS).any():
        return "duplicated request rows"
    merged = mine.merge(base, on=KEYS, how="inner", suffixes=("", "_champion"))
    if len(merged) < max(len(mine), len(base)):
        return f"{max(len(mine), len(base)) - len(merged)} answers have no partner"
    differs = pd.Series(False, index=merged.index)
    for column in SAME:
        differs |= merged[column].fillna("") != merged[f"{column}_champion"].fillna("")
    return merged.assign(differs=differs)


def _by_stratum(merged: pd.DataFrame) -> list[dict[str, Any]]:
    lines = []
    for name, rows in merged.groupby("stratum", sort=True):
        wrong, prompts = int(rows["differs"].sum()), int(rows["prompt_id"].nunique())
        lines.append(
            {
                "stratum": str(name),
                "status": "fail" if wrong else "pass",
                "estimate": float(wrong),
                "interval": None,
                "n": prompts,
                "reason": f"{wrong} of {counted(len(rows), 'answer')} differ",
            }
        )
    return lines


def mismatches(evidence: Evidence, wrong: pd.DataFrame, most: int = 5) -> list[dict[str, Any]]:
    """The first mismatches, with position and tokens where an audit or the private answers show them."""
    seen: dict[str, Mapping[str, Any]] = {}
    for name in AUDITS:
        for body in evidence.audits.get(name, ()):
            for found in (body.get("detail") or {}).get("mismatches") or ():
                if isinstance(found, Mapping) and not body.get("ok"):
                    seen.setdefault(str(found.get("request_id", "?")), found)
    if wrong.empty:
        return [{"request": request, **_where(found)} for request, found in list(seen.items())[:most]]
    out = []
    first = wrong.head(most)
    ids = [*first.get("request_id", ()), *first.get("request_id_champion", ())]
    answers = evidence.outputs(ids) if evidence.outputs is not None else {}
    for _, row in first.iterrows():
        request = str(row.get("request_id", f"{row['stratum']}/{row['prompt_id']}/{row['block']}"))
        mine, base = answers.get(request), answers.get(str(row.get("request_id_champion")))
        at = first_difference(mine, base) if mine is not None and base is not None else {}
        out.append({
            "request": request, "stratum": str(row["stratum"]), "prompt": str(row["prompt_id"]), "block":
            int(row["block"]),
            "tokens": int(row["new_tokens"]), "champion_tokens": int(row["new_tokens_champion"]),
            "finish_reason": str(row["finish_reason"]), "champion_finish_reason": str(row["finish_reason_champion"]),
            **at, **_where(seen.get(request, {})),
        })  # fmt: skip
    return out


def _where(found: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("position", "token", "arm_token", "champion_token", "margin", "reason")
    return {k: found[k] for k in keys if found.get(k) is not None}


def describe(example: Mapping[str, Any]) -> str:
    """ "request X, position 17: token 312 where the champion has 9 (its margin there 0.02)"."""
    said = f"request {example['request']}"
    if "position" in example:
        said += f", position {example['position']}"
    token = example.get("arm_token", example.get("token"))
    if token is not None and "champion_token" in example:
        said += f": token {token} where the champion has {example['champion_token']}"
    elif example.get("finish_reason") != example.get("champion_finish_reason"):
        said += f": ended by {example.get('finish_reason')}, the champion by {example.get('champion_finish_reason')}"
    elif example.get("tokens") != example.get("champion_tokens"):
        said += f": {example.get('tokens')} tokens, the champion {example.get('champion_tokens')}"
    if "margin" in example:
        said += f" (the champion's margin there is {float(example['margin']):.3g})"
    return said


def _failed_audits(evidence: Evidence) -> list[str]:
    return [
        f"audit {name} is not in order ({body.get('n', 0)} checked)"
        for name in AUDITS
        for body in evidence.audits.get(name, ())
        if not body.get("ok")
    ]


def _other_arm_differs(evidence: Evidence) -> str:
    """A champion that disagrees with itself, or a comparator that is not exact, leaves the claim no referent."""
    for arm in evidence.arms():
        name = str(arm.get("name"))
        if name in (evidence.candidate, BASELINE):
            continue
        merged = compare(evidence.requests, name)
        if not isinstance(merged, str) and merged["differs"].any():
            return f"{int(merged['differs'].sum())} answers of arm {name} differ from champion-alone"
    return ""
