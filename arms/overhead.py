"""What a round costs outside the models' forward passes: the figures `draftgate bench` prints."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from . import masses as law
from .build import build_arm
from .draws import PhiloxDraws
from .processors import ProcessorChain
from .request import Request, StopPolicy

if TYPE_CHECKING:
    from .models import Model

DECODINGS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {},
    "stochastic": {"temperature": 1.0},
    "stochastic_top_p": {"temperature": 0.7, "top_p": 0.9},
}
PROMPT = "Say the days of the week, then the months of the year, then the days of the week again, one a line."


def measure(champion: Model, draft: Model | None = None, new_tokens: int = 96, k: int = 4) -> dict[str, Any]:
    """Overheads by decoding, and the cost of five rows; times in microseconds, medians over rounds.

    Per decoding: ``round_us``, ``forward_us`` (both models), ``outside_us`` and ``outside_share`` = outside / round,
    over rounds that proposed something. Without a draft the champion proposes for itself, so that every block is full;
    its forward time then counts as the draft's.
    """
    prompt = champion.encode_raw(PROMPT)
    figures: dict[str, Any] = {"kernel": law.kernel(), "five_rows": five_rows(champion, prompt)}
    for name, decoding in DECODINGS.items():
        spec = {"name": "neural_draft", "kind": "neural_draft", "k": k, "policy": {"kind": "fixed"}}
        figures[name] = _rounds(build_arm(spec, champion, draft or champion, decoding), prompt, new_tokens)
    lookup = {"name": "prompt_lookup", "kind": "prompt_lookup", "k": k, "min_ngram": 1, "max_ngram": 3}
    figures["greedy_lookup"] = _rounds(build_arm(lookup, champion, None, DECODINGS["greedy"]), prompt, new_tokens)
    return figures


def _rounds(arm: Any, prompt: list[int], new_tokens: int) -> dict[str, float]:
    totals, forwards = [], []
    session = arm.open(Request("overhead", tuple(prompt), new_tokens, 1, StopPolicy(), "overhead"))
    session.prefill()
    while not session.finished():
        drafted = session.proposer.forward_ns
        record = session.step()
        if record.proposed:
            totals.append(record.total_ns)
            forwards.append(record.verify_ns + session.proposer.forward_ns - drafted)
    session.close()
    outside = [t - f for t, f in zip(totals, forwards, strict=True)]
    if not totals:
        return {"rounds": 0}
    return {
        "rounds": len(totals),
        "round_us": median(totals) / 1e3,
        "forward_us": median(forwards) / 1e3,
        "outside_us": median(outside) / 1e3,
        "outside_share": median(o / t for o, t in zip(outside, totals, strict=True)),
    }


def five_rows(champion: Model, prompt: list[int], repeats: int = 60) -> dict[str, float]:
    """Microseconds to process and draw for a five-row stochastic round on one thread, by decoding, median of repeats.

    Five champion rows, four accept draws, a residual and its draw: the most the champion's side of a round can cost.
    """
    cache = champion.engine.new_cache(len(prompt))
    tx = cache.begin()
    logits = champion.engine.verify_linear(tx, prompt, "all")[-5:]
    tx.rollback()
    cache.close()
    figures = {"vocabulary": float(logits.shape[1])}
    for name in ("stochastic", "stochastic_top_p"):
        state = ProcessorChain(DECODINGS[name], logits.shape[1]).open(prompt)
        p, row = state.masses(logits[0]).copy(), np.empty(logits.shape[1], np.uint64)
        times = []
        for repeat in range(repeats):
            draws = PhiloxDraws(1, "five rows", repeat)
            started = perf_counter_ns()
            for i in range(4):
                q = state.masses(logits[i], row)
                draws.accept(int(q[0]), max(1, int(p[0])), i)
            q = state.masses(logits[4], row)
            _, rest, mass = law.residual(q, p)
            if mass:
                draws.categorical(rest, "correction_sample", 4, mass)
            times.append(perf_counter_ns() - started)
        figures[f"{name}_us"] = median(times) / 1e3
    return figures
