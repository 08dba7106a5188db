"""Survival by proposal position and stratum: how far into a block the champion still agrees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ...gates.acceptance import Curve, Survival, survival
from ...gates.evidence import BASELINE
from ...gates.fixed_k import COLUMNS as FIXED_K_COLUMNS
from ...gates.result import Verdict
from ..records import RunRecords
from . import style
from .drawn import CannotDraw, Sketch

TITLE = "Survival by proposal position"
ABOUT = "Share of blocks whose first i proposals are all accepted."
FILLED = " Filled markers: fixed-k survival, what a full block would do, from replayed round starts."
HOLLOW = " Hollow markers: policy survival, what the frozen policy proposed and got, all rounds counted."
SHADED = " Shaded: 95 % band, simultaneous over positions, by prompt."
RESAMPLES = 400
COLUMNS = (*FIXED_K_COLUMNS, "emitted")
"""All that survival reads of the table of rounds."""


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    """One panel for all strata and one for each, round-weighted."""
    rounds = records.table("rounds")
    arms = [a["name"] for a in records.plan["arms"] if a.get("kind") != BASELINE]
    if rounds.empty or not arms:
        raise CannotDraw("no arm of this run proposed anything")
    rounds = rounds.loc[rounds["arm"].isin(arms).to_numpy(), [c for c in COLUMNS if c in rounds]]
    if rounds.empty or not rounds["proposed"].max():
        raise CannotDraw("no arm of this run proposed anything")
    shadow = records.table("shadow")
    found = survival(rounds, RESAMPLES, np.random.default_rng(0), shadow=shadow if len(shadow) else None)
    strata = [s for s in records.strata if any(c.stratum == s for c in found.curves)]
    panels = ["*", *strata] if len(strata) > 1 else strata
    fig, axes = style.small_multiples(len(panels))
    last = max((len(c.estimate) for c in found.curves), default=1)
    axes[0].set_ylim(0, 1.02)
    axes[0].set_xlim(0.7, last + 0.3)
    axes[0].set_xticks(range(1, last + 1))
    axes[0].set_yticks([0, 0.5, 1.0], ["0", "½", "1"])
    for place, (ax, stratum) in enumerate(zip(axes, panels, strict=True)):
        for arm in arms:
            panel(ax, found, arm, stratum, records.arms, label=style.name(arm) if place == 0 else None)
        ax.set_title("all strata" if stratum == "*" else stratum, fontsize=7.8)
    style.label_all(fig, "proposal position i", "share of blocks surviving to i", max(1, len(arms)))
    notes = f" Not estimated: {'; '.join(found.notes)}." if found.notes else ""
    return Sketch(fig, found.frame(), _caption(found, arms, panels) + notes, _alt(found, arms), ("measured", "derived"))


def _caption(found: Survival, arms: Sequence[str], panels: Sequence[str]) -> str:
    """What is drawn and nothing else: a sample may give no band, and a run no shadow replay."""
    both = [(curve_of(found, a, s, "fixed-k"), curve_of(found, a, s, "policy")) for a in arms for s in panels]
    shaded = [fixed if fixed is not None else policy for fixed, policy in both]
    banded = any(c is not None and bool((np.asarray(c.band_upper) > np.asarray(c.band_lower)).any()) for c in shaded)
    parts = (
        (FILLED, any(fixed is not None for fixed, _ in both)),
        (HOLLOW, any(policy is not None for _, policy in both)),
        (SHADED, banded),
    )
    return ABOUT + "".join(text for text, drawn in parts if drawn)


def panel(ax: Axes, found: Survival, arm: str, stratum: str, arms: Sequence[str], label: str | None) -> None:
    how = style.look(arm, arms)
    fixed, policy = curve_of(found, arm, stratum, "fixed-k"), curve_of(found, arm, stratum, "policy")
    if policy is not None:
        x = np.arange(1, len(policy.estimate) + 1)
        alone = fixed is None
        if alone:
            ax.fill_between(x, policy.band_lower, policy.band_upper, color=how.colour, alpha=0.18, linewidth=0)
        ax.plot(x, policy.estimate, color=how.colour, linestyle=how.dash if alone else "none", marker=how.marker,
                markerfacecolor=style.PAPER, markeredgewidth=1.0, linewidth=1.2,
                label=label if alone else None)  # fmt: skip
    if fixed is not None:
        x = np.arange(1, len(fixed.estimate) + 1)
        ax.fill_between(x, fixed.band_lower, fixed.band_upper, color=how.colour, alpha=0.18, linewidth=0)
        ax.plot(x, fixed.estimate, color=how.colour, linestyle=how.dash, marker=how.marker, markersize=3.2, label=label)


def curve_of(found: Survival, arm: str, stratum: str, estimand: str) -> Curve | None:
    """The round-weighted curve, or None where it could not be estimated."""
    wanted = (arm, stratum, estimand, "round")
    return next((c for c in found.curves if (c.arm, c.stratum, c.estimand, c.weighting) == wanted), None)


def _alt(found: Survival, arms: Sequence[str]) -> str:
    parts = []
    for arm in arms:
        pooled = curve_of(found, arm, "*", "policy") or next((c for c in found.curves if c.arm == arm), None)
        if pooled is None or not len(pooled.estimate):
            continue
        values = ", ".join(f"{100 * v:.0f} %" for v in pooled.estimate)
        parts.append(
            f"{style.name(arm)} survives to positions 1 to {len(pooled.estimate)} in {values} of rounds, "
            f"{pooled.tokens_per_round:.2f} tokens a round"
        )
    return "Falling curves of survival by position, a panel a stratum. " + "; ".join(parts) + "."
