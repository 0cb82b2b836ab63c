"""Estimates: what they say, and what they refuse. Their statistics are in ``statistical/test_estimators.py``."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.estimation import distances, normalised_inner_product
from streamsketch.privacy import Mechanism
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.sketching.sketch import Sketch
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(2e-4)


PROJECTION = ss.SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7)
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("noise of a test"))
ESTIMATORS = [ss.squared_distance, ss.inner_product, ss.cosine]

Estimator = Callable[..., ss.estimation.Estimate]


def sketch_of(indices: list[int], values: list[int], projection: ss.projections.Projection = PROJECTION) -> Sketch:
    sketch = projection.sketch()
    sketch.update(indices, values)
    return sketch


def as_release(sketch: Sketch, name: bytes, k2: float = 10.0, k4: float = 100.0) -> PrivateSketch:
    """Call a state a release with the given noise, so that estimates can be computed by hand."""
    return PrivateSketch(sketch.projection, sketch.state(), NoiseMoments(k2, k4), GUARANTEE, release_ids=[name])


# --- values by hand -------------------------------------------------------------------------------------------


def test_raw_sketches_of_one_index_are_compared_exactly() -> None:
    x, y = sketch_of([3], [5]), sketch_of([3], [-2])
    assert ss.squared_distance(x, y).value == 49
    assert ss.squared_norm(x).value == 25
    assert ss.inner_product(x, y).value == -10
    assert ss.cosine(x, y).value == -1
    assert ss.squared_distance(x, x).value == 0
    assert ss.cosine(x, x).value == pytest.approx(1, abs=1e-15)


def test_an_estimate_from_releases_subtracts_the_noise_and_counts_it_in_the_error() -> None:
    x, y = sketch_of([3], [50]), sketch_of([3], [20])
    one, other = as_release(x, b"release1", 8.0, 12.0), as_release(y, b"release2", 4.0, 20.0)
    distance = ss.squared_distance(one, other)
    unit2 = 1 / 4
    assert distance.value == pytest.approx(900 - 256 * 12 * unit2)
    size, k2, k4 = distance.value, 12 * unit2, 32 * unit2**2
    # one item has no error by the map: of what its cells show, at most half of the largest variance is taken away
    assert distance.projection_variance == pytest.approx(2 / 256 * size**2 / 2)
    assert distance.noise_variance == pytest.approx(4 * k2 * size + 256 * k4 + 2 * 256 * k2**2)
    assert distance.variance == distance.projection_variance + distance.noise_variance
    assert distance.standard_error == pytest.approx(math.sqrt(distance.variance))

    norm = ss.squared_norm(one)
    assert norm.value == pytest.approx(2500 - 256 * 8 * unit2)
    product = ss.inner_product(one, other)
    norm_y = 400 - 256 * 4 * unit2
    assert product.value == pytest.approx(1000)
    assert product.projection_variance == pytest.approx((norm.value * norm_y + 1000**2 - norm.value * norm_y) / 256)
    assert product.noise_variance == pytest.approx(4 * unit2 * norm.value + 8 * unit2 * norm_y + 256 * 8 * 4 * unit2**2)


def test_multiples_and_resolutions_are_data_units() -> None:
    gridded = PROJECTION.replace(resolution="1/8")
    sketch = sketch_of([3], [5], gridded)
    release = as_release(sketch, b"release1", 0.0, 0.0)
    assert ss.squared_norm(release).value == pytest.approx(25)
    assert ss.squared_norm(release.scaled("-2/5")).value == pytest.approx(4)
    assert ss.squared_distance(release.scaled("2/5"), sketch).value == pytest.approx(9)


def test_raw_and_private_sketches_mix() -> None:
    x, y = sketch_of([3], [80]), sketch_of([3], [50])
    private = as_release(y, b"release2")
    for estimate in ESTIMATORS:
        mixed, turned = estimate(x, private), estimate(private, x)
        assert mixed.value == pytest.approx(turned.value)
        assert mixed.noise_variance == pytest.approx(turned.noise_variance)
        assert mixed.noise_variance > 0
        assert estimate(x, y).noise_variance == 0
    assert ss.squared_distance(x, private).value == pytest.approx(900 - 256 * 10 / 4)


def test_a_negative_estimate_is_kept_but_its_error_takes_the_norm_as_zero() -> None:
    x = sketch_of([3], [1])
    distance = ss.squared_distance(as_release(x, b"release1"), as_release(x, b"release2"))
    assert distance.value == -256 * 20 / 4
    assert distance.projection_variance == 0
    assert distance.noise_variance == pytest.approx(256 * (200 / 16 + 2 * (20 / 4) ** 2))
    assert distance.interval().low == 0


def test_empty_sketches_have_distance_and_norm_zero() -> None:
    empty = PROJECTION.sketch()
    assert ss.squared_norm(empty).value == 0
    assert ss.squared_distance(empty, PROJECTION.sketch()).standard_error == 0


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimate", ESTIMATORS)
@pytest.mark.parametrize("other", [None, 5, "sketch", np.zeros(256)], ids=["none", "int", "text", "array"])
def test_what_is_no_sketch_is_refused(estimate: Estimator, other: object) -> None:
    x = sketch_of([3], [5])
    with pytest.raises(TypeError, match=r"need PrivateSketch or Sketch objects, got (a|None)"):
        estimate(x, other)
    with pytest.raises(TypeError, match=r"need PrivateSketch or Sketch objects, got (a|None)"):
        estimate(other, x)
    with pytest.raises(TypeError, match="need PrivateSketch or Sketch"):
        ss.pairwise([x, other])  # type: ignore[list-item]


@pytest.mark.parametrize("estimate", ESTIMATORS)
def test_sketches_of_different_projections_are_refused(estimate: Estimator) -> None:
    x, y = sketch_of([3], [5]), sketch_of([3], [5], PROJECTION.replace(seed=8))
    with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
        estimate(x, y)
    with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
        ss.pairwise([x, x, y])


@pytest.mark.parametrize("estimate", ESTIMATORS)
def test_one_release_is_not_compared_with_itself(estimate: Estimator) -> None:
    release = as_release(sketch_of([3], [50]), b"release1")
    with pytest.raises(ss.errors.DependentNoiseError, match="for one sketch's own size squared_norm"):
        estimate(release, release)
    with pytest.raises(ss.errors.DependentNoiseError):
        ss.pairwise([release, release])


def test_the_cosine_with_a_stream_that_is_empty_or_below_the_noise_floor_is_undefined() -> None:
    x, empty = sketch_of([3], [5]), PROJECTION.sketch()
    weak = as_release(sketch_of([4], [1]), b"release1")
    for one, other in ((x, empty), (empty, x), (empty, empty), (x, weak), (weak, x)):
        with pytest.raises(ss.InvalidInputError, match=r"the cosine is undefined.*larger epsilon"):
            ss.cosine(one, other)


def test_a_cosine_beyond_one_is_reported_but_its_interval_is_not() -> None:
    x = sketch_of([3], [100])
    one, other = as_release(x, b"release1"), as_release(x, b"release2")
    estimate = ss.cosine(one, other)
    assert estimate.value > 1
    assert estimate.projection_variance < estimate.noise_variance
    low, high = estimate.interval(0.99)
    assert -1 <= low <= high == 1


@pytest.mark.parametrize("count", [0, 1])
def test_pairwise_needs_two_sketches(count: int) -> None:
    with pytest.raises(ss.InvalidInputError, match=f"at least two sketches, got {count}"):
        ss.pairwise([sketch_of([3], [5])] * count)


# --- Estimate -------------------------------------------------------------------------------------------------


def test_intervals_are_quantiles_times_the_standard_error() -> None:
    estimate = ss.estimation.Estimate(100.0, 9.0, 16.0)
    assert estimate.interval() == pytest.approx((100 - 5 * 1.959964, 100 + 5 * 1.959964), rel=1e-7)
    assert estimate.interval(0.9) == pytest.approx((100 - 5 * 1.644854, 100 + 5 * 1.644854), rel=1e-7)
    assert estimate.interval(0.75, method="chebyshev") == pytest.approx((90, 110))
    interval = estimate.interval(0.5)
    assert interval.low < 100 < interval.high
    assert all(type(end) is float for end in interval)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_chebyshev_intervals_hold_the_normal_ones(confidence: float) -> None:
    estimate = ss.estimation.Estimate(-3.0, 1.0, 2.0)
    low, high = estimate.interval(confidence)
    safe_low, safe_high = estimate.interval(confidence, method="chebyshev")
    assert safe_low < low < -3 < high < safe_high


def test_intervals_are_cut_to_the_possible_range() -> None:
    assert ss.estimation.Estimate(1.0, 9.0, 16.0, lowest=0.0).interval().low == 0
    assert ss.estimation.Estimate(0.9, 1.0, 0.0, lowest=-1.0, highest=1.0).interval() == (-1.0, 1.0)
    assert ss.estimation.Estimate(0.9, 0.01, 0.0, lowest=-1.0, highest=1.0).interval() == (
        pytest.approx(0.7040036),
        1.0,
    )
    assert (
        ss.estimation.Estimate(-50.0, 1.0, 0.0, lowest=0.0).interval()
        == ss.estimation.Estimate(0.0, 1.0, 0.0, lowest=0.0).interval()
    )


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, 95, math.nan])
def test_a_confidence_outside_zero_to_one_is_refused(confidence: float) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"confidence must lie in \(0, 1\).*0.95 is usual"):
        ss.estimation.Estimate(1.0, 1.0, 1.0).interval(confidence)


def test_another_method_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="'normal' or 'chebyshev', got 'bootstrap'"):
        ss.estimation.Estimate(1.0, 1.0, 1.0).interval(0.9, method="bootstrap")  # type: ignore[arg-type]


def test_estimates_print_value_and_error() -> None:
    assert str(ss.estimation.Estimate(100.0, 9.0, 16.0)) == "100.0 ± 5.0"
    assert str(ss.estimation.Estimate(1234567.89, 144.0, 25.0)) == "1,234,568 ± 13"
    assert str(ss.estimation.Estimate(0.123456, 0.0, 0.0016**2)) == "0.1235 ± 0.0016"
    assert str(ss.estimation.Estimate(-7.0, 0.0, 0.0)) == "-7 ± 0"
    assert str(ss.pairwise([as_release(sketch_of([item], [5]), b"release%d" % item) for item in (3, 4)])) == (
        "2 by 2 estimates"
    )


def test_estimates_cannot_be_changed() -> None:
    estimate = ss.squared_norm(sketch_of([3], [5]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimate.value = 0.0  # type: ignore[misc]


def test_estimates_of_one_pair_are_plain_floats() -> None:
    x, y = as_release(sketch_of([3], [50]), b"release1"), sketch_of([3, 4], [20, 1])
    for estimate in (ss.squared_distance(x, y), ss.inner_product(x, y), ss.cosine(x, y), ss.squared_norm(x)):
        for field in (estimate.value, estimate.projection_variance, estimate.noise_variance, estimate.standard_error):
            assert type(field) is float


# --- pairwise -------------------------------------------------------------------------------------------------


def test_pairwise_fields_are_matrices_with_zero_diagonals() -> None:
    sketches = [as_release(sketch_of([place], [50 + place]), bytes([place] * 8)) for place in range(4)]
    table = ss.pairwise(sketches)
    low, high = table.interval(0.9)
    for field in (table.value, table.variance, table.standard_error, low, high):
        assert isinstance(field, np.ndarray)
        assert field.shape == (4, 4)
        assert not field.diagonal().any()
    off = ~np.eye(4, dtype=bool)
    assert (low[off] < table.value[off]).all()
    assert (table.value[off] < high[off]).all()
    assert (low >= 0).all()
    assert table.value[1, 2] == pytest.approx(ss.squared_distance(sketches[1], sketches[2]).value)


def test_pairwise_keeps_its_digits_where_norms_dwarf_distances() -> None:
    projection = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
    streams = [(10**12, 0), (10**12, 1000), (10**12, 3000), (-(10**12), 0), (-(10**12), 2000)]
    releases = []
    for heavy, light in streams:
        sketch = projection.sketch()
        sketch.update([1, 2], [heavy, light])
        releases.append(sketch.release(epsilon=1.0, neighbours=ss.L1(1)))
    together = ss.pairwise(releases)
    for i, first in enumerate(releases):
        for j, second in enumerate(releases):
            if i != j:
                alone = ss.squared_distance(first, second)
                assert together.value[i, j] == pytest.approx(alone.value, rel=1e-6)
                assert together.standard_error[i, j] == pytest.approx(alone.standard_error, rel=1e-6)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e6])
def test_fourth_powers_of_differences_keep_their_digits(offset: float) -> None:
    """A copy and a near copy cancel all digits of a sum of products."""
    rng = salted_rng(1)
    common = offset * rng.normal(size=64)
    x, y = (common + rng.normal(size=(count, 64)) for count in (5, 4))
    y[:2] = x[0], x[1] + 1e-7
    directly = np.array([((y - row) ** 4).sum(axis=1) for row in x])
    np.testing.assert_allclose(distances.fourth_powers_of_gaps(x, y), directly, rtol=1e-8)


def test_a_cosine_below_the_noise_floor_is_undefined() -> None:
    refused = 0
    for seed in range(20):
        projection = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=seed)
        one, other = (projection.sketch().release(epsilon=1.0, neighbours=ss.L1(1)) for _ in range(2))
        try:
            ss.cosine(one, other)
        except ss.InvalidInputError:
            refused += 1
    assert refused >= 12, "two standard errors of zero: at most about one norm in twenty passes"


def test_one_of_many_estimates_is_an_estimate() -> None:
    sketches = {seed: ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3).sketch() for seed in range(3)}
    for number, sketch in sketches.items():
        sketch.update(number, 10 * number)
    table = ss.pairwise(sketches.values())
    assert table[0, 2] == ss.squared_distance(sketches[0], sketches[2])
    assert table[1, 1] == ss.estimation.Estimate(0.0, 0.0, 0.0, lowest=0.0).as_secret()
    assert type(table[0, 1].value) is float


def test_many_estimates_are_named_by_as_many_indices() -> None:
    table = ss.pairwise([ss.SJLT(dim=10, sketch_dim=8, sparsity=2, seed=3).sketch() for _ in range(2)])
    with pytest.raises(ss.InvalidInputError, match="2 indices"):
        table[0]
    with pytest.raises(TypeError):
        list(table)  # type: ignore[call-overload]


@pytest.mark.parametrize("norm", [0, -1.0, float("nan"), float("inf"), "a", None, True], ids=repr)
def test_norms_that_are_no_lengths_are_refused(norm: Any) -> None:
    sketch = ss.CountSketch(dim=9, sketch_dim=8, seed=1).sketch()
    sketch.update(3, 5)
    for norms in ({"norm_x": norm}, {"norm_y": norm}):
        with pytest.raises(ss.InvalidInputError, match="a norm must be a positive, finite number, got"):
            normalised_inner_product(sketch, sketch, **norms)


# --- large cells ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # nobody drew this noise
@pytest.mark.parametrize("offset", [1 << 54, 1 << 60, -(1 << 61)])
@pytest.mark.parametrize("scale", [1, Fraction(1, 3)])
def test_large_sums_in_common_cost_no_digits(offset: int, scale: Fraction) -> None:
    """Past 2^53 floats would round both cells to steps wider than what they differ by."""
    differences = [[0] * 256, [(-1) ** n * (n % 7) for n in range(256)], [n - 128 for n in range(256)]]
    cells = [np.array(difference) + offset for difference in differences]
    releases = [wide_release(one, number).scaled(scale) for number, one in enumerate(cells)]
    noise = 2 * 256 * releases[0].noise.k2
    for i, j in ((0, 1), (1, 2), (0, 2)):
        gap = sum((a - b) ** 2 for a, b in zip(differences[i], differences[j], strict=True))
        exact = pytest.approx(float(scale) ** 2 * WIDE.cell_unit**2 * (gap - noise), rel=1e-12)
        assert ss.squared_distance(releases[i], releases[j]).value == exact
        assert ss.pairwise(releases).value[i, j] == exact
        far = wide_release(np.full(256, -offset), 3).scaled(scale)
        assert ss.pairwise([far, *releases]).value[i + 1, j + 1] == exact


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # nobody drew this noise
def test_differences_past_63_bits_are_those_of_floats() -> None:
    one, other = (wide_release(np.full(256, sign * 3 << 61), number) for number, sign in enumerate((1, -1)))
    exact = 256 * (3 * 2.0**62) ** 2 * WIDE.cell_unit**2
    assert ss.squared_distance(one, other).value == pytest.approx(exact, rel=1e-12)
    assert ss.pairwise([one, other]).value[0, 1] == pytest.approx(exact, rel=1e-12)


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # nobody drew this noise
@pytest.mark.parametrize("scale", [(1, 1), (Fraction(1, 3), 2)], ids=["alike", "unlike"])
def test_pairs_are_listed_in_an_order_of_their_keys_alone(scale: tuple[Fraction, Fraction]) -> None:
    releases = [wide_release(np.arange(256) * n, n).scaled(scale[n % 2]) for n in range(4)]
    keys = ["b", "d", "a", "c"]
    listed = ss.pairwise(releases).to_arrow(keys)
    assert list(zip(*(listed.column(name).to_pylist() for name in ("first", "second")), strict=True)) == list(
        itertools.combinations("abcd", 2)
    )
    for row in listed.to_pylist():
        pair = [releases[keys.index(row[name])] for name in ("first", "second")]
        assert row["estimate"] == pytest.approx(ss.squared_distance(*pair).value, rel=1e-9)


WIDE = ss.SJLT(dim=1 << 40, sketch_dim=256, sparsity=4, seed=7, resolution="1/10")


def wide_release(cells: np.ndarray, number: int) -> ss.PrivateSketch:  # type: ignore[type-arg]
    guarantee = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("discrete Laplace, scale 40"))
    ids = [number.to_bytes(8, "big")]
    return ss.PrivateSketch(WIDE, cells.astype(np.int64), NoiseMoments(3199.8, 3e7), guarantee, release_ids=ids)


# --- shape ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("by", "one"), [("cosine", ss.cosine), ("profile", ss.profile_distance)])
def test_pairwise_compares_by_shape_as_pair_by_pair(by: Any, one: Estimator) -> None:
    releases = [
        as_release(sketch_of([3, 4], [900 * size, (100 + 50 * size) * size]), b"release%d" % size)
        for size in range(1, 5)
    ]
    table = ss.pairwise(releases, by=by)
    for i, j in itertools.permutations(range(4), 2):
        expected = one(releases[i], releases[j])
        assert table[i, j].value == pytest.approx(expected.value, abs=1e-12)
        assert table[i, j].interval() == pytest.approx(expected.interval(), abs=1e-9)
        assert table[i, j].selected_interval(9) == pytest.approx(expected.selected_interval(9), abs=1e-9)
    assert (np.diagonal(table.value) == (1.0 if by == "cosine" else 0.0)).all()
    assert not np.diagonal(table.variance).any()
    lost = ss.pairwise([*releases, as_release(PROJECTION.sketch(), b"release9")], by=by)
    assert np.isnan(lost.value[4]).all()
    assert np.isnan(lost.interval().low[:, 4]).all()
    assert np.array_equal(lost.value[:4, :4], table.value)


def test_pairwise_compares_by_what_it_knows() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"by must be .*, got 'size'"):
        ss.pairwise([sketch_of([3], [5])] * 2, by="size")  # type: ignore[arg-type]


def test_a_profile_distance_forgets_size() -> None:
    small, large, other = sketch_of([3, 4], [1, 2]), sketch_of([3, 4], [100, 200]), sketch_of([5], [7])
    assert ss.profile_distance(small, large).value == pytest.approx(0.0, abs=1e-12)
    estimate = ss.profile_distance(small, other)
    cosine = ss.cosine(small, other)
    assert estimate.value == pytest.approx(2 - 2 * cosine.value)
    assert estimate.standard_error == pytest.approx(2 * cosine.standard_error)
    assert (estimate.lowest, estimate.highest) == (0.0, 4.0)


def test_an_interval_of_a_selected_cosine_is_wider_and_ends_at_what_is_possible() -> None:
    estimate = ss.estimation.Estimate(0.92, 0.0004, 0.0001, lowest=-1.0, highest=1.0)
    (low, high), (wide_low, wide_high) = estimate.interval(), estimate.selected_interval(100)
    assert wide_low < low - 0.02
    assert wide_high == 1.0
    assert high < 1.0
    assert ss.estimation.Estimate(1.0, 0.0, 0.0, lowest=-1.0, highest=1.0).selected_interval(5) == (1.0, 1.0)
    assert ss.estimation.Estimate(0.2, 1.6, 0.0, lowest=-1.0, highest=1.0).selected_interval(5) == (-1.0, 1.0)
