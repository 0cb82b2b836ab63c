"""What separates two streams: differences of items and of categories, of sums and of averages."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import DependentNoiseError, IncompatibleAgreementsError, IncompatibleProjectionsError
from streamsketch.estimation import DifferenceBy, Differences, PointEstimator
from streamsketch.estimation.cell_law import CellLaw
from streamsketch.estimation.differences import Found, differences_from_others
from streamsketch.estimation.intervals import miss_of
from streamsketch.features import Features, Number
from streamsketch.release import release_vector
from tests.counted import AGREEMENT, PROJECTION, bounded
from tests.noise import SALT, salted_bits, salted_rng
from tests.oracles import naive_points
from tests.oracles.naive_maps import COLUMNS
from tests.projections.zoo import SMALL, name

pytestmark = pytest.mark.rejects(2e-4)


HASHED = ss.SJLT(sketch_dim=320, sparsity=5, seed=7)
GOODS = pa.table({"item": ["tea", "jam", "salt", "milk"], "kind": ["drink", "food", "food", "drink"]})
NEAR = ss.L1(3, unit="customer")
BOUNDED = dataclasses.replace(
    AGREEMENT,
    projection=PROJECTION.replace(resolution=1),
    neighbours=NEAR,
    clip=None,
    counting=ss.privacy.Counting(1, slack=2),
)
RIGHT = {"tea": 10.0, "jam": -5.0, "salt": 3.0, "milk": -3.0}
TWINS = [one for one in SMALL if one.kind in COLUMNS and one.kind not in {"gaussian", "uniform", "fjlt", "srht"}]
BOTH: list[PointEstimator] = ["mean", "median"]


def stream(counts: dict[str, int], projection: ss.projections.Projection = HASHED) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update(list(counts), list(counts.values()))
    return sketch


def pair(projection: ss.projections.Projection = HASHED) -> tuple[ss.Sketch, ss.Sketch]:
    first = {"tea": 30, "jam": 4, "salt": 3}
    return stream(first, projection), stream({"tea": 20, "jam": 9, "milk": 3}, projection)


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> tuple[ss.PrivateSketch, ss.PrivateSketch]:
    bits = salted_bits(b"differences")
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
    x, y = (one.release(epsilon=1.0, neighbours=ss.L1(1)) for one in pair())
    return x, y


def rows(found: Differences) -> dict[Any, float]:
    return dict(zip(found.table["item"].to_pylist(), found.table["estimate"].to_pylist(), strict=True))


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", TWINS, ids=name)
@pytest.mark.parametrize("estimator", BOTH)
def test_differences_are_those_of_the_slow_twin(
    projection: ss.projections.Projection, estimator: PointEstimator
) -> None:
    projection = projection.replace(resolution="1/4")
    x, y = projection.sketch(), projection.sketch()
    x.update([0, projection.dim - 1], [2.5, -1.0])
    y.update([0], [7.25])
    cells, indices = (x.state() - y.state()).tolist(), sorted({0, projection.dim // 2, projection.dim - 1})
    try:
        found = ss.top_differences(x, y, indices, estimator=estimator)
    except ss.InvalidInputError:
        assert estimator == "median"
        assert projection.kind not in {"sjlt-block", "sjlt-graph", "count-sketch"}, "these have s signed cells each"
        return
    text, scale = projection.to_json(), projection.scale_squared
    expected = {index: float(naive_points.frequency(text, scale, cells, index, estimator)) for index in indices}
    assert rows(found) == pytest.approx(expected)
    sizes = np.abs(found.table["estimate"].to_numpy())
    assert (np.diff(sizes) <= 0).all(), "the largest first"


@pytest.mark.parametrize("estimator", BOTH)
def test_differences_of_releases_have_the_noise_of_both(
    releases: tuple[ss.PrivateSketch, ss.PrivateSketch], estimator: PointEstimator
) -> None:
    x, y = releases
    found = rows(ss.top_differences(x, y, GOODS.select(["item"]), estimator=estimator))
    single = [ss.frequency(each, "tea", estimator="mean").value for each in releases]
    if estimator == "mean":
        assert found["tea"] == pytest.approx(single[0] - single[1])
    assert rows(ss.top_differences(y, x, ["tea"], estimator=estimator))["tea"] == -found["tea"]
    error = ss.top_differences(x, y, ["tea"], estimator="mean").table["error"][0].as_py()
    of_noise = x.noise.k2 * HASHED.cell_unit**2 * 2
    # the map's part is estimated: 0 for half of all noise, and ten standard deviations below that of the noise
    assert of_noise * (1 - 1e-9) <= error**2 < 2 * of_noise
    assert SALT or error**2 > of_noise


def test_weighted_releases_are_subtracted_in_data_units(
    releases: tuple[ss.PrivateSketch, ss.PrivateSketch],
) -> None:
    x, y = releases
    for estimator, (a, b) in itertools.product(BOTH, [(2, 2), (3, 2), (-1, 2)]):
        found = rows(ss.top_differences(x.scaled(a), y.scaled(b), ["tea"], estimator=estimator))["tea"]
        if estimator == "mean":
            parts = [ss.frequency(each, "tea", estimator="mean").value for each in releases]
            assert found == pytest.approx(a * parts[0] - b * parts[1])
        elif a == b:
            assert found == pytest.approx(a * rows(ss.top_differences(x, y, ["tea"], estimator=estimator))["tea"])


def units(count: int, items: tuple[int, ...]) -> ss.Sketch:
    """Return the sketch of ``count`` customers who all buy these items, at most three."""
    return bounded(BOUNDED, count, items)


def test_averages_are_differences_of_shares_and_raw_sketches_count_exactly() -> None:
    x, y = units(40, (1, 2)), units(8, (1,))
    found = ss.top_differences(x, y, [1, 2, 500], by="mean")
    assert rows(found) == pytest.approx({2: 1.0, 1: 0.0, 500: 0.0})
    assert found.separated["item"].to_pylist() == [2]
    assert (found.by, found.n_separated, found.candidates, found.secret) == ("mean", 1, 3, True)
    assert rows(ss.top_differences(x, y, [1, 2, 500])) == pytest.approx({2: 40.0, 1: 32.0, 500: 0.0})
    with pytest.raises(ss.InvalidInputError, match="number of units"):
        ss.top_differences(*pair(), ["tea"], by="mean")


@pytest.mark.parametrize("estimator", BOTH)
def test_the_error_of_a_count_is_that_of_a_factor_on_the_whole_average(
    estimator: PointEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = salted_bits(b"averages")
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
    x, y = (units(count, (1, 2)).release(epsilon=0.5, neighbours=NEAR) for count in (400, 300))
    options: dict[str, Any] = {"by": "mean", "agreement": BOUNDED, "estimator": estimator}
    table = ss.top_differences(x, y, [1, 500], **options).table
    error = dict(zip(table["item"].to_pylist(), table["error"].to_pylist(), strict=True))
    spreads = [one.units.variance / one.units.value**2 for one in (x, y)]
    counts = error[1] ** 2 - error[500] ** 2
    # each average of item 1 is about 1, so its variance has both squared relative errors of the counts
    assert SALT or counts == pytest.approx(sum(spreads), rel=0.5)
    # with other noise, averages squared are up to twice that, and the map's part is less: it is of the other items
    averages = [ss.frequency(one, 1, agreement=BOUNDED, estimator="mean").value / one.units.value for one in (x, y)]
    whole = sum(spread * average**2 for spread, average in zip(spreads, averages, strict=True))
    assert 0.35 * whole < counts < whole
    single = (units(1, (1,)).release(epsilon=0.5, neighbours=NEAR) for _ in range(20))
    hidden = next(one for one in single if one.units.value < 2 * one.units.standard_error)  # the first, in most runs
    with pytest.raises(ss.InvalidInputError, match="within two standard errors of zero"):
        ss.top_differences(x, hidden, [1], **options)


# --- categories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("library", ["arrow", "pandas", "polars", "lazy"])
def test_categories_are_sums_of_their_items(library: str, estimator: PointEstimator) -> None:
    x, y = pair()
    frame = pl.DataFrame(GOODS.to_pydict())
    dictionary = {"arrow": GOODS, "pandas": GOODS.to_pandas(), "polars": frame, "lazy": frame.lazy()}[library]
    items = GOODS["item"] if library == "arrow" else dictionary[["item"]] if library == "pandas" else frame["item"]
    assert rows(ss.top_differences(x, y, items)) == pytest.approx(RIGHT)
    found = ss.top_differences(x, y, dictionary, category="kind", estimator=estimator)
    assert rows(found) == pytest.approx({"drink": 7.0, "food": -2.0})
    beside = ss.top_differences(x, y, GOODS["item"], category=GOODS["kind"], estimator=estimator)
    assert rows(beside) == rows(found)
    assert found.candidates == 2


def test_by_the_mean_a_category_is_the_inner_product_with_its_indicator(
    releases: tuple[ss.PrivateSketch, ss.PrivateSketch],
) -> None:
    x, y = releases
    for kind in ("drink", "food"):
        items = GOODS.filter(pa.compute.equal(GOODS["kind"], kind))["item"].to_pylist()
        indicator = stream(dict.fromkeys(items, 1))
        products = [ss.inner_product(each, indicator).value for each in releases]
        found = ss.top_differences(x, y, GOODS, category="kind", estimator="mean")
        assert rows(found)[kind] == pytest.approx(products[0] - products[1])


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("by", ["distance", "mean"])
def test_a_category_of_one_item_is_this_item(by: DifferenceBy, estimator: PointEstimator) -> None:
    x, y = (units(count, (1, 2)).release(epsilon=1.0, neighbours=NEAR) for count in (400, 300))
    options: dict[str, Any] = {"by": by, "estimator": estimator, "agreement": BOUNDED}
    single = ss.top_differences(x, y, [1, 2, 500], **options).table
    grouped = ss.top_differences(x, y, [1, 2, 500], category=[1, 2, 500], **options).table
    for title, column in single.to_pydict().items():
        assert grouped[title].to_pylist() == pytest.approx(column), title


def test_items_may_recur_and_be_in_several_categories_or_none() -> None:
    x, y = pair()
    items = ["tea", "tea", "tea", "jam", "salt"]
    kinds = pa.array(["hot", "hot", "drink", None, None])
    found = rows(ss.top_differences(x, y, items, category=kinds))
    assert found == pytest.approx({"hot": 10.0, "drink": 10.0, None: -2.0})
    assert rows(ss.top_differences(x, y, items)) == pytest.approx({"tea": 10.0, "jam": -5.0, "salt": 3.0})


def test_categories_are_of_any_type_and_may_have_words_of_no_item() -> None:
    x, y = pair()
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0]), pa.array(["drink", "food", "unused"]))
    for column in (encoded, pa.array([1, 2, 2, 1]), pa.array([True, False, False, True])):
        found = ss.top_differences(x, y, GOODS["item"], category=column)
        assert found.table["estimate"].to_pylist() == pytest.approx([7.0, -2.0])


@pytest.mark.parametrize(
    ("dictionary", "category", "message"),
    [
        (["tea"], "kind", "dictionary is not a table"),
        (GOODS, "colour", "no column 'colour' for the category, but item, kind"),
        (["tea", "jam"], ["drink"], "2 items and 1 categories"),
        ([], [], "no items"),
        ([], None, "no items"),
        (pa.array(["tea", None]), None, "null"),
    ],
)
def test_dictionaries_that_cannot_be_read_are_refused(dictionary: object, category: object, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.top_differences(*pair(), dictionary, category=category)


def test_an_agreement_says_which_columns_of_the_dictionary_are_the_index() -> None:
    agreement = ss.Agreement(HASHED, index={"shop": "text", "week": "integer"}, value="n")
    data = pa.table({"shop": ["x", "y"], "week": ["07", "8"], "n": [5, 6]})
    x, y = (ss.sketch(part, agreement) for part in (data, data.slice(1)))
    assert isinstance(x, ss.Sketch)
    assert isinstance(y, ss.Sketch)
    dictionary = pa.table({"kind": ["a", "b"], "week": [7, 8], "shop": ["x", "y"]})
    assert rows(ss.top_differences(x, y, dictionary, category="kind")) == {"a": 5.0, "b": 0.0}
    released = x.release(epsilon=9.0, neighbours=ss.L1(1)), y.release(epsilon=9.0, neighbours=ss.L1(1))
    with pytest.raises(IncompatibleAgreementsError, match="pass it as agreement="):
        ss.top_differences(*released, dictionary, category="kind")
    assert len(ss.top_differences(*released, dictionary, category="kind", agreement=agreement).table) == 2
    assert len(ss.top_differences(released[0], y, dictionary, category="kind").table) == 2, "one's own sketch knows it"
    with pytest.raises(ss.InvalidInputError, match="no column week, but kind, shop"):
        ss.top_differences(x, y, dictionary.drop(["week"]), category="kind")


# --- intervals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", BOTH)
def test_intervals_are_bonferroni_s_over_the_whole_dictionary(
    releases: tuple[ss.PrivateSketch, ss.PrivateSketch], estimator: PointEstimator
) -> None:
    items = [f"item {place}" for place in range(50)]
    found = ss.top_differences(*releases, items, 3, estimator=estimator)
    alone = {
        item: ss.top_differences(*releases, [item], estimator=estimator, confidence=1 - 0.05 / 50).table
        for item in found.table["item"].to_pylist()
    }
    assert (len(found.table), found.candidates) == (3, 50)
    single = pa.concat_tables(alone.values())
    if estimator == "mean":  # one of many may share a cell with the heaviest item: intervals are wider
        assert found.table.drop(["low", "high"]) == single.drop(["low", "high"])
        assert (found.table["low"].to_numpy() <= single["low"].to_numpy()).all()
        assert (found.table["high"].to_numpy() >= single["high"].to_numpy()).all()
    else:
        assert found.table == single
    assert f"3 of 50 items, {found.n_separated} separated at 95 %" in repr(found)


def test_what_is_separated_leaves_out_zero_also_beyond_the_rows_shown() -> None:
    """Two exact sketches whose items share no cell know each difference exactly."""
    found = ss.top_differences(*pair(), [*RIGHT, "none"], 2)
    assert rows(found) == pytest.approx({"tea": 10.0, "jam": -5.0})
    assert found.separated.to_pylist() == found.table.to_pylist()
    assert found.n_separated == 4
    same = ss.top_differences(pair()[0], pair()[0], list(RIGHT))
    assert (len(same.separated), same.n_separated) == (0, 0)


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_law_of_a_sum_of_medians_is_that_of_all_draws(count: int, number: int) -> None:
    sizes = [1, 4, 11]
    law = CellLaw.of(np.array(sizes, dtype=np.float64), count)
    places = [float(place) for place in law.sizes]
    tails = np.append(1.0, law.tail(np.array(places)))
    one = {sign * size: (tails[at] - tails[at + 1]) / 2 for at, size in enumerate(places) for sign in (-1, 1)}
    sums: dict[float, float] = {}
    for drawn in itertools.product(one, repeat=number):
        sums[abs(sum(drawn))] = sums.get(abs(sum(drawn)), 0.0) + float(np.prod([one[size] for size in drawn]))
    for miss in (0.5, 0.1, 0.05):
        reach = float(law.reach_of_sums(np.array([number]), miss)[0])
        assert sum(chance for size, chance in sums.items() if size <= reach) >= 1 - miss
        if number > 1:
            assert sum(chance for size, chance in sums.items() if size < reach - 0.1) < 1 - miss


def test_intervals_by_the_median_reach_the_whole_steps_of_their_law() -> None:
    """At each level: a rounding less would leave out the errors of the last step, which are likely."""
    law = CellLaw.of(np.array([1.0, 4.0, 11.0]), 3)
    numbers = np.arange(1, 8)
    zeros, cells = np.zeros(numbers.size), numbers * law.variance
    differences = Found(zeros, cells, zeros, zeros, zeros, zeros, law, numbers)
    for confidence in np.linspace(0.5, 0.9999, 200).tolist():
        reach = law.reach_of_sums(numbers, miss_of(confidence, 1))
        intervals = differences.interval(confidence)
        assert (intervals.low <= -reach).all()
        assert (intervals.high >= reach).all()


def test_quantiles_of_many_numbers_are_interpolated_and_end_as_normal_ones() -> None:
    law = CellLaw.of(salted_rng(5).standard_normal(999), 3)
    numbers = np.r_[1:50, 1000, 20_000]
    found = law.reach_of_sums(numbers, 0.05, most=8)
    some = np.array([1, 2, 5, 40, 20_000])
    near, normal = (0.03, 0.01) if SALT else (0.01, 5e-3)  # all cells of a salted run, or those of this seed
    assert found[np.searchsorted(numbers, some)] == pytest.approx(law.reach_of_sums(some, 0.05, most=8), rel=near)
    assert found[-1] == pytest.approx(1.96 * (20_000 * law.variance) ** 0.5, rel=normal)


# --- each of several streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("category", [None, ["a", "a", "b"]])
def test_each_stream_is_compared_with_the_average_of_the_others(
    estimator: PointEstimator, category: list[str] | None
) -> None:
    x, y = pair()
    z = stream({"tea": 1, "milk": 8})
    items = ["tea", "jam", "milk"]
    found = differences_from_others([x, y, z], items, estimator=estimator, category=category)
    counts = np.array([[30, 4, 0], [20, 9, 3], [1, 0, 8]])
    expected = counts - (counts.sum(axis=0) - counts) / 2
    for one, row in zip(found, expected.tolist(), strict=True):
        groups = {"a": row[0] + row[1], "b": row[2]} if category else dict(zip(items, row, strict=True))
        assert rows(one) == pytest.approx(groups)
        assert one.candidates == 3 * len(groups), "of all streams, at once"


@pytest.mark.parametrize("by", ["distance", "mean"])
def test_of_two_streams_that_is_the_other_one(by: DifferenceBy) -> None:
    x, y = (units(count, (1, 2)).release(epsilon=1.0, neighbours=NEAR) for count in (400, 300))
    options: dict[str, Any] = {"by": by, "agreement": BOUNDED}
    both = differences_from_others([x, y], [1, 2, 500], confidence=0.9, **options)
    for first, second, one in ((x, y, both[0]), (y, x, both[1])):
        alone = ss.top_differences(first, second, [1, 2, 500], confidence=0.95, **options).table
        for title, column in alone.to_pydict().items():
            assert one.table[title].to_pylist() == pytest.approx(column), "at half the level"


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_cannot_be_compared_is_refused(releases: tuple[ss.PrivateSketch, ss.PrivateSketch]) -> None:
    x, y = releases
    with pytest.raises(DependentNoiseError):
        ss.top_differences(x, x, ["tea"])
    with pytest.raises(IncompatibleProjectionsError):
        ss.top_differences(x, stream({"tea": 1}, HASHED.replace(seed=8)), ["tea"])
    with pytest.raises(TypeError, match="PrivateSketch or Sketch"):
        ss.top_differences(x, GOODS, ["tea"])
    refused: list[tuple[dict[str, Any], str]] = [
        ({"by": "cosine"}, "by must be .* or "),
        ({"estimator": "mode"}, "'auto', 'mean', 'median'"),
        ({"n": 0}, "n must"),
        ({"confidence": 1.0}, "confidence"),
    ]
    for options, message in refused:
        with pytest.raises(ss.InvalidInputError, match=message):
            ss.top_differences(x, y, ["tea"], **options)


def test_rows_with_features_have_no_items() -> None:
    people = pa.table({"age": [30.0, 50.0], "person": ["a", "b"]})
    agreement = ss.agree(people, features=Features({"age": Number(0, 100)}, seed=1), unit="person")
    x, y = ss.bound(people, agreement), ss.bound(people.slice(1), agreement)
    assert isinstance(x, ss.Sketch)
    assert isinstance(y, ss.Sketch)
    for asked in (lambda: ss.top_differences(x, y, ["age"]), lambda: ss.frequency(x, "age")):
        with pytest.raises(ss.InvalidInputError, match="features of the columns age, not items"):
            asked()


def test_noise_before_the_map_has_means_of_items_and_categories_only() -> None:
    projection = ss.SJLT(dim=64, sketch_dim=20, sparsity=5, seed=3)
    x, y = (
        release_vector(projection, np.arange(64) * sign, epsilon=1.0, neighbours=ss.L1(1), noise_place="input")
        for sign in (1, 2)
    )
    items = np.arange(64)
    single = ss.top_differences(x, y, items, 64).table
    whole = ss.top_differences(x, y, items, category=np.zeros(64, dtype=int))
    assert whole.table["estimate"][0].as_py() == pytest.approx(sum(single["estimate"].to_pylist()))
    with pytest.raises(ss.InvalidInputError, match="noise after the map"):
        ss.top_differences(x, y, items, estimator="median")
