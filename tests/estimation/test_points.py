"""How often items occur: one or many, by the mean or the median of their cells, and the largest of a dictionary."""

import datetime as dt
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.estimation.cell_law import CellLaw, normal_median_variance
from streamsketch.estimation.points import PointEstimator, points_of
from streamsketch.release import release_vector
from tests.noise import SALT, salted_bits, salted_rng
from tests.oracles import naive_points
from tests.oracles.naive_maps import COLUMNS
from tests.projections.zoo import SMALL, name

pytestmark = pytest.mark.rejects(2e-4)


HASHED = ss.SJLT(sketch_dim=320, sparsity=5, seed=7)


def sketched(rows: pa.Table, agreement: ss.Agreement) -> ss.Sketch:
    found = ss.sketch(rows, agreement)
    assert isinstance(found, ss.Sketch)
    return found


def stream(projection: ss.projections.Projection = HASHED) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update(["tea", "jam"], [30, 4])
    return sketch


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ss.PrivateSketch:
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: salted_bits(b"points"))
    return stream().release(epsilon=1.0, neighbours=ss.L1(30))


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", [one for one in SMALL if one.kind in COLUMNS], ids=name)
@pytest.mark.parametrize("estimator", ["mean", "median"])
def test_estimates_are_those_of_the_slow_twin(projection: ss.projections.Projection, estimator: PointEstimator) -> None:
    projection = projection.replace(resolution="1/4")
    sketch = projection.sketch()
    sketch.update([0, projection.dim - 1], [2.5, -1.0])
    cells, indices = sketch.state().tolist(), [0, projection.dim // 2, projection.dim - 1]
    try:
        found = ss.frequency(sketch, indices, estimator=estimator)
    except ss.InvalidInputError:
        assert estimator == "median"
        assert projection.kind not in {"sjlt-block", "sjlt-graph", "count-sketch"}, "these have s signed cells each"
        return
    expected = [
        naive_points.frequency(projection.to_json(), projection.scale_squared, cells, index, estimator)
        for index in indices
    ]
    assert found["estimate"].to_pylist() == pytest.approx([float(one) for one in expected])


def test_the_mean_is_the_inner_product_with_the_item_alone(release: ss.PrivateSketch) -> None:
    alone = HASHED.sketch()
    alone.update("tea")
    found, product = ss.frequency(release, "tea", estimator="mean"), ss.inner_product(release, alone)
    assert found.value == pytest.approx(product.value)
    assert found.noise_variance == pytest.approx(product.noise_variance)
    assert found.projection_variance <= HASHED.variance.norms * max(ss.squared_norm(release).value, 0.0)
    # it knows Σx²y², which an inner product estimates from the cells: with other noise that may be more than it knows
    assert SALT or found.projection_variance <= product.projection_variance


def test_many_are_as_one_each_whatever_the_tile(release: ss.PrivateSketch) -> None:
    """Of so many that they are estimated some at a time."""
    items = [f"item {number}" for number in range(300_000 // release.projection.nonzeros)]
    whole = ss.frequency(release, items, confidence=0.9)
    for start in (0, len(items) - 50):
        some = items[start : start + 50]
        assert ss.frequency(release, some, confidence=0.9) == whole.slice(start, 50)
    for item, row in zip(some, whole.slice(start).to_pylist(), strict=True):
        one = ss.frequency(release, item)
        low, high = one.interval(0.9)
        assert row == {"item": item, "estimate": one.value, "error": one.standard_error, "low": low, "high": high}


def test_a_scaled_release_and_a_coarse_grid_are_in_data_units(release: ss.PrivateSketch) -> None:
    for estimator in ("mean", "median"):
        one, thrice = (ss.frequency(each, "tea", estimator=estimator) for each in (release, release.scaled(-3)))
        assert thrice.value == pytest.approx(-3 * one.value)
        assert thrice.standard_error == pytest.approx(3 * one.standard_error)
        assert thrice.interval() == pytest.approx(tuple(-end for end in reversed(one.scaled(3).interval())))
        assert thrice.noise_variance == pytest.approx(9 * one.noise_variance)


def test_cells_at_the_edge_of_64_bits_do_not_wrap() -> None:
    sketch = ss.CountSketch(dim=9, sketch_dim=1, seed=1).sketch()
    sketch.update([0, 0], [1 << 62, 1 << 62])
    assert sketch.state().tolist() == [-(1 << 63)]
    found = ss.frequency(sketch, list(range(9)))["estimate"].to_pylist()
    assert set(found) == {2.0**63, -(2.0**63)}


# --- items --------------------------------------------------------------------------------------------------------

TABLES = {
    "list": ["tea", "jam"],
    "array": np.array(["tea", "jam"]),
    "Arrow": pa.array(["tea", "jam"]),
    "chunks": pa.chunked_array([["tea"], ["jam"]]),
    "Series": pd.Series(["tea", "jam"]),
    "polars Series": pl.Series(["tea", "jam"]),
    "pandas": pd.DataFrame({"what": ["tea", "jam"]}, index=[5, 9]),
    "polars": pl.DataFrame({"what": ["tea", "jam"]}),
    "lazy": pl.LazyFrame({"what": ["tea", "jam"]}),
    "table": pa.table({"what": ["tea", "jam"]}),
    "batch": pa.record_batch({"what": ["tea", "jam"]}),
    "reader": None,
}


@pytest.mark.parametrize("form", TABLES)
def test_items_come_in_every_library_s_columns_and_tables(form: str) -> None:
    given = TABLES[form] if form != "reader" else pa.table({"what": ["tea", "jam"]}).to_reader()
    found = ss.frequency(stream(), given)
    assert found.column_names == ["item", "estimate", "error", "low", "high"]
    assert [(row["item"], row["estimate"]) for row in found.to_pylist()] == [("tea", 30.0), ("jam", 4.0)]


def test_items_of_several_columns_are_tuples_as_in_updates() -> None:
    sketch = HASHED.sketch()
    sketch.update_rows(pa.table({"a": ["x", "y"], "b": [1, 2], "n": [5, 6]}), index=["a", "b"], value="n")
    assert ss.frequency(sketch, ("x", 1)).value == 5.0
    for many in ((["x", "y"], [1, 2]), pa.table({"b": ["x", "y"], "a": [1, 2]})):
        found = ss.frequency(sketch, many)
        assert found["estimate"].to_pylist() == [5.0, 6.0]
        assert [tuple(item.values()) for item in found["item"].to_pylist()] == [("x", 1), ("y", 2)]


@pytest.mark.parametrize(
    "item", [7, np.int64(7), b"tea", dt.date(2026, 1, 2), np.datetime64("2026-01-02T03", "s"), "7"]
)
def test_one_item_of_every_type_of_index(item: object) -> None:
    sketch = HASHED.sketch()
    sketch.update(item, 9)
    assert ss.frequency(sketch, item).value == 9.0


@pytest.mark.parametrize("none", [[], pa.array([], pa.string()), pa.table({"item": pa.array([], pa.string())})])
def test_no_items_have_no_rows(none: object) -> None:
    assert len(ss.frequency(stream(), none)) == 0


def test_an_agreement_casts_items_and_must_be_that_of_the_release() -> None:
    agreement = ss.Agreement(HASHED, index={"shop": "text", "week": "integer"}, value="n")
    rows = pa.table({"shop": ["x", "y"], "week": ["07", "8"], "n": [5, 6]})
    sketch = sketched(rows, agreement)
    assert ss.frequency(sketch, ("x", "7")).value == 5.0, "a sketch knows its agreement"
    many = ss.frequency(sketch, rows)
    assert many["estimate"].to_pylist() == [5.0, 6.0]
    assert many["item"].to_pylist()[0] == {"shop": "x", "week": "07"}, "items as they were given"
    release = sketch.release(epsilon=1.0, neighbours=ss.L1(6))
    assert len(ss.frequency(release, rows, agreement=agreement)) == 2
    with pytest.raises(IncompatibleAgreementsError, match="pass it as agreement="):
        ss.frequency(release, ("x", 7))
    other = agreement.replace(title="another")
    with pytest.raises(IncompatibleAgreementsError, match="the agreements differ"):
        ss.frequency(release, ("x", 7), agreement=other)
    with pytest.raises(IncompatibleAgreementsError, match="no agreement is known"):
        ss.frequency(stream(), ("x", 7), agreement=agreement)
    with pytest.raises(ss.InvalidInputError, match="columns shop, week, and items have 1"):
        ss.frequency(sketch, "x")
    with pytest.raises(ss.InvalidInputError, match="1 items are missing"):
        ss.frequency(sketch, (pa.array(["x", None]), [1, 2]))
    with pytest.raises(TypeError, match="must be an Agreement"):
        ss.frequency(sketch, ("x", 7), agreement="f" * 32)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (1 << 60, "60"),
        (pa.array(["tea", None]), "null"),
        (1.5, "float|double"),
        ((["a"], ["b", "c"]), "same length"),
        ((), "empty tuple"),
        (pa.table({}), "at least one column"),
    ],
)
def test_items_that_no_stream_has_are_refused(item: object, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.frequency(stream(), item)


def test_what_has_no_estimate_is_refused() -> None:
    with pytest.raises(TypeError, match="PrivateSketch or Sketch"):
        ss.frequency(pa.table({}), "tea")
    with pytest.raises(ss.InvalidInputError, match="'auto', 'mean', 'median'"):
        ss.frequency(stream(), "tea", estimator="mode")  # type: ignore[call-overload]
    with pytest.raises(ss.InvalidInputError, match="confidence"):
        ss.frequency(stream(), ["tea"], confidence=1.0)
    with pytest.raises(ss.InvalidInputError, match="few cells for each item"):
        ss.frequency(ss.projections.Rademacher(dim=9, sketch_dim=8, seed=1).sketch(), 3, estimator="median")
    with pytest.raises(ss.InvalidInputError, match="share cells at random"):
        ss.frequency(ss.projections.Identity(dim=9).sketch(), 3, estimator="median")
    with pytest.raises(ss.InvalidInputError, match="a single cell cannot distinguish"):
        ss.top(ss.CountSketch(dim=9, sketch_dim=1, seed=1).sketch(), [3])


def test_noise_before_the_map_has_a_mean_with_its_error_and_no_median() -> None:
    projection = ss.SJLT(dim=64, sketch_dim=20, sparsity=5, seed=3)
    released = release_vector(projection, np.arange(64), epsilon=1.0, neighbours=ss.L1(1), noise_place="input")
    found = ss.frequency(released, 5)
    assert found.noise_variance > released.noise.k2, "an item has its own noise, and that of items in its cells"
    with pytest.raises(ss.InvalidInputError, match="noise after the map"):
        ss.frequency(released, 5, estimator="median")
    with pytest.raises(ss.InvalidInputError, match="noise was added before the map"):
        ss.top(released, [1, 2])


# --- errors and intervals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_law_of_a_median_is_that_of_all_draws(count: int) -> None:
    """An even median's law is that of a law without ties, so it is off by about the chance of a tie."""
    sizes = [1, 4, 11]
    law = CellLaw.of(np.array(sizes, dtype=np.float64), count)
    places = [Fraction(place, 2) + Fraction(1, 4) for place in range(0, 24, 2)]
    exact = [float(chance) for chance in naive_points.median_tails(sizes, count, places)]
    slack = 1e-12 if count % 2 else 0.16
    assert law.tail(np.array([float(place) for place in places])) == pytest.approx(exact, abs=slack)


@pytest.mark.parametrize(("count", "variance"), [(1, 1.0), (2, 0.5), (3, 0.44867), (4, 0.29820), (5, 0.28683)])
def test_the_law_of_normal_cells_has_the_variance_of_order_statistics(count: int, variance: float) -> None:
    """Known values of the variance of a median of normal variables (David and Nagaraja, Order Statistics)."""
    assert normal_median_variance(count) == pytest.approx(variance, rel=2e-3)


@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_the_reach_ascends_and_is_the_least_that_is_enough(count: int) -> None:
    law = CellLaw.of(salted_rng(5).standard_t(2, size=999), count)
    reaches = [law.reach(miss) for miss in (0.5, 0.1, 0.05, 0.01)]
    assert reaches == sorted(reaches)
    for reach, miss in zip(reaches, (0.5, 0.1, 0.05, 0.01), strict=True):
        assert float(law.tail(reach)) <= miss + 1e-9 < float(law.tail(0.99 * reach)) + 0.02
    assert law.reach(1e-15) >= law.sizes[-2:].sum(), "more than the cells can tell"


def test_a_law_of_many_cells_is_thinned_and_errs_to_the_safe_side() -> None:
    cells = salted_rng(5).standard_t(2, size=40_000)
    thin = CellLaw.of(cells, 5)
    assert thin.sizes.size <= 4096
    exact = CellLaw(np.sort(np.abs(cells)), np.full(cells.size, 1 / cells.size), 5)
    for miss in (0.5, 0.05, 1e-6):
        assert exact.reach(miss) <= thin.reach(miss) <= exact.reach(miss) * 1.02


def test_the_estimator_follows_the_cells_of_the_release() -> None:
    skewed, even = HASHED.sketch(), HASHED.sketch()
    skewed.update(np.arange(200), np.r_[[10_000], np.ones(199, dtype=int)])
    even.update(np.arange(2000), np.full(2000, 5))
    cases: list[tuple[ss.Sketch, PointEstimator, PointEstimator]] = [
        (skewed, "median", "mean"),
        (even, "mean", "median"),
    ]
    for sketch, same, another in cases:
        chosen = points_of(sketch, np.arange(50), "auto")
        assert chosen.value.tolist() == points_of(sketch, np.arange(50), same).value.tolist()
        other = points_of(sketch, np.arange(50), another)
        assert chosen.standard_error.mean() <= other.standard_error.mean()


def test_one_or_two_cells_have_one_value_and_the_intervals_of_their_law() -> None:
    for sparsity in (1, 2):
        sketch = ss.SJLT(dim=5000, sketch_dim=128, sparsity=sparsity, seed=1).sketch()
        sketch.update(np.arange(200), np.r_[[10_000], np.ones(199, dtype=int)])
        mean, median, auto = (ss.frequency(sketch, 9, estimator=each) for each in ("mean", "median", "auto"))
        assert mean.value == median.value == auto.value
        assert auto.interval() == median.interval()
        assert median.interval().high - median.value < mean.interval().high - mean.value


def test_selected_intervals_are_bonferroni_s_of_the_law(release: ss.PrivateSketch) -> None:
    one = ss.frequency(release, "tea", estimator="median")
    assert one.selected_interval(10) == one.interval(0.995)
    assert one.interval(method="chebyshev").low == pytest.approx(one.value - 20**0.5 * one.standard_error)
    with pytest.raises(ss.InvalidInputError, match="candidates"):
        one.selected_interval(0)
    with pytest.raises(ss.InvalidInputError, match="method"):
        one.interval(method="exact")  # type: ignore[arg-type]


def test_an_exact_sketch_of_one_s_own_knows_items_that_met_no_other() -> None:
    assert ss.frequency(stream(), "tea").interval() == (30.0, 30.0)


# --- the largest of a dictionary ----------------------------------------------------------------------------------


def test_the_largest_come_first_once_each_with_simultaneous_intervals(release: ss.PrivateSketch) -> None:
    dictionary = ["salt", "tea", "jam", "tea", "milk"]
    found = ss.top(release, dictionary, 3, confidence=1 - 1 / 16)  # whose share of four is a float, too
    single = ss.frequency(release, ["salt", "tea", "jam", "milk"], confidence=1 - 1 / 64)
    expected = single.take(np.argsort(-single["estimate"].to_numpy(), kind="stable")[:3])
    assert found.table == expected
    assert found.candidates == 4
    assert "of 4 items" in repr(found)
    assert len(ss.top(release, dictionary, 99).table) == 4


@pytest.mark.parametrize("known", [["tea", "jam"], ["tea"], ["jam", "milk"], ["milk"]])
def test_what_a_dictionary_misses_is_the_square_of_the_rest(known: list[str]) -> None:
    missed = sum(value**2 for name, value in (("tea", 30), ("jam", 4)) if name not in known)
    identity = ss.projections.Identity(dim=4)
    places = {"tea": 0, "jam": 1, "milk": 2}
    sketch = identity.sketch()
    sketch.update([0, 1], [30, 4])
    found = ss.top(sketch, [places[name] for name in known])
    assert (found.missed.value, found.missed.standard_error) == (missed, 0.0)
    assert found.squared_norm.value == 916.0
    hashed = ss.top(stream(), known)
    assert hashed.missed.value == pytest.approx(missed, abs=3 * hashed.missed.standard_error + 1e-9)


def test_a_dictionary_is_read_under_the_agreement() -> None:
    agreement = ss.Agreement(HASHED, index={"week": "integer"})
    sketch = sketched(pa.table({"week": ["07", "7", "8"]}), agreement)
    assert ss.top(sketch, ["8", "7"], 1).table["item"].to_pylist() == ["7"]


@pytest.mark.parametrize(
    ("dictionary", "n", "message"), [([], 1, "no items"), (["tea"], 0, "n must"), (pa.array(["tea", None]), 1, "null")]
)
def test_dictionaries_that_cannot_be_read_are_refused(dictionary: object, n: int, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.top(stream(), dictionary, n)
