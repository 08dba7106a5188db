"""The checklists a report answers: clean-deletion criteria, minimum adoption conditions and primary sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..gates.result import GateResult

State = Literal["clear", "triggered", "open", "not asked"]


@dataclass(frozen=True)
class Criterion:
    text: str
    gates: tuple[str, ...]
    note: str = ""
    kinds: tuple[str, ...] = ()
    """Where not empty: it applies only when the plan decodes this way ("greedy", "stochastic")."""


DELETION: Sequence[Criterion] = (
    Criterion("The champion has no efficient way to verify several tokens in one call", ("break-even", "speedup"),
              "a costly verification shows as a cost per token that never falls below champion-alone"),
    Criterion("Greedy mismatches persist under matched identities", ("exact-greedy",), kinds=("greedy",)),
    Criterion("Tests of the sampled distribution fail", ("exact-law",), kinds=("stochastic",)),
    Criterion("Draft loading and prefill do not pay off over expected sessions", ("break-even",)),
    Criterion("Peak memory leaves the supported envelope", ("memory",)),
    Criterion("The draft raises energy per token without an accepted benefit", ("energy",)),
    Criterion("Gains occur only on repetitive text, not on the designated strata", ("speedup", "no-regression")),
    Criterion("The scheduler must look into private content", ("privacy",)),
    Criterion("Rollback or cancellation of the cache is unreliable", ("reliability", "liveness")),
    Criterion("Translating between tokenizers costs more complexity than it brings", ("identity",),
              "here both models must have the same tokenizer, byte for byte, so there is nothing to translate"),
    Criterion("Speculation cannot be switched off cleanly", ("deletion",)),
)  # fmt: skip

ADOPTION: Sequence[Criterion] = (
    Criterion("The champion scores a proposed block in one call, with the row after it", ("logit-conformance",)),
    Criterion("Caches of champion and draft are transactional, with rollback", ("reliability",)),
    Criterion("Identities and tokenizer pass strict checks", ("identity",)),
    Criterion("Greedy output is token for token the champion's", ("exact-greedy",), kinds=("greedy",)),
    Criterion("Sampled output follows the champion's distribution", ("exact-law",), kinds=("stochastic",)),
    Criterion("Gains are end to end: loads, prefills, caches, rejected work and memory included", ("speedup",
    "break-even", "memory")),
    Criterion("It fails before output or visibly, and never repeats an answer", ("reliability",)),
    Criterion("It can be deleted and the champion's path stays", ("deletion",)),
)  # fmt: skip


def state_of(criterion: Criterion, gates: Mapping[str, GateResult], decoding: str) -> tuple[State, str]:
    """Where a criterion stands, and by which gates. "clear" needs every one of its gates to have passed."""
    if criterion.kinds and decoding not in criterion.kinds:
        return "not asked", f"this plan decodes {'greedily' if decoding == 'greedy' else 'by sampling'}"
    found = [gates[g] for g in criterion.gates if g in gates and gates[g].status != "not-applicable"]
    missing = [g for g in criterion.gates if g not in gates]
    words = ", ".join(f"{g.id} {g.status}" for g in found) or "no gate of this plan covers it"
    if any(g.status in ("fail", "invalid") for g in found):
        return "triggered", words
    if found and not missing and all(g.status == "pass" for g in found):
        return "clear", words
    return "open", words + (f"; not in this plan: {', '.join(missing)}" if missing and found else "")


@dataclass(frozen=True)
class Source:
    authors: str
    year: int
    title: str
    where: str
    url: str
    use: str
    checked: bool = True
    """Compared with public bibliographies; what is not is named in reports/README.md."""


SOURCES: Sequence[Source] = (
    Source("Leviathan, Kalman, Matias", 2023, "Fast Inference from Transformers via Speculative Decoding", "ICML",
           "https://arxiv.org/abs/2211.17192", "the exact acceptance and residual rule; expected tokens per round"),
    Source("Chen, Borgeaud, Irving, Lespiau, Sifre, Jumper", 2023,
    "Accelerating Large Language Model Decoding with Speculative Sampling",
           "preprint", "https://arxiv.org/abs/2302.01318", "the same rule, found independently"),
    Source("Stern, Shazeer, Uszkoreit", 2018, "Blockwise Parallel Decoding for Deep Autoregressive Models", "NeurIPS",
           "https://arxiv.org/abs/1811.03115", "greedy verification of a proposed block"),
    Source("Xia and others", 2024, "Unlocking Efficiency in Large Language Model Inference: A Comprehensive Survey "
                                   "of Speculative Decoding",
           "ACL Findings", "https://arxiv.org/abs/2401.07851", "workload strata for speculative decoding (Spec-Bench)"),
    Source("Cai and others", 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads",
    "ICML",
           "https://arxiv.org/abs/2401.10774", "drafts as heads; relaxed acceptance, which is not exact"),
    Source("Li, Wei, Zhang, Zhang", 2024, "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty", "ICML",
           "https://arxiv.org/abs/2401.15077", "drafts fed by the champion's hidden states"),
    Source("Elhoushi and others", 2024, "LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding", "ACL",
           "https://arxiv.org/abs/2404.16710", "self-speculation by early exit"),
    Source("Fu, Bailis, Stoica, Zhang", 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead "
                                              "Decoding", "ICML",
           "https://arxiv.org/abs/2402.02057", "n-gram proposals without a draft model"),
    Source("Salmon, Moraes, Dror, Shaw", 2011, "Parallel Random Numbers: As Easy as 1, 2, 3", "SC",
           "https://doi.org/10.1145/2063384.2063405", "the counter-based random draws"),
    Source("Hall", 1992, "On the Removal of Skewness by Transformation",
    "Journal of the Royal Statistical Society B 54",
           "https://doi.org/10.1111/j.2517-6161.1992.tb01876.x", "the guard against skew in the speed-up interval",
           checked=False),
    Source("Satterthwaite", 1946, "An Approximate Distribution of Estimates of Variance Components",
    "Biometrics Bulletin 2",
           "https://doi.org/10.2307/3002019", "degrees of freedom when prompts and blocks both vary"),
    Source("Fieller", 1954, "Some Problems in Interval Estimation", "Journal of the Royal Statistical Society B 16",
           "https://doi.org/10.1111/j.2517-6161.1954.tb00159.x", "the set of break-even lengths, never included"),
    Source("Holm", 1979, "A Simple Sequentially Rejective Multiple Test Procedure",
    "Scandinavian Journal of Statistics 6",
           "https://www.jstor.org/stable/4615733", "declaring failures over several strata"),
    Source("Berger", 1982, "Multiparameter Hypothesis Testing and Acceptance Sampling", "Technometrics 24",
           "https://doi.org/10.1080/00401706.1982.10487790",
           "all gates at the same level without a correction on passes"),
    Source("Okabe, Ito", 2008, "Color Universal Design: How to Make Figures and Presentations That Are Friendly to "
                                "Colorblind People", "Jikei Medical School and University of Tokyo", "https://jfly.uni-koeln.de/color/",
           "colours that colour-blind readers can tell apart"),
    Source("Rundgren, Jordan, Erdtman", 2020, "JSON Canonicalization Scheme (RFC 8785)", "IETF",
           "https://www.rfc-editor.org/rfc/rfc8785", "the bytes behind a plan id"),
)  # fmt: skip
