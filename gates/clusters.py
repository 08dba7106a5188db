"""Per-cluster sufficient statistics of rounds: after them, a resample costs the number of prompts, not of rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .evidence import cluster_column

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
CHUNK = 1 << 20
REQUIRED = ("arm", "stratum", "prompt_id", "proposed", "accepted")


@dataclass(frozen=True)
class ClusterSums:
    """Counts by cluster (a prompt, or the family it belongs to, on one arm); position i is column i − 1."""

    arm: tuple[str, ...]
    """Of each cluster [C]."""
    stratum: tuple[str, ...]
    cluster: tuple[str, ...]
    rounds: Counts
    """[C]."""
    accepted: Counts
    """Rounds whose first i proposals were accepted [C, K]."""
    tested: Counts
    """Rounds in which proposal i was proposed and reached [C, K]."""
    emitted: Counts | None
    """Tokens emitted [C]; None when the rounds do not say."""

    @property
    def positions(self) -> int:
        return int(self.accepted.shape[1])

    def groups(self) -> Iterator[tuple[str, str, npt.NDArray[np.intp]]]:
        """(arm, stratum, cluster indices), strata in order, then "*" for all of an arm when it has several."""
        arms, strata = np.array(self.arm), np.array(self.stratum)
        for arm in dict.fromkeys(self.arm):
            mine = arms == arm
            names = sorted(set(strata[mine]))
            for name in names:
                yield arm, str(name), np.flatnonzero(mine & (strata == name))
            if len(names) > 1:
                yield arm, "*", np.flatnonzero(mine)


def cluster_sums(rounds: pd.DataFrame) -> ClusterSums:
    """Sums over the rounds of each cluster. Raises ValueError for missing columns and impossible counts."""
    missing = [c for c in REQUIRED if c not in rounds]
    if missing:
        raise ValueError(f"rounds lack {', '.join(missing)}")
    code, (arms, strata, clusters) = _codes(rounds, ("arm", "stratum", cluster_column(rounds)))
    present, inverse = _compress(code, len(arms) * len(strata) * len(clusters))
    del code
    n = len(present)
    proposed, accepted = _whole(rounds, "proposed"), _whole(rounds, "accepted")
    if len(rounds) and bool((accepted > proposed).any()):
        raise ValueError(f"{int((accepted > proposed).sum())} rounds accepted more than they proposed")
    tested = _whole(rounds, "tested") if "tested" in rounds else None
    k = int(proposed.max()) if len(rounds) else 0
    by_accepted, by_tested = np.zeros(n * (k + 1), np.int64), np.zeros(n * (k + 1), np.int64)
    for start in range(0, len(rounds), CHUNK):
        part = slice(start, start + CHUNK)
        base = inverse[part].astype(np.int64) * (k + 1)
        a = accepted[part].astype(np.int64)
        t = np.minimum(a + 1, proposed[part]) if tested is None else np.clip(tested[part], a, proposed[part])
        by_accepted += np.bincount(base + a, minlength=n * (k + 1))
        by_tested += np.bincount(base + t.astype(np.int64), minlength=n * (k + 1))
    emitted = None
    if "emitted" in rounds:
        emitted = np.bincount(inverse, weights=_whole(rounds, "emitted"), minlength=n).astype(np.int64)
    per = len(strata) * len(clusters)
    return ClusterSums(
        tuple(str(arms[i]) for i in present // per),
        tuple(str(strata[i]) for i in present % per // len(clusters)),
        tuple(str(clusters[i]) for i in present % len(clusters)),
        by_accepted.reshape(n, k + 1).sum(axis=1),
        _at_least(by_accepted.reshape(n, k + 1)),
        _at_least(by_tested.reshape(n, k + 1)),
        emitted,
    )


def _at_least(histogram: Counts) -> Counts:
    """Counts of values ≥ 1 … K from counts of the values 0 … K."""
    return np.ascontiguousarray(np.cumsum(histogram[:, ::-1], axis=1)[:, ::-1][:, 1:])


def _codes(
    frame: pd.DataFrame, columns: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.object_]]]:
    code, names = np.zeros(len(frame), np.int64), []
    for column in columns:
        part, values = pd.factorize(frame[column], sort=False)
        if len(part) and part.min() < 0:
            raise ValueError(f"{int((part < 0).sum())} rounds have no {column}")
        code *= max(1, len(values))
        code += part
        names.append(np.asarray(values, dtype=object))
    return code, names


def _compress(code: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The codes that occur, ascending, and each row's place among them."""
    if size > 1 << 25:
        present, inverse = np.unique(code, return_inverse=True)
        return present, inverse.astype(np.int32)
    there = np.zeros(size, bool)
    there[code] = True
    present = np.flatnonzero(there)
    place = np.zeros(size, np.int32)
    place[present] = np.arange(len(present), dtype=np.int32)
    return present, place[code]


def _whole(rounds: pd.DataFrame, column: str) -> npt.NDArray[np.integer]:
    values = rounds[column].to_numpy()
    if not np.issubdtype(values.dtype, np.integer):
        number = pd.to_numeric(rounds[column], errors="coerce").to_numpy(float)
        bad = ~np.isfinite(number) | (number != np.floor(number))
        if bad.any():
            raise ValueError(f"{int(bad.sum())} rounds have no whole number in {column}")
        values = number.astype(np.int64)
    if len(values) and int(values.min()) < 0:
        raise ValueError(f"{int((values < 0).sum())} rounds have a negative {column}")
    return values
