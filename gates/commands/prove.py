"""The exactness proofs, and the lesson's exercise.

draftgate prove                  quick: toys, and the model when it is on this machine (about a minute)
draftgate prove --full           every proof at its full size, on the real model as well
draftgate prove --draft FILE     with a trained draft instead of the champion's coarsened self
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

MODEL = "smollm2-135m-instruct"
RAW = "runs/prove.json"


def configure(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes (the default)")
    size.add_argument("--full", action="store_true", help="full sizes; needs a model, and takes a while")
    parser.add_argument("--model", metavar="PATH", help=f"champion for the real-model proofs (default {MODEL})")
    parser.add_argument("--draft", metavar="PATH", help="a draft for it (default: the champion with coarsened logits)")
    parser.add_argument("--no-model", action="store_true", help="toys only")
    parser.add_argument(
        "--raw", type=Path, metavar="FILE", default=Path(RAW), help=f"findings and raw results as JSON (default {RAW})"
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON instead of tables")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..proofs.lesson import exercise
    from ..proofs.programme import FULL_AMOUNTS, QUICK_AMOUNTS, prove

    amounts = FULL_AMOUNTS if args.full else QUICK_AMOUNTS
    material = None if args.no_model else _material(args, amounts.prompts)
    lines = []
    for line in prove(amounts, material):
        lines.append(line)
        mark = "ok" if line.finding.ok else "FAILED"
        print(f"{line.proof}, {line.checked}: {mark} ({line.seconds:.1f} s)", file=sys.stderr)
    lesson = exercise(20_000 if args.full else 4_000)
    ok = all(line.finding.ok for line in lines) and _lesson_holds(lesson)
    found = {
        "ok": ok,
        "size": "full" if args.full else "quick",
        "proofs": [
            {"proof": x.proof, "checked": x.checked, "power": x.power, "seconds": x.seconds, **x.finding.body()}
            for x in lines
        ],
        "lesson": lesson,
    }
    args.raw.parent.mkdir(parents=True, exist_ok=True)
    args.raw.write_text(json.dumps(found) + "\n")
    if args.json:
        lesson.pop("raw")
        print(json.dumps(found))
    else:
        print("\n".join(table(lines)))
        print("\n".join(told(lesson)))
        print(f"raw results: {args.raw}")
    return 0 if ok else 5


def _material(args: argparse.Namespace, prompts: int) -> Any:
    """The real pair; for a quick run without one on this machine, None and a word about it."""
    from ...arms.errors import ArmError
    from ..proofs.real_proofs import real_material

    name = args.model or MODEL
    try:
        if args.full and args.model is None:
            from ...arms.models import pull

            name = str(pull(MODEL))
        return real_material(name, args.draft, prompts)
    except ArmError as error:
        if args.full or args.model or args.draft:
            raise
        print(f"draftgate: toys only ({error})", file=sys.stderr)
        return None


def _lesson_holds(lesson: dict[str, Any]) -> bool:
    """The exact identity in every case, frequencies that agree with it, and a counterexample that does not."""
    exact = all(
        all(abs(a - b) < 1e-12 for a, b in zip(c["output"], c["q"], strict=True)) and c["p_value"] > 1e-4
        for c in lesson["cases"]
    )
    return exact and lesson["counterexample"]["p_value_against_q"] < 1e-6


def table(lines: Any) -> list[str]:
    rows = [("proof", "what was checked", "n", "power or bound", "result")]
    for x in lines:
        n = f"{x.finding.n:,} {x.finding.unit}".strip()
        rows.append((x.proof, x.checked, n, x.power, "ok" if x.finding.ok else "FAILED"))
    width = [max(len(row[i]) for row in rows) for i in range(5)]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)).rstrip() for row in rows]
    out.insert(1, "  ".join("-" * w for w in width))
    for x in lines:
        if not x.finding.ok:
            detail = x.finding.detail
            why = detail.get("reason") or next((detail[k] for k in _WHERE if detail.get(k)), detail)
            out.append(f"{x.proof}: {str(why)[:300]}")
    return out


_WHERE = ("differences", "mismatches", "rejected", "first_difference", "missed")


def told(lesson: dict[str, Any]) -> list[str]:
    """The lesson's exercise for people. q is the champion, p the draft."""
    n, out = lesson["n"], ["", f"Two tokens A and B, {lesson['n']:,} rounds a case, seed {lesson['seed']}", ""]
    for c in lesson["cases"]:
        out.append(f"{c['case']}: q = {_pair(c['q'])}, p = {_pair(c['p'])}; predict: {c['predict']}")
        residual = "never drawn" if c["residual"] is None else _pair(c["residual"])
        out.append(
            f"  accepted mass {_pair(c['accepted'])}, rejected {c['rejected_mass']:g}, residual {residual}, "
            f"output {_pair(c['output'])}"
        )
        low, high = c["intervals"][0]
        out.append(
            f"  seen: A {c['frequencies'][0]:.4f} (95 % {low:.4f} to {high:.4f}), accepted {c['acceptance']:.4f}, "
            f"G-test p = {c['p_value']:.3f}; {c['ns_per_round'] / 1000:.0f} µs a round"
        )
    c = lesson["counterexample"]
    low, high = c["intervals"][0]
    out += [
        "",
        f"counterexample ({c['changed']}), on the {c['case']}:",
        f"  predicted min(p, q)/A = {_pair(c['predicted'])}, not q = {_pair(c['champion'])}",
        f"  seen: A {c['frequencies'][0]:.4f} (95 % {low:.4f} to {high:.4f}) of {n:,}; "
        f"against q: p = {c['p_value_against_q']:.1e}",
        f"  why: {c['why']}",
    ]
    return out


def _pair(values: Any) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in values) + ")"
