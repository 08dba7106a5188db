"""From request rows to paired log ratios: the same prompt in the same block on two arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from .evidence import BASELINE, Evidence

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """Log ratios y [clusters, blocks] by stratum; NaN where an arm-blind rule dropped the pair."""

    values: Mapping[str, Array]
    clusters: Mapping[str, tuple[str, ...]]
    problems: Mapping[str, str] = field(default_factory=dict)
    """Stratum → why its pairs decide nothing; "" → why none does."""
    raw: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    """Stratum → outcome itself on arm and baseline [clusters, blocks], family means, NaN as in ``values``."""
    sizes: Mapping[str, Array] = field(default_factory=dict)
    """Stratum → prompts in each cluster [clusters]."""

    def problem(self, stratum: str) -> str | None:
        if self.problems.get(""):
            return self.problems[""]
        if stratum in self.problems:
            return self.problems[stratum]
        return None if stratum in self.values else "no pairs in this stratum"


def paired(
    evidence: Evidence,
    arm: str,
    baseline: str = BASELINE,
    column: str = "total_ns",
    *,
    per_token: bool = False,
    group: pd.Series | None = None,
) -> Paired:
    """y = log(arm / baseline) of ``column`` per cluster and block, warm entries only.

    Turns of a conversation are summed; prompts of one family are averaged (the family is the cluster). ``per_token``
    divides by the tokens emitted, for arms whose texts differ. ``group`` replaces the stratum as the row's group (a
    series aligned with ``evidence.requests``). Unusable rows never vanish: they make their group's problem.
    """
    if (arm, baseline, column) in evidence.given:
        return evidence.given[arm, baseline, column]  # type: ignore[no-any-return]
    frame = evidence.requests
    needed = {"arm", "stratum", "prompt_id", "block", column}
    if not needed <= set(frame.columns):
        return Paired({}, {}, {"": f"requests lack {', '.join(sorted(needed - set(frame.columns)))}"})
    work = _rows(evidence, arm, baseline, column, group)
    if not evidence.greedy and baseline == BASELINE and not per_token and not work.loc[~work["is_arm"], "forced"].all():
        return Paired({}, {}, {"": f"{baseline} was not timed on the candidate's own tokens"})
    for name in (arm, baseline):
        if not bool((work["is_arm"] == (name == arm)).any()):
            return Paired({}, {}, {"": f"no timed requests of arm {name}"})
    duplicated = work.duplicated(["is_arm", "group", "prompt", "block", "turn"])
    if duplicated.any():
        return Paired({}, {}, {"": f"{int(duplicated.sum())} duplicated request rows"})
    values, clusters, problems, raw, sizes = {}, {}, {}, {}, {}
    for key, rows in work.groupby("group", sort=True, observed=True):
        stratum = str(key)
        try:
            y, ids, both, size = _matrix(rows, per_token)
        except _Unusable as error:
            problems[stratum] = str(error)
            continue
        values[stratum], clusters[stratum], raw[stratum], sizes[stratum] = y, ids, both, size
    return Paired(values, clusters, problems, raw, sizes)


class _Unusable(Exception):
    """These rows decide nothing; the message says why."""


def _rows(evidence: Evidence, arm: str, baseline: str, column: str, group: pd.Series | None) -> pd.DataFrame:
    frame = evidence.requests
    arms = frame["arm"].to_numpy()
    use = (arms == arm) | (arms == baseline)
    if "entry" in frame:
        use &= frame["entry"].to_numpy() != "cold"
    if not evidence.greedy and "forced" in frame and baseline == BASELINE:
        # A stochastic plan times champion-alone force-decoding the candidate's tokens; its own texts are not pairs.
        forced = frame["forced"].to_numpy(bool)
        if (forced & (arms == baseline)).any():
            use &= (arms != baseline) | forced
    picked = frame[use]
    family = picked["family_id"] if "family_id" in picked else picked["prompt_id"]
    excluded = picked["excluded"].fillna("") != "" if "excluded" in picked else pd.Series(False, index=picked.index)
    return pd.DataFrame(
        {
            "is_arm": picked["arm"].to_numpy() == arm,
            "group": (picked["stratum"] if group is None else group[use]).to_numpy(),
            "prompt": picked["prompt_id"].to_numpy(),
            "family": family.to_numpy(),
            "block": picked["block"].to_numpy(),
            "turn": picked["turn"].to_numpy() if "turn" in picked else 0,
            "value": pd.to_numeric(picked[column], errors="coerce").to_numpy(float),
            "tokens": picked["new_tokens"].to_numpy(float) if "new_tokens" in picked else np.nan,
            "forced": picked["forced"].to_numpy(bool) if "forced" in picked else False,
            "excluded": excluded.to_numpy(bool) & (not evidence.with_excluded),
        }
    )


def _matrix(rows: pd.DataFrame, per_token: bool) -> tuple[Array, tuple[str, ...], tuple[Array, Array], Array]:
    value = rows["value"].to_numpy(float)
    bad = ~np.isfinite(value) | (value <= 0)
    if bad.any():
        raise _Unusable(f"{int(bad.sum())} of {len(bad)} values are missing, infinite or not positive")
    prompt, prompts = pd.factorize(rows["prompt"], sort=True)
    block, blocks = pd.factorize(rows["block"], sort=True)
    is_arm = rows["is_arm"].to_numpy(bool)
    shape = (2, len(prompts), len(blocks))
    cell = np.ravel_multi_index((is_arm.astype(int), prompt, block), shape)
    size = int(np.prod(shape))
    count = np.bincount(cell, minlength=size).reshape(shape)
    total: Array = np.bincount(cell, weights=value, minlength=size).reshape(shape).astype(float)
    dropped = np.bincount(cell, weights=rows["excluded"].to_numpy(float), minlength=size).reshape(shape).sum(axis=0) > 0
    if (count[0] != count[1]).any() or (count.sum(axis=0) == 0).any():
        unpaired = int(((count[0] != count[1]) | (count.sum(axis=0) == 0)).sum())
        raise _Unusable(f"{unpaired} of {count[0].size} prompt × block cells are not paired")
    if per_token:
        tokens = np.bincount(cell, weights=rows["tokens"].to_numpy(float), minlength=size).reshape(shape)
        if not (tokens > 0).all():
            raise _Unusable("a request emitted no token, so its time per token does not exist")
        total = total / tokens
    total[:, dropped] = np.nan
    ratio = np.log(total[1]) - np.log(total[0])
    if dropped.all():
        raise _Unusable("every pair was excluded")
    left = ~dropped.all(axis=1)
    ratio, total, prompts = ratio[left], total[:, left], prompts[left]
    family_of = rows.drop_duplicates("prompt").set_index("prompt")["family"].reindex(prompts)
    family, families = pd.factorize(family_of)
    if len(families) == len(prompts):
        return ratio, tuple(str(p) for p in prompts), (total[1], total[0]), np.ones(len(prompts))
    n = len(families)
    y, arm, base = (_by_family(x, family, n) for x in (ratio, total[1], total[0]))
    return y, tuple(map(str, families)), (arm, base), np.bincount(family).astype(float)


def _by_family(ratio: Array, family: npt.NDArray[np.intp], n: int) -> Array:
    """Mean over the members of each family, per block; NaN where no member is left."""
    out = np.full((n, ratio.shape[1]), np.nan)
    for j in range(ratio.shape[1]):
        there = ~np.isnan(ratio[:, j])
        count = np.bincount(family[there], minlength=n)
        total = np.bincount(family[there], weights=ratio[there, j], minlength=n)
        np.divide(total, count, out=out[:, j], where=count > 0)
    return out
