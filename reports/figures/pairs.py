"""Requests beside their champion-alone counterparts, and the arms a figure shows."""

from __future__ import annotations

import pandas as pd

from ...gates.evidence import BASELINE
from ..records import RunRecords

KEY = ["stratum", "prompt_id", "block", "turn", "entry"]


def paired_speedups(records: RunRecords, entry: str = "warm") -> pd.DataFrame:
    """A row per request and arm: KEY, ``arm``, ``speedup`` = champion-alone time over the arm's.

    Only pairs with both times; excluded pairs are left out, as in the gates.
    """
    requests = records.table("requests")
    empty = pd.DataFrame(columns=[*KEY, "arm", "speedup"])
    if requests.empty:
        return empty
    kept = requests[(requests["entry"] == entry) & (requests["total_ns"] > 0)]
    dropped = set(map(tuple, kept.loc[kept["excluded"] != "", KEY].itertuples(index=False)))
    if dropped:
        kept = kept[[tuple(row) not in dropped for row in kept[KEY].itertuples(index=False)]]
    base = kept.loc[kept["arm"] == BASELINE, [*KEY, "total_ns"]].rename(columns={"total_ns": "base_ns"})
    joined = kept[kept["arm"] != BASELINE].merge(base, on=KEY, how="inner")
    joined["speedup"] = joined["base_ns"] / joined["total_ns"]
    return joined[[*KEY, "arm", "speedup"]] if len(joined) else empty
