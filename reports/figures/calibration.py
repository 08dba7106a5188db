"""Acceptance against the draft's entropy: does the draft know when it will be refused?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...gates.entropy import entropy_calibration
from ...gates.result import Verdict
from ..records import RunRecords
from . import style
from .drawn import CannotDraw, Sketch

TITLE = "Acceptance against the draft's entropy"
ABOUT = (
    "Share of decided proposals that were accepted, by tenths of the draft's own entropy at that position. A draft "
    "that knows its limits falls from left to right, and a policy may then stop early. Bars below: how many proposals "
    "lie in each tenth. Deterministic proposers have no entropy and are absent."
)
WITH_INTERVALS, WITHOUT_INTERVALS = " Whiskers: 95 % intervals by prompt.", " This sample gives no intervals."


def draw(records: RunRecords, verdict: Verdict) -> Sketch:
    rounds = records.table("rounds")
    table = entropy_calibration(rounds) if len(rounds) else pd.DataFrame()
    if table.empty:
        raise CannotDraw("no arm of this run proposes by a distribution, so there is no entropy to compare with")
    fig = style.figure(3.9)
    ax, below = fig.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    arms = list(dict.fromkeys(table["arm"]))
    for arm in arms:
        mine, how = table[table["arm"] == arm], style.look(arm, records.arms)
        middle = mine["acceptance"].to_numpy(float)
        reach = [
            np.nan_to_num(middle - mine["lower"].to_numpy(float)),
            np.nan_to_num(mine["upper"].to_numpy(float) - middle),
        ]
        ax.errorbar(mine["entropy"], middle, yerr=np.maximum(reach, 0), color=how.colour, marker=how.marker,
        markersize=5,
                    linestyle=how.dash, capsize=2.5, label=style.name(arm))  # fmt: skip
        width = np.maximum((mine["high"] - mine["low"]).to_numpy(float), 1e-3)
        below.bar(mine["low"], mine["tested"] / width, width=width, align="edge", color=how.colour, alpha=0.35,
                  edgecolor=style.PAPER, linewidth=0.7)  # fmt: skip
    ax.set_ylim(0, 1.02)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_ylabel("accepted")
    below.set_yticks([])
    below.set_ylabel("density")
    below.grid(False)
    below.set_xlabel("entropy of the draft's distribution at the proposed position (nats)")
    if len(arms) > 1:
        fig.legend(loc="outside upper right", ncols=len(arms))
    drawn = bool((table["upper"] > table["lower"]).any())
    return Sketch(fig, table, ABOUT + (WITH_INTERVALS if drawn else WITHOUT_INTERVALS), _alt(table), ("measured",))


def _alt(table: pd.DataFrame) -> str:
    said = []
    for arm, mine in table.groupby("arm"):
        first, last = mine.iloc[0], mine.iloc[-1]
        said.append(
            f"{style.name(str(arm))} is accepted in {100 * first['acceptance']:.0f} % of proposals near "
            f"{first['entropy']:.2f} "
            f"nats and in {100 * last['acceptance']:.0f} % near {last['entropy']:.2f} nats"
        )
    return "Acceptance by entropy with intervals. " + "; ".join(said) + "."
