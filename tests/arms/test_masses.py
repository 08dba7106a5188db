"""The native law against its slow definition, and the identities that exact speculation rests on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from draftgate.arms import masses as law
from draftgate.arms import masses_definition as slow
from hypothesis import given, settings
from hypothesis import strategies as st

KERNELS = ("portable", "avx2", "avx512")
Row = npt.NDArray[np.float32]


def available() -> list[str]:
    names = []
    for name in KERNELS:
        try:
            law.use_kernel(name)
        except ValueError:
            continue
        names.append(name)
    law.use_kernel("best")
    return names


@pytest.fixture(autouse=True)
def _best_kernel() -> object:
    yield
    law.use_kernel("best")


def logit() -> st.SearchStrategy[float]:
    finite = st.floats(-60, 60, width=32)
    return st.one_of(finite, st.sampled_from([-np.inf, 0.0, -0.0, 1.5, 1.5, -87.25]))


rows = st.lists(logit(), min_size=1, max_size=70).map(lambda v: np.array(v, np.float32))
temperatures = st.floats(1e-3, 50)
cuts = st.builds(
    law.Truncation.of,
    st.sampled_from([0, 0, 1, 2, 5, 40]),
    st.sampled_from([1.0, 1.0, 1e-9, 0.3, 0.5, 0.9, 0.999999]),
    st.sampled_from([0.0, 0.0, 1e-6, 0.05, 0.5, 1.0]),
    st.sampled_from([1.0, 1.0, 0.2, 0.95]),
)


@given(rows, temperatures, cuts)
@settings(max_examples=300, deadline=None)
def test_every_kernel_gives_the_masses_of_the_definition(x: Row, temperature: float, cut: law.Truncation) -> None:
    if not np.isfinite(x).any():
        return
    scale = law.scale_of(temperature)
    expected = slow.truncated(slow.row(x, scale), cut.top_k, cut.top_p, cut.min_p, cut.typical_p)
    assert sum(expected) == law.TOTAL
    for name in available():
        law.use_kernel(name)
        masses, entropy = law.row(x, scale, cut)
        assert masses.tolist() == expected, name
        q = np.array([m for m in expected if m]) / law.TOTAL
        assert entropy == pytest.approx(-(q * np.log(q)).sum(), abs=2e-5)


@pytest.mark.parametrize("n", [511, 512, 513, 4099, 49152])
@pytest.mark.parametrize(
    "cut", [(), (50,), (0, 0.9), (0, 0.995), (0, 1.0, 0.02), (0, 1.0, 0.0, 0.9), (300, 0.9, 0.01, 0.8)]
)
def test_long_rows_agree_with_the_definition(n: int, cut: tuple[float, ...]) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=n) * rng.choice([0.3, 2.0, 6.0])).astype(np.float32)
    x[rng.integers(n, size=n // 3)] = x[0]  # many ties
    truncation, scale = law.Truncation.of(*cut), law.scale_of(0.8)  # type: ignore[arg-type]
    expected = slow.truncated(
        slow.row(x, scale), truncation.top_k, truncation.top_p, truncation.min_p, truncation.typical_p
    )
    for name in available():
        law.use_kernel(name)
        assert law.row(x, scale, truncation)[0].tolist() == expected, name


def test_masses_are_close_to_softmax() -> None:
    x = (np.random.default_rng(5).normal(size=5000) * 4).astype(np.float32)
    for temperature in (0.3, 1.0, 2.5):
        z = (x.astype(np.float64) - x.max()) / temperature
        q = np.exp(z) / np.exp(z).sum()
        got = law.row(x, law.scale_of(temperature))[0] / law.TOTAL
        assert np.abs(got - q).sum() / 2 < 3e-7


@given(rows, st.sampled_from([np.nan, np.inf]), st.data())
@settings(deadline=None)
def test_non_finite_logits_are_seen_even_where_an_edit_would_hide_them(x: Row, bad: float, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(x) - 1))
    x = x.copy()
    x[at] = bad
    hidden = (np.array([at], np.int32), np.array([-np.inf], np.float32))
    everything = np.full(-(-len(x) // 32), 0xFFFFFFFF, np.uint32)
    without = everything.copy()
    without[at // 32] &= ~np.uint32(1 << (at % 32))
    for edits, mask in ((None, None), (hidden, None), (None, without), (hidden, without)):
        with pytest.raises(law.NonFiniteRow):
            law.row(x, 1.0, law.KEEP_ALL, None, edits, mask)
        with pytest.raises(law.NonFiniteRow):
            law.argmax(x, edits, mask)


def test_a_negative_nan_is_seen_too() -> None:
    x = np.array([0.0, 1.0], np.float32)
    x.view(np.uint32)[0] = 0xFFC00001
    for name in available():
        law.use_kernel(name)
        with pytest.raises(law.NonFiniteRow):
            law.argmax(x)


def test_a_row_with_every_token_masked_has_no_distribution() -> None:
    x = np.full(40, -np.inf, np.float32)
    with pytest.raises(law.NoValidToken):
        law.row(x, 1.0)
    with pytest.raises(law.NoValidToken):
        law.argmax(np.zeros(40, np.float32), None, np.zeros(2, np.uint32))


@given(rows)
@settings(deadline=None)
def test_argmax_is_the_lowest_id_of_the_largest_logit(x: Row) -> None:
    if not np.isfinite(x).any():
        return
    for name in available():
        law.use_kernel(name)
        assert law.argmax(x) == int(np.argmax(x + np.float32(0)))
        assert law.peak(x, 1.0)[0] == law.argmax(x)


def test_minus_zero_ties_with_zero() -> None:
    assert law.argmax(np.array([-1.0, -0.0, 0.0], np.float32)) == 1
    assert law.row(np.array([-0.0, 0.0], np.float32), 1.0)[0].tolist() == [law.TOTAL // 2] * 2


@given(rows, rows, temperatures, cuts)
@settings(max_examples=200, deadline=None)
def test_the_residual_mass_is_the_rejected_mass_identically(x: Row, y: Row, t: float, cut: law.Truncation) -> None:
    n = min(len(x), len(y))
    x, y = x[:n], y[:n]
    if not (np.isfinite(x).any() and np.isfinite(y).any()):
        return
    q, p = law.row(x, law.scale_of(t), cut)[0], law.row(y, law.scale_of(t))[0]
    ids, masses, mass = law.residual(q, p)
    assert (masses > 0).all() and (np.diff(ids) > 0).all()
    rest = np.zeros_like(q)
    rest[ids] = masses
    kept = np.minimum(q, p)
    assert mass == law.total(masses) == law.TOTAL - int(kept.sum())
    assert (kept + rest == q).all()  # min(p, q) + (1 - A) r = q, to the last unit


def test_equal_rows_leave_no_residual() -> None:
    q, _ = law.row(np.random.default_rng(0).normal(size=300).astype(np.float32), 1.0)
    ids, rest, mass = law.residual(q, q.copy())
    assert mass == 0 and not len(ids) and not len(rest)


def test_the_residual_of_a_point_is_the_rest_of_q() -> None:
    q, _ = law.row(np.random.default_rng(1).normal(size=30).astype(np.float32), 1.0)
    point = np.zeros_like(q)
    point[7] = law.TOTAL
    ids, expected, mass = law.residual(q, point)
    found, rest, rest_mass = law.residual_of_point(q, 7)
    assert rest_mass == mass == law.TOTAL - int(q[7]) and (rest == expected).all() and (found == ids).all()
    assert 7 not in found and len(found) == 29
    with pytest.raises(ValueError, match="outside the row"):
        law.residual_of_point(q, 30)
    with pytest.raises(ValueError, match="differ in size"):
        law.residual(q, q[1:])


@pytest.mark.parametrize("kernel", available())
@pytest.mark.parametrize("n", [1, 15, 16, 17, 64, 1000])
def test_a_residual_is_the_same_from_every_kernel_and_at_every_size(kernel: str, n: int) -> None:
    """Runs of sixteen without mass are skipped: masses here, there, at the ends and nowhere."""
    law.use_kernel(kernel)
    rng = np.random.default_rng(n)
    for share in (0.0, 0.02, 0.5, 1.0):
        q, p = (np.where(rng.random(n) < s, rng.integers(1, law.TOTAL, n), 0).astype(np.uint64) for s in (share, 0.5))
        wanted = np.maximum(q.astype(np.int64) - p.astype(np.int64), 0)
        ids, masses, mass = law.residual(q, p)
        assert ids.tolist() == np.flatnonzero(wanted).tolist() and masses.tolist() == wanted[wanted > 0].tolist()
        assert mass == sum(wanted.tolist()) % (1 << 64)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=1200), st.data())
@settings(deadline=None)
def test_pick_inverts_the_cumulative_sum(values: list[int], data: st.DataObject) -> None:
    whole = sum(values)
    if not whole:
        return
    masses = np.array(values, np.uint64)
    r = data.draw(st.integers(1, whole))
    expected = int(np.searchsorted(np.cumsum(values), r))
    for name in available():
        law.use_kernel(name)
        assert law.pick(masses, r) == expected
        for outside in (0, whole + 1):
            with pytest.raises(ValueError, match="outside"):
                law.pick(masses, outside)


def test_the_token_that_crosses_the_boundary_is_kept_and_ties_go_to_low_ids() -> None:
    x = np.zeros(4, np.float32)
    quarter = law.TOTAL // 4
    assert law.row(x, 1.0, law.Truncation.of(top_p=0.25))[0].tolist() == [law.TOTAL, 0, 0, 0]
    above = law.row(x, 1.0, law.Truncation(top_p=quarter + 1))[0]
    assert above.tolist() == [law.TOTAL // 2, law.TOTAL // 2, 0, 0]
    assert law.row(x, 1.0, law.Truncation.of(top_k=3))[0].tolist()[3] == 0


def test_remainder_goes_to_the_largest_mass_of_lowest_id() -> None:
    masses = law.row(np.zeros(3, np.float32), 1.0)[0].tolist()
    third = law.TOTAL // 3
    assert masses == [law.TOTAL - 2 * third, third, third]


def test_unknown_kernel_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="neon"):
        law.use_kernel("neon")


@given(st.lists(st.lists(st.integers(0, law.TOTAL), min_size=6, max_size=6), min_size=1, max_size=5), st.data())
def test_a_short_row_lands_at_its_places_and_leaves_nothing_behind(
    short_rows: list[list[int]], data: st.DataObject
) -> None:
    ids = np.array(sorted(data.draw(st.sets(st.integers(0, 19), min_size=6, max_size=6))), np.int64)
    wide, written, count = np.zeros(20, np.uint64), np.empty(6, np.int64), 0
    for values in short_rows:  # one buffer, written again and again
        short = np.array(values, np.uint64)
        expected = np.zeros(20, np.uint64)
        expected[ids] = short
        count, largest = law.widen(short, ids, wide, written, count)
        assert wide.tolist() == expected.tolist() and largest == max(values)
        assert written[:count].tolist() == ids[short > 0].tolist()


@pytest.mark.parametrize(
    "ids, before, count", [([0, 8], [0, 0], 0), ([0, -1], [0, 0], 0), ([0, 1], [9, 0], 1), ([0, 1], [0, 0], 3)]
)
def test_places_outside_a_wide_row_are_refused(ids: list[int], before: list[int], count: int) -> None:
    short, wide = np.array([1, 2], np.uint64), np.zeros(8, np.uint64)
    with pytest.raises(ValueError, match="place"):
        law.widen(short, np.array(ids, np.int64), wide, np.array(before, np.int64), count)
    with pytest.raises(ValueError, match="places"):
        law.widen(short, np.array([0], np.int64), wide, np.zeros(2, np.int64), 0)
