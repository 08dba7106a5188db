"""From request rows to paired log ratios: the same prompt in the same block on two arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .evidence import BASELINE, Evidence, cluster_column

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


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
    if group is not None:
        return _paired(evidence, arm, baseline, column, per_token, group)
    key = (arm, baseline, column, per_token, evidence.greedy, evidence.with_excluded)
    known = evidence.known_pairs
    if key not in known:
        known[key] = _paired(evidence, arm, baseline, column, per_token, None)
    return known[key]  # type: ignore[no-any-return]


def _paired(
    evidence: Evidence, arm: str, baseline: str, column: str, per_token: bool, group: pd.Series | None
) -> Paired:
    frame = evidence.requests
    needed = {"arm", "stratum", "prompt_id", "block", column}
    if not needed <= set(frame.columns):
        return Paired({}, {}, {"": f"requests lack {', '.join(sorted(needed - set(frame.columns)))}"})
    rows = _rows(evidence, arm, baseline, column, group)
    if problem := rows.problem(arm, baseline):
        return Paired({}, {}, {"": problem})
    if not (evidence.greedy or per_token) and baseline == BASELINE and not rows.forced[~rows.is_arm].all():
        return Paired({}, {}, {"": f"{baseline} was not timed on the candidate's own tokens"})
    values, clusters, problems, raw, sizes = {}, {}, {}, {}, {}
    for code, stratum in enumerate(rows.groups):
        try:
            y, ids, both, size = _matrix(rows.of_group(code), per_token)
        except _Unusable as error:
            problems[stratum] = str(error)
            continue
        values[stratum], clusters[stratum], raw[stratum], sizes[stratum] = y, ids, both, size
    return Paired(values, clusters, problems, raw, sizes)


class _Unusable(Exception):
    """These rows decide nothing; the message says why."""


@dataclass(frozen=True)
class _Rows:
    """Request rows of two arms as arrays, keys as codes: frames are slow a stratum at a time."""

    is_arm: npt.NDArray[np.bool_]
    group: Codes
    prompt: Codes
    family: Codes
    block: Codes
    turn: Codes
    value: Array
    tokens: Array
    forced: npt.NDArray[np.bool_]
    excluded: npt.NDArray[np.bool_]
    groups: tuple[str, ...]
    prompts: tuple[str, ...]
    families: tuple[str, ...]

    def of_group(self, code: int) -> _Rows:
        mine = self.group == code
        arrays = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("groups", "prompts", "families")
        }
        return replace(self, **{name: array[mine] for name, array in arrays.items()})

    def problem(self, arm: str, baseline: str) -> str:
        """Why none of the rows can be paired; empty when they can."""
        for name in (arm, baseline):
            if not (self.is_arm == (name == arm)).any():
                return f"no timed requests of arm {name}"
        keys = (self.group, self.prompt, self.block, self.turn)
        if any((key < 0).any() for key in keys):
            return "request rows without stratum, prompt, block or turn"
        cell = self.is_arm.astype(np.int64)
        for key in keys:
            cell = cell * (int(key.max()) + 1) + key
        twice = len(cell) - len(np.unique(cell))
        return f"{twice} duplicated request rows" if twice else ""


def _rows(evidence: Evidence, arm: str, baseline: str, column: str, group: pd.Series | None) -> _Rows:
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
    nothing = np.zeros(int(use.sum()), np.int64)

    def column_of(name: str, otherwise: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return frame[name].to_numpy()[use] if name in frame else otherwise

    def codes(values: Any) -> tuple[Codes, tuple[str, ...]]:
        code, names = pd.factorize(values, sort=True)
        return code.astype(np.int64), tuple(map(str, names))

    group_code, groups = codes((frame["stratum"] if group is None else group)[use])
    prompt_code, prompts = codes(frame["prompt_id"][use])
    family_code, families = codes(frame[cluster_column(frame)][use])
    excluded = frame["excluded"].fillna("").to_numpy()[use] != "" if "excluded" in frame else nothing
    return _Rows(
        arms[use] == arm, group_code, prompt_code, family_code, codes(frame["block"][use])[0],
        codes(column_of("turn", nothing))[0], pd.to_numeric(frame[column][use], errors="coerce").to_numpy(float),
        column_of("new_tokens", np.full(len(nothing), np.nan)).astype(float), column_of("forced", nothing).astype(bool),
        np.asarray(excluded, bool) & (not evidence.with_excluded), groups, prompts, families,
    )  # fmt: skip


def _matrix(rows: _Rows, per_token: bool) -> tuple[Array, tuple[str, ...], tuple[Array, Array], Array]:
    bad = ~np.isfinite(rows.value) | (rows.value <= 0)
    if bad.any():
        raise _Unusable(f"{int(bad.sum())} of {len(bad)} values are missing, infinite or not positive")
    known, first, prompt = np.unique(rows.prompt, return_index=True, return_inverse=True)
    blocks, block = np.unique(rows.block, return_inverse=True)
    shape = (2, len(known), len(blocks))
    cell = (rows.is_arm * len(known) + prompt) * len(blocks) + block

    def summed(weights: Array | None = None) -> Array:
        return np.asarray(np.bincount(cell, weights, minlength=2 * len(known) * len(blocks)).reshape(shape), float)

    count, total, dropped = summed(), summed(rows.value), summed(rows.excluded.astype(float)).sum(axis=0) > 0
    unpaired = (count[0] != count[1]) | (count[0] == 0)
    if unpaired.any():
        raise _Unusable(f"{int(unpaired.sum())} of {unpaired.size} prompt × block cells are not paired")
    if per_token:
        tokens = summed(rows.tokens)
        if not (tokens > 0).all():
            raise _Unusable("a request emitted no token, so its time per token does not exist")
        total = total / tokens
    if dropped.all():
        raise _Unusable("every pair was excluded")
    total[:, dropped] = np.nan
    left = ~dropped.all(axis=1)
    family, member = np.unique(rows.family[first[left]], return_inverse=True)
    names = tuple(rows.families[i] for i in family)
    total = total[:, left]
    y, arm, base = np.log(total[1]) - np.log(total[0]), total[1], total[0]
    if len(family) < int(left.sum()):
        y, arm, base = (_by_family(x, member, len(family)) for x in (y, arm, base))
    return y, names, (arm, base), np.bincount(member).astype(float)


def _by_family(ratio: Array, family: npt.NDArray[np.intp], n: int) -> Array:
    """Mean over the members of each family, per block; NaN where no member is left."""
    out = np.full((n, ratio.shape[1]), np.nan)
    for j in range(ratio.shape[1]):
        there = ~np.isnan(ratio[:, j])
        count = np.bincount(family[there], minlength=n)
        total = np.bincount(family[there], weights=ratio[there, j], minlength=n)
        np.divide(total, count, out=out[:, j], where=count > 0)
    return out
