"""Counts beside the cells of a release: of units and of totals, in one draw and under one guarantee."""

import copy
import dataclasses
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.accounting.book import spending_of
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.errors import InvalidInputError, SketchOverflowError, WireFormatError
from streamsketch.estimation.counts import estimate_of_counts
from streamsketch.privacy import Counting
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.checking.release import check_release
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

L1 = ss.L1(40, unit="customer")
ANY = ss.SketchL2(3, unit="customer", max_keys=1)
COUNTING = Counting(20, 2)
PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
FINE = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution=Fraction(1, 4096))
LAPLACE = ss.AdditiveNoise(epsilon=1, neighbours=L1, counting=COUNTING)
GAUSSIAN = ss.AdditiveNoise(epsilon=1, delta=1e-6, neighbours=ANY, counting=Counting.of(FINE, ANY, delta=1e-6))


def bounds_of(neighbours: ss.L1 | ss.SketchL2 = L1, **changes: Any) -> Bounds:
    return dataclasses.replace(Bounds(neighbours, "scale", counted=True), **changes)


def sketch_of(
    units: int = 500,
    total: int = 9000,
    projection: ss.projections.Projection = PROJECTION,
    bounds: Bounds | None = None,
) -> Sketch:
    """Return a sketch of so many units."""
    cells = np.arange(64, dtype=np.int64)
    counts = np.array([units, total], dtype=np.int64)
    return Sketch.from_state(projection, ExactSums.of(cells, counts), 10_000, bounds=bounds or bounds_of())


def fine() -> Sketch:
    return sketch_of(total=0, projection=FINE, bounds=bounds_of(ANY, clip="equal"))


# --- exact counts -------------------------------------------------------------------------------------------------


def test_disjoint_parts_add_their_counts_and_others_end_them() -> None:
    one, other = sketch_of(5, 70), sketch_of(6, 80)
    both = one.copy()
    both.merge(other, disjoint_units=True)
    assert both.counts is not None
    assert both.counts.tolist() == [11, 150]
    assert (one + other).counts is None
    assert (one - other).counts is None


@pytest.mark.parametrize("empty", [0, 1])
def test_a_side_without_data_keeps_the_counts(empty: int) -> None:
    first, second = [sketch_of(5, 70), PROJECTION.sketch()][:: 1 - 2 * empty]
    first.merge(second)
    assert first.counts is not None
    assert first.counts.tolist() == [5, 70]


@pytest.mark.parametrize("how", ["nothing", "one row", "a table of no rows"])
def test_rows_that_nothing_clipped_end_the_counts_even_if_there_are_none(how: str) -> None:
    sketch = sketch_of()
    if how == "a table of no rows":
        sketch.update_rows(pa.table({"item": pa.array([], pa.int64())}), index="item")
    else:
        sketch.update([] if how == "nothing" else [5])
    assert sketch.counts is None


@pytest.mark.parametrize(
    "bounds",
    [UNKNOWN, NO_DATA, Bounds(L1, "scale"), bounds_of(ended="rows were added"), bounds_of().without_counts()],
)
def test_counts_are_known_where_units_were_counted_and_nothing_ended_that(bounds: Bounds) -> None:
    assert sketch_of(bounds=bounds).counts is None
    unsaid = Sketch.from_state(PROJECTION, np.zeros(64, np.int64), 0, bounds=bounds_of())
    assert unsaid.counts is None
    assert unsaid.bounds == Bounds(L1, "scale")


def test_counts_of_a_table_are_those_of_its_keys() -> None:
    table = table_of(["b", "a"], [[5, 70], [6, 80]])
    assert table.counts is not None
    assert table.counts.tolist() == [[6, 80], [5, 70]]
    for key, expected in (("a", [6, 80]), ("b", [5, 70]), ("none", [0, 0])):
        counts = table.sketch_of(key).counts
        assert counts is not None
        assert counts.tolist() == expected


def table_of(keys: list[str], counts: list[list[int]]) -> SketchTable:
    count = len(keys)
    sums = ExactSums.of(np.zeros((count, 64), np.int64), np.array(counts, np.int64).reshape(count, 2))
    return SketchTable.from_state(PROJECTION, keys, sums, np.zeros(count, np.int64), bounds=bounds_of())


def test_tables_add_counts_by_key() -> None:
    table = table_of(["b", "a"], [[5, 70], [6, 80]])
    table.merge(table_of(["c", "b"], [[1, 2], [30, 400]]), disjoint_units=True)
    assert list(table) == ["a", "b", "c"]
    assert table.counts is not None
    assert table.counts.tolist() == [[6, 80], [35, 470], [1, 2]]
    table.merge(table_of([], []))
    assert table.counts is None


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_copies_have_counts_of_their_own(duplicate: Any) -> None:
    sketch, table = sketch_of(5, 70), table_of(["a"], [[6, 80]])
    for one, other in ((sketch, sketch_of(1, 2)), (table, table_of(["a"], [[1, 2]]))):
        before = one.counts.tolist()
        again = duplicate(one)
        again.merge(other, disjoint_units=True)
        assert one.counts.tolist() == before
        assert again.counts.tolist() == np.add(before, [1, 2]).tolist()
        one.counts[:] = 9  # a copy
        assert one.counts.tolist() == before


def test_counts_of_other_shapes_are_refused() -> None:
    for counts in (np.zeros(3, np.int64), np.zeros(2), np.zeros((1, 2), np.int64), [1, 2]):
        with pytest.raises(InvalidInputError, match="int64 of shape"):
            ExactSums.of(np.zeros(64, np.int64), counts)  # type: ignore[arg-type]


# --- releases -----------------------------------------------------------------------------------------------------


def test_one_draw_hides_cells_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrated, drawn = LAPLACE.calibrated(PROJECTION), []
    sample = type(calibrated.noise).sample

    def recording(noise: Any, size: int, bits: Any) -> Any:
        drawn.append(sample(noise, size, bits))
        return drawn[-1]

    monkeypatch.setattr(type(calibrated.noise), "sample", recording)
    sketch = sketch_of(500, 9000)
    released = calibrated.for_data(sketch).draw(KeyedBits(bytes(32), b"a draw"))
    (noise,) = drawn
    assert noise.shape == (66,)
    assert released.counts is not None
    assert released.values.tolist() == (sketch.state() + noise[:64]).tolist()
    assert released.counts.tolist() == [20 * 500 + noise[64], 2 * (40 * 500 - 9000) + noise[65]]


def test_a_release_without_counting_publishes_none() -> None:
    released = sketch_of().release(epsilon=1, neighbours=L1)
    assert (released.counts, released.layout, released.clip) == (None, CELLS, None)
    assert "count" not in str(released.guarantee)
    plain = sketch_of(bounds=Bounds(L1, "scale")).release(epsilon=1, neighbours=L1)
    assert len(released.to_bytes()) == pytest.approx(len(plain.to_bytes()), abs=64 + 16)  # wider cells, at most
    with pytest.raises(InvalidInputError, match="no count of units: bound the data under an agreement"):
        _ = released.units
    with pytest.raises(InvalidInputError, match="no count of units"):
        _ = released.total


def test_units_and_totals_are_estimates() -> None:
    released = LAPLACE.release(sketch_of(500, 9000))
    noise = released.noise.k2
    units, total = released.units, released.total
    assert units.noise_variance == pytest.approx(noise / 20**2)
    assert total.noise_variance == pytest.approx(noise * (40**2 / 20**2 + 1 / 2**2))
    assert abs(units.value - 500) < 20 * units.standard_error
    assert abs(total.value - 9000) < 20 * total.standard_error
    assert units.kurtosis == pytest.approx(3, abs=0.01)
    assert released.layout == Layout(COUNTING)


def test_a_wider_bound_than_was_enforced_gives_the_same_total() -> None:
    """What is stored is the total, so slack is of the bound that the release names."""
    wide = dataclasses.replace(LAPLACE, neighbours=ss.L1(90, unit="customer"), epsilon=1e6)
    released = wide.release(sketch_of(500, 9000))
    assert released.total.value == pytest.approx(9000, abs=20)
    assert released.units.value == pytest.approx(500, abs=1)


def test_noise_whose_square_is_0_as_a_float_has_an_error() -> None:
    """No sampler has it, but a file can state it."""
    estimate = estimate_of_counts(5.0, NoiseMoments(1e-200, 1e-200), [1.0])
    assert (estimate.value, estimate.standard_error) == pytest.approx((5.0, 1e-100))
    assert estimate.interval(0.95).high == 5.0


def test_a_total_needs_slack() -> None:
    released = dataclasses.replace(LAPLACE, counting=Counting(20)).release(sketch_of())
    assert released.counts is not None
    assert released.counts.shape == (1,)
    assert released.units.standard_error > 0
    with pytest.raises(InvalidInputError, match="but no slack"):
        _ = released.total


def test_a_release_of_sketches_clipped_in_length_says_how() -> None:
    released = GAUSSIAN.release(fine())
    assert released.clip == "equal"
    assert released.units.kurtosis == 0
    again = ss.PrivateSketch.from_bytes(released.to_bytes())
    assert (again, again.clip) == (released, "equal")
    asserted = GAUSSIAN.release(fine(), assert_bounds=True)
    assert asserted.clip is None
    twice = fine()
    twice.merge(fine())
    wide = dataclasses.replace(GAUSSIAN, counting=None, neighbours=ss.SketchL2(6, unit="customer", max_keys=1))
    assert wide.release(twice).clip is None
    assert wide.release(fine()).clip is None, "units are brought to less than what is stated"


@pytest.mark.parametrize(
    "bounds",
    [
        UNKNOWN,
        NO_DATA,
        Bounds(L1, "scale"),
        bounds_of(together=3),
        bounds_of(ss.L1(40, unit="customer", max_keys=2)),
        bounds_of(ended="rows were added"),
        Bounds(ss.L2(40, unit="customer"), "scale"),
    ],
)
def test_data_without_counts_are_refused_by_what_was_done_with_them(bounds: Bounds) -> None:
    sketch = sketch_of(bounds=bounds)
    with pytest.raises(InvalidInputError, match="no count of the customers in these data"):
        LAPLACE.release(sketch, assert_bounds=True)


def test_rows_of_a_matrix_are_not_counted() -> None:
    projection = ss.SJLT(dim=50, sketch_dim=64, sparsity=4, seed=7)
    with pytest.raises(InvalidInputError, match="counting is not supported for rows of a matrix"):
        LAPLACE.release_rows(projection, np.ones((2, 50), dtype=np.int64))


@pytest.mark.parametrize("neighbours", [ss.L2(1), ss.OneCoordinate(1), ss.SketchL2(1)])
def test_neighbours_without_a_proof_are_refused_at_once(neighbours: Any) -> None:
    with pytest.raises(InvalidInputError):
        ss.AdditiveNoise(epsilon=1, delta=1e-6, neighbours=neighbours, counting=Counting(1))


def test_slack_without_a_bound_on_totals_and_other_types_are_refused_at_once() -> None:
    with pytest.raises(InvalidInputError, match="leave it out"):
        ss.AdditiveNoise(epsilon=1, delta=1e-6, neighbours=ANY, counting=Counting(1, 1))
    with pytest.raises(TypeError, match="must be a streamsketch"):
        ss.AdditiveNoise(epsilon=1, delta=1e-6, neighbours=ANY, counting=1)  # type: ignore[arg-type]


# --- what is checked, spent and explained ----------------------------------------------------------------------------


@pytest.mark.parametrize(("publisher", "sketch"), [(LAPLACE, sketch_of()), (GAUSSIAN, fine())])
def test_checkers_ask_for_the_noise_that_counts_take(publisher: ss.AdditiveNoise, sketch: Sketch) -> None:
    released = publisher.release(sketch)
    assert publisher.counting is not None
    assert check_release(released).verdict == "enough"
    heavier = dataclasses.replace(
        released.guarantee.mechanism.noises[0],
        layout=Layout(dataclasses.replace(publisher.counting, units=10 * publisher.counting.units)),
    )
    mechanism = type(released.guarantee.mechanism)((heavier,))
    guarantee = dataclasses.replace(released.guarantee, mechanism=mechanism)
    stated = {"release_ids": released.release_ids, "data_ids": released.data_ids}
    weak = ss.PrivateSketch(released.projection, released.values, released.noise, guarantee, **stated)
    assert check_release(weak).verdict == "too little"


@pytest.mark.parametrize(("publisher", "projection"), [(LAPLACE, PROJECTION), (GAUSSIAN, FINE)])
def test_the_ledger_charges_for_the_counts(publisher: ss.AdditiveNoise, projection: ss.projections.Projection) -> None:
    """ρ of a release with counts is that of its sensitivity, not of the cells alone."""
    guarantee = publisher.guarantee(projection)
    uncounted = dataclasses.replace(guarantee.mechanism.noises[0], layout=Layout())
    alone = dataclasses.replace(guarantee, mechanism=type(guarantee.mechanism)((uncounted,)))
    both, cells = (
        sensitivity_of(projection, publisher.neighbours, Layout(counting)) for counting in (publisher.counting, None)
    )
    spent, less = spending_of(guarantee, projection).rho, spending_of(alone, projection).rho
    if publisher is GAUSSIAN:
        assert spent / less == pytest.approx(both.l2_squared / cells.l2_squared, rel=1e-6)
    assert spent > less


def test_an_explanation_names_the_counts_and_their_errors() -> None:
    released = LAPLACE.release(sketch_of())
    explanation = released.explain()
    text = " ".join(str(explanation).split())
    assert "with a count of units (weight 20) and slack (weight 2)" in text
    assert f"the number of customers: ± {released.units.standard_error:.4g}" in text
    errors = {name: getattr(released, name).standard_error for name in ("units", "total")}
    assert explanation.to_dict()["counts"] == pytest.approx(errors)
    assert released.scaled(2).explain().to_dict()["counts"] == {}
    assert "brought to the length of the bound" in " ".join(str(GAUSSIAN.release(fine()).explain()).split())


def test_a_table_shows_counts_in_columns_for_people() -> None:
    rows = {key: LAPLACE.release(sketch_of()) for key in "ab"}
    rows["c"] = rows["b"].scaled(2)
    rows["b"] = LAPLACE.release(sketch_of())
    table = ss.PrivateTable(rows)
    shown = table.to_arrow()
    for name in ("units", "total"):
        found = [getattr(rows[key], name) for key in "ab"]
        assert shown[name].to_pylist() == [*(one.value for one in found), None]
        assert shown[f"{name}_error"].to_pylist() == [*(one.standard_error for one in found), None]
    assert ss.PrivateTable.from_bytes(table.to_bytes()) == table
    plain = ss.PrivateTable({"c": rows["c"]}).to_arrow()
    assert "units" not in plain.column_names


# --- sums, multiples and bytes --------------------------------------------------------------------------------------


def test_counts_of_disjoint_populations_add_up() -> None:
    x, y = LAPLACE.release(sketch_of(500, 9000)), LAPLACE.release(sketch_of(30, 100))
    both = x.combine(y, populations="disjoint")
    assert x.counts is not None
    assert y.counts is not None
    assert both.counts is not None
    assert both.counts.tolist() == (x.counts + y.counts).tolist()
    assert both.units.noise_variance == pytest.approx(2 * x.units.noise_variance)
    assert both.units.kurtosis == pytest.approx(x.units.kurtosis / 2)
    assert both.total.value == pytest.approx(x.total.value + y.total.value)
    assert ss.PrivateSketch.from_bytes(both.to_bytes()) == both


def test_other_sums_and_multiples_have_no_counts() -> None:
    x, y = LAPLACE.release(sketch_of()), LAPLACE.release(sketch_of())
    other = dataclasses.replace(LAPLACE, counting=Counting(19, 2)).release(sketch_of())
    none = dataclasses.replace(LAPLACE, counting=None).release(sketch_of())
    for made in (
        x.combine(y, populations="overlapping"),
        x.subtract(y, populations="disjoint"),
        x.combine(other, populations="disjoint"),
        x.combine(none, populations="disjoint"),
        x.scaled(Fraction(1, 2)),
        x.scaled(-1),
        x.scaled(2).scaled(Fraction(1, 2)),
    ):
        assert (made.counts, made.layout) == (None, CELLS)
        assert ss.PrivateSketch.from_bytes(made.to_bytes()) == made
    assert x.scaled(1) == x
    assert x.scaled(1).counts is not None


def test_a_clip_stays_with_disjoint_populations_alone() -> None:
    x, y = GAUSSIAN.release(fine()), GAUSSIAN.release(fine())
    assert x.combine(y, populations="disjoint").clip == "equal"
    assert x.combine(y, populations="overlapping").clip is None
    assert x.combine(y.with_clip("scale"), populations="disjoint").clip is None
    assert x.scaled(3).clip == "equal"


def test_sums_of_counts_beyond_a_word_are_refused() -> None:
    publisher = dataclasses.replace(LAPLACE, counting=Counting(20))
    x, y = (publisher.release(sketch_of(units=(1 << 63) // 25)) for _ in range(2))
    with pytest.raises(SketchOverflowError, match="counts"):
        x.combine(y, populations="disjoint")


def test_counts_and_clips_that_the_guarantee_does_not_state_are_refused() -> None:
    released = LAPLACE.release(sketch_of())
    known = {"release_ids": released.release_ids}
    build = dataclasses.replace(LAPLACE, counting=None).release(sketch_of())
    assert released.counts is not None
    for guarantee, counts, multiplier in (
        (build.guarantee, released.counts, 1),
        (released.guarantee, released.counts[:1], 1),
        (released.guarantee, released.counts.astype(np.int32), 1),
        (released.guarantee, released.counts, 2),
    ):
        with pytest.raises(InvalidInputError, match="counts"):
            ss.PrivateSketch(
                released.projection,
                released.values,
                released.noise,
                guarantee,
                counts=counts,
                multiplier=multiplier,
                **known,
            )
    with pytest.raises(InvalidInputError, match="clipped by"):
        released.with_clip("cut")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"is for SketchL2 neighbours, but the guarantee is for one .* \(L1\)"):
        released.with_clip("equal")


def test_bytes_with_a_count_too_many_are_refused() -> None:
    released = LAPLACE.release(sketch_of())
    one = dataclasses.replace(LAPLACE, counting=Counting(20)).release(sketch_of())
    object.__setattr__(one, "_counts", released.counts)
    with pytest.raises(WireFormatError, match="counts must be int64 of shape"):
        ss.PrivateSketch.from_bytes(one.to_bytes())


def test_pickles_and_other_agreements_keep_the_counts() -> None:
    released = GAUSSIAN.release(fine())
    for again in (pickle.loads(pickle.dumps(released)), released.with_agreement("00" * 16)):  # noqa: S301
        assert again.counts.tolist() == released.counts.tolist()
        assert again.clip == "equal"
    assert released != released.with_clip(None)


def test_counts_are_part_of_what_a_release_is_known_by() -> None:
    """Other counts under its id are another draw: a copy is refused, and a sum that adds some spends for them."""
    x, y = LAPLACE.release(sketch_of()), LAPLACE.release(sketch_of())
    assert x.counts is not None
    forged = with_counts(x, x.counts + 1)
    for given in ([x, forged], [x, x.scaled(3), forged], [forged, x]):
        with pytest.raises(InvalidInputError, match="counts"):
            ss.compose(given, populations="overlapping")
    both, fewer = x.combine(y, populations="disjoint"), [x.scaled(2), y.scaled(2)]
    for given, epsilon in (
        ([x, y, both], 2),
        ([both, *fewer, x, y], 2),
        ([fewer[0], x], 1),
        (fewer, 2),
        ([*fewer, both], 3),
    ):
        assert ss.compose(given, populations="overlapping").epsilon == epsilon
        assert ss.compose(given[::-1], populations="overlapping").epsilon == epsilon


# --- coverage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("confidence", "within"), [(0.9, 0.007), (0.95, 0.005), (0.99, 0.006)])
def test_intervals_of_units_allow_for_the_tails_of_one_laplace_noise(confidence: float, within: float) -> None:
    """By its exact distribution; a normal quantile covers 1.3 points less at 95 %, and 1.6 at 99 %."""
    released = LAPLACE.release(sketch_of())
    reach = math.floor((released.units.interval(confidence).high - released.units.value) * 20 + 1e-9)
    (noise,) = released.guarantee.mechanism.noises
    ratio = math.exp(-1 / noise.noise.amount)
    covered = 1 - 2 * ratio ** (reach + 1) / (1 + ratio)  # P(|η| ≤ reach)
    assert abs(covered - confidence) < within
    assert released.units.scaled(3).kurtosis == released.units.kurtosis
    chosen = released.units.selected_interval(10, confidence)
    assert chosen.high == pytest.approx(released.units.interval(1 - (1 - confidence) / 10).high)


@pytest.mark.parametrize("publisher", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_intervals_of_units_and_totals_cover(publisher: ss.AdditiveNoise) -> None:
    """5,000 draws: the share covered is within 1.4 points of 95 % (4.5 standard errors, one in 150,000 is rejected).

    A normal interval would cover 93.7 % of Laplace draws, so the mean must not be that far off either.
    """
    sketch = sketch_of(500, 9000) if publisher is LAPLACE else fine()
    calibrated = publisher.calibrated(sketch.projection)
    noise = calibrated.noise.sample(10_000, KeyedBits(bytes(32), b"coverage")).reshape(-1, 2)
    released = calibrated.for_data(sketch).draw(KeyedBits(bytes(32), b"one"))
    assert publisher.counting is not None
    exact = publisher.counting.weighted(np.array([[500, 9000]]), 40)[0]
    quantities = {"units": 500.0} | ({"total": 9000.0} if publisher.counting.slack else {})
    for name, truth in quantities.items():
        estimate = getattr(released, name)
        reach = estimate.interval(0.95).high - estimate.value
        at = [getattr(with_counts(released, exact + one[: exact.size]), name).value for one in noise[:5000]]
        off = np.abs(np.array(at) - truth)
        assert abs((off <= reach).mean() - 0.95) < 0.014, name
        assert abs(np.mean(at) - truth) < 4.5 * estimate.standard_error / math.sqrt(5000)
        assert np.std(at) == pytest.approx(estimate.standard_error, rel=0.07)


def with_counts(release: ss.PrivateSketch, counts: np.ndarray) -> ss.PrivateSketch:
    known = {"release_ids": release.release_ids, "counts": counts}
    return ss.PrivateSketch(release.projection, release.values, release.noise, release.guarantee, **known)
