"""The items, or categories of items, that separate two streams: simultaneous point queries of a difference."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.libraries import pa, pc, sparse
from streamsketch.core.numbers import Floats, Ints, check_int, short
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, block_of, check_comparable, is_secret
from streamsketch.estimation.cell_law import CellLaw
from streamsketch.estimation.cells import Cells
from streamsketch.estimation.coarse_noise import NoiseReach
from streamsketch.estimation.estimate import SECRECY, SECRET_METADATA
from streamsketch.estimation.intervals import ErrorModel, Intervals, heavier, invert, miss_of, quantile
from streamsketch.estimation.items import Groups, distinct_items, groups_of
from streamsketch.estimation.means import averages_of, check_defined
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.estimation.points import PointEstimator, Points, SharedCells, check_point_estimator, points_from
from streamsketch.sketching.sketch import Sketch

_ROUNDING = 1e-9  # of an estimate

DifferenceBy: TypeAlias = Literal["distance", "mean"]
"""Whether sums differ, or averages over units."""


@dataclasses.dataclass(frozen=True, eq=False)
class Differences:
    """The items in which two streams differ most, from `streamsketch.top_differences`.

    Parameters
    ----------
    table
        One row per item or category, the largest absolute estimate first: ``item``; and ``estimate``, ``error``,
        ``low`` and ``high``, float64, in data units. Estimates are positive if the first stream has more.
    candidates
        Number of differences whose intervals hold at once. For one pair of streams, this is the number of different
        items or categories in the dictionary.
    n_separated
        Number of these whose interval excludes 0.
    by
        ``"distance"`` if sums were compared, ``"mean"`` if averages were.
    confidence
        Probability with which all intervals hold.

    Examples
    --------
    >>> from streamsketch import CountSketch, top_differences
    >>> projection = CountSketch(sketch_dim=256, seed=7)
    >>> north, south = projection.sketch(), projection.sketch()
    >>> north.update(["tea", "milk"], [900, 100])
    >>> south.update(["tea", "milk"], [100, 100])
    >>> differences = top_differences(north, south, ["tea", "milk", "bread"])
    >>> differences.candidates, differences.separated["item"].to_pylist()
    (3, ['tea'])
    """

    table: "pa.Table"
    candidates: int
    n_separated: int
    by: DifferenceBy
    confidence: float
    secret: bool = False
    """Whether it is as secret as a raw sketch that took part."""

    @property
    def separated(self) -> "pa.Table":
        """The rows of the table whose interval excludes 0. The streams differ there, and the sign is right."""
        apart = pc.or_(pc.greater(self.table["low"], 0), pc.less(self.table["high"], 0))
        return self.table.filter(apart)

    def __repr__(self) -> str:
        of_what = "averages" if self.by == "mean" else "sums"
        secret = f", {SECRECY}" if self.secret else ""
        return (
            f"<Differences of {of_what}: {len(self.table):,} of {self.candidates:,} items, "
            f"{self.n_separated:,} separated at {100 * self.confidence:g} %{secret}>"
        )


class Found(NamedTuple):
    """Estimates of n items or categories: float64 arrays, (n,)."""

    value: Floats
    of_cells: Floats
    """Variance of map and noise."""
    of_counts: Floats
    """Variance by the numbers of units that sums were divided by."""
    slope: Floats
    """Slope of the whole variance, as in `Estimate`."""
    curvature: Floats
    kurtosis: Floats
    law: CellLaw | None
    """The distribution of the median's error; None for the mean."""
    numbers: Ints
    """How many items each is a sum of."""
    grain: NoiseReach | None = None
    """The noise in one item by the mean, if its law is known."""
    shared: SharedCells | None = None
    """What else is in an item's cells, by the mean, if these are few."""

    @property
    def standard_error(self) -> Floats:
        """Standard errors."""
        error: Floats = np.sqrt(self.of_cells + self.of_counts)
        return error

    def interval(self, confidence: float, candidates: int = 1) -> Intervals:
        """Return intervals that hold with this confidence for ``candidates`` of them at once (Bonferroni)."""
        miss = miss_of(confidence, candidates)
        reach: Any = quantile(miss, "normal")
        of_cells, usual, least = self.of_cells, reach, self._least_widths(miss)
        if self.law is None:
            reach = heavier(reach, self.kurtosis)
            if self.grain is not None and self.grain.alone:  # as of a law, below
                reach, of_cells = np.where(least > 0, usual, reach), np.where(least > 0, (least / usual) ** 2, of_cells)
        else:  # its quantile in place of that of a normal error, beside which the counts' is normal
            least = self.law.reach_of_sums(self.numbers, miss)  # whole steps, which no rounding may fall short of
            sums = least / reach
            independent = self.numbers * self.law.variance
            with np.errstate(divide="ignore", invalid="ignore"):
                of_cells = np.where(independent > 0, sums**2 * (of_cells / independent), sums**2)
        parts = (self.value, of_cells, self.of_counts, self.slope, self.curvature)
        low, high = invert(ErrorModel(*parts, -math.inf, math.inf), reach)
        if self.shared is not None and candidates > 1:
            least = np.maximum(least, self.shared.reach(self.numbers, miss))
        ends = np.minimum(low, self.value - least), np.maximum(high, self.value + least)
        return Intervals(*(self._without_rounding(end) for end in ends))

    def _without_rounding(self, ends: Floats) -> Floats:
        """Return ends of intervals, 0 where they are 0 but for rounding: errors of few steps often are as large."""
        return np.where(np.abs(ends) <= _ROUNDING * np.abs(self.value), 0.0, ends)

    def _least_widths(self, miss: float) -> Floats:
        """Return how far noise alone moves sums of few items, and 0 of others."""
        widths = np.zeros(self.value.shape)
        if self.grain is None:
            return widths
        for number in np.unique(self.numbers).tolist():
            reach = self.grain.times(number) if number == 1 or self.grain.alone else None
            if reach is not None:
                widths[self.numbers == number] = reach.least_width(miss)
        return np.where(self.of_cells > 0, widths, 0.0)


class _Side(NamedTuple):
    """Estimates of n items or categories in one average, and their variance by map and noise: float64, (n,)."""

    value: Floats
    of_cells: Floats


def top_differences(  # noqa: PLR0913 - those of frequency and top, and what a difference needs
    a: AnySketch,
    b: AnySketch,
    dictionary: object,
    n: int = 10,
    *,
    by: DifferenceBy = "distance",
    category: object = None,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> Differences:
    """Find the items of a public dictionary in which two streams differ most, with simultaneous intervals.

    For each item j it estimates x_j - y_j: how much more of the item the first stream has. With ``by="mean"`` it
    estimates x_j/n_x - y_j/n_y: how much more an average unit of the first stream has. It needs no privacy budget
    beyond that of the releases. The difference of two sketches is a sketch of the difference, so each estimate is a
    point query of it, by the mean or the median of cells as in `frequency`. The error depends on how much the streams
    differ, not on how large they are.

    With ``category`` the rows are categories, and each estimate is the sum of the differences of a category's items. An
    estimate of m items has √m times the error of one. By the mean it is the inner product of the difference with the
    category's indicator, which is 1 at each of its items. By the median it is the sum of the medians of its items.

    With probability ``confidence`` or more, all intervals of the dictionary hold at once (Bonferroni), and with them
    those of the rows shown, which were selected for their size. An interval that excludes 0 shows that the streams
    differ in this item, and in which direction.

    In simulations, intervals by the median, and by the mean for averages, even streams and dense maps, covered as
    stated within 1.5 points, and 50 % intervals in up to 61 % of cases, because counts are whole steps. All 95 %
    intervals of a dictionary held together in 93 % of cases or more. Those by the mean of hashed maps are wide on
    skewed streams, as an item may share its cell with the heaviest one: ``"auto"`` takes the median there (Theory 4.6).

    Parameters
    ----------
    a, b
        Two sketches of one projection, with independent noise: each a `PrivateSketch`, or your own `Sketch`, which
        makes the answers as secret as it is. For ``by="mean"`` their units must have been counted.
    dictionary
        Items as in `frequency`: a column, a tuple of columns or a table. It must not depend on the data. Repeated items
        count once.
    n
        Number of rows to return, at least 1; all if the dictionary has fewer.
    by
        ``"distance"`` for differences of sums, as in `squared_distance`; ``"mean"`` for differences of averages, as in
        `mean_distance`. There are none for profiles, which depend on the lengths of both streams.
    category
        None to compare items. Otherwise the name of a column of the dictionary, which is then a table, or a column with
        the category of each item. An item in several categories counts in each. Missing categories (null) form one
        category.
    agreement, estimator
        As in `frequency`.
    confidence
        Probability in (0, 1) with which all intervals hold.

    Returns
    -------
    Differences
        The table, its rows in which the streams differ for sure, and how many of these the dictionary has.

    Raises
    ------
    InvalidInputError
        As in `frequency`; and for an empty dictionary or one without the category column, an unknown ``by``, averages
        of sketches whose units were not counted or are too few, and noise at different places.
    TypeError, IncompatibleProjectionsError, IncompatibleAgreementsError, DependentNoiseError
        As in `squared_distance` and `frequency`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT
    >>> projection = SJLT(sketch_dim=1280, sparsity=5, seed=7)
    >>> x, y = projection.sketch(), projection.sketch()
    >>> x.update(["tea", "jam", "salt"], [30, 4, 3])
    >>> y.update(["tea", "jam", "milk"], [20, 9, 3])
    >>> goods = pa.table({"item": ["tea", "jam", "salt", "milk"], "kind": ["drink", "food", "food", "drink"]})
    >>> differences = top_differences(x, y, goods.select(["item"]), 2)
    >>> differences.separated.select(["item", "estimate"]).to_pylist()
    [{'item': 'tea', 'estimate': 10.0}, {'item': 'jam', 'estimate': -5.0}]
    >>> top_differences(x, y, goods, category="kind").table.column("estimate").to_pylist()
    [7.0, -2.0]
    """
    check_comparable([a, b])
    check_int(n, "n", 1)
    check_point_estimator(estimator)
    miss_of(confidence)  # checks it
    if by not in get_args(DifferenceBy):
        raise InvalidInputError(
            f"by must be 'distance' or 'mean', got {short(by)}: only differences of sums or averages can be split by "
            "item"
        )
    names, indices, groups = _items_of(dictionary, category, [a, b], agreement)
    estimates = differences_of(a, b, indices, groups, by, estimator)
    return _shown(names, estimates, n, len(names), (by, confidence, is_secret([a, b])))


def differences_from_others(
    sketches: Sequence[AnySketch],
    dictionary: object,
    n: int = 10,
    *,
    by: DifferenceBy = "distance",
    category: object = None,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> list[Differences]:
    """Find the items that separate each of several streams from the average of the others.

    As in `streamsketch.top_differences`, whose parameters these are. All intervals of all streams hold at once.

    Parameters
    ----------
    sketches
        Two or more.
    """
    check_comparable(sketches)
    names, indices, groups = _items_of(dictionary, category, sketches, agreement)
    count = len(sketches)
    weights = (np.eye(count) * count - 1) / (count - 1)
    contrasts = _contrasts(sketches, weights, indices, groups, by, estimator)
    options = by, confidence, is_secret(sketches)
    return [_shown(names, contrast, n, count * len(names), options) for contrast in contrasts]


def differences_of_pairs(
    sketches: Sequence[AnySketch],
    dictionary: object,
    n: int = 10,
    *,
    by: DifferenceBy = "distance",
    category: object = None,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> Iterator[Differences]:
    """Find the items that separate each two of several streams: those of i < j, row by row.

    As `streamsketch.top_differences`, whose parameters these are. The intervals of one pair hold at once.

    Parameters
    ----------
    sketches
        Two or more.
    """
    check_comparable(sketches)
    names, indices, groups = _items_of(dictionary, category, sketches, agreement)
    first, second = np.triu_indices(len(sketches), 1)
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    differences: Iterator[Found]
    if by == "distance":
        differences = (differences_of(sketches[i], sketches[j], indices, groups, by, estimator) for i, j in pairs)
    else:
        weights = np.eye(len(sketches))
        differences = _contrasts(sketches, weights[first] - weights[second], indices, groups, by, estimator)
    options = by, confidence, is_secret(sketches)
    return (_shown(names, difference, n, len(names), options) for difference in differences)


def _items_of(
    dictionary: object, category: object, sketches: Sequence[AnySketch], agreement: Agreement | None
) -> "tuple[pa.Array, Ints, Groups | None]":
    """Return the names of what is to be estimated, the indices of items, and which of them are added up."""
    # a sketch knows its agreement
    reference = next((sketch for sketch in sketches if isinstance(sketch, Sketch)), sketches[0])
    if category is None:
        names, indices = distinct_items(dictionary, reference, agreement)
        return names, indices, None
    groups = groups_of(dictionary, category, reference, agreement)
    return groups.names, groups.indices, groups


def _shown(
    names: "pa.Array", estimates: Found, n: int, candidates: int, options: tuple[DifferenceBy, float, bool]
) -> Differences:
    by, confidence, secret = options
    low, high = estimates.interval(confidence, candidates)
    order = np.argsort(-np.abs(estimates.value), kind="stable")[:n]
    columns = {"estimate": estimates.value, "error": estimates.standard_error, "low": low, "high": high}
    table = pa.table({"item": names.take(pa.array(order)), **{name: part[order] for name, part in columns.items()}})
    if secret:
        table = table.replace_schema_metadata(SECRET_METADATA)
    return Differences(table, candidates, int(((low > 0) | (high < 0)).sum()), by, confidence, secret)


def differences_of(
    a: AnySketch, b: AnySketch, indices: Ints, groups: Groups | None, by: DifferenceBy, estimator: PointEstimator
) -> Found:
    """Estimate the differences of items, or of groups of them; see `top_differences`."""
    if by == "distance":  # subtracted as integers
        return _estimated(Cells.of_difference(a, b), indices, groups, estimator)
    return next(_contrasts([a, b], np.array([[1.0, -1.0]]), indices, groups, by, estimator))


def _contrasts(
    sketches: Sequence[AnySketch],
    weights: Floats,
    indices: Ints,
    groups: Groups | None,
    by: DifferenceBy,
    estimator: PointEstimator,
) -> Iterator[Found]:
    """Estimate weighted sums of n sketches, or of their averages: one for each row of ``weights``, (r, n)."""
    block = block_of(sketches)
    spreads, sides = np.zeros(len(sketches)), list[_Side]()
    if by == "mean":
        averages = averages_of(block)
        check_defined(averages.defined)
        block, spreads = averages.block, averages.spread
        for row in np.eye(len(sketches)):
            side = _estimated(Cells.combined(block, row, sketches), indices, groups, estimator)
            sides.append(_Side(side.value, side.of_cells))
    for row in weights:
        estimates = _estimated(Cells.combined(block, row, sketches), indices, groups, estimator)
        yield _with_counts(estimates, row, sides, spreads) if sides else estimates


def _with_counts(estimates: Found, weights: Floats, sides: list[_Side], spreads: Floats) -> Found:
    """Add what the errors of the numbers of units do: each scales all of one average (Theory 4.6)."""
    of_counts, slope, curvature = (np.zeros(estimates.value.shape) for _ in range(3))
    # squares without what errors of estimates add to them; a difference that is off by 1 puts a share into each side
    sizes = [
        weight * np.sign(side.value) * np.sqrt(np.maximum(side.value**2 - side.of_cells, 0.0))
        for weight, side in zip(weights, sides, strict=True)
    ]
    variances = [
        weight**2 * side.of_cells + t * size**2
        for weight, side, t, size in zip(weights, sides, spreads, sizes, strict=True)
    ]
    total = np.sum(variances, axis=0)
    for t, size, variance in zip(spreads, sizes, variances, strict=True):
        share = np.divide(variance, total, out=np.zeros(total.shape), where=total > 0)
        of_counts += t * size**2
        slope += 2 * t * share * size
        curvature += t * share**2
    return estimates._replace(
        of_counts=of_counts, slope=estimates.slope + slope, curvature=estimates.curvature + curvature
    )


def _estimated(cells: Cells, indices: Ints, groups: Groups | None, estimator: PointEstimator) -> Found:
    """Estimate the entries of a vector at indices, or their sums over groups."""
    points = points_from(cells, indices, estimator)
    if groups is not None:
        return _summed(cells, points, groups)
    size = points.value.shape
    of_cells = points.projection_variance + points.noise_variance
    curvature = np.full(size, points.curvature)
    numbers = np.ones(size, dtype=np.int64)
    parts = points.slope, curvature, points.kurtosis, points.law, numbers, points.grain, points.shared
    return Found(points.value, of_cells, np.zeros(size), *parts)


def _summed(cells: Cells, points: Points, groups: Groups) -> Found:
    """Add up the estimates of a group's items (Theory 4.6)."""
    size, variance = len(groups.names), cells.projection.variance
    numbers = np.bincount(groups.codes, minlength=size)
    value = _grouped(groups, points.value, size)
    each = points.projection_variance + points.noise_variance
    squares = _grouped(groups, points.value**2 - each, size)
    norm = np.full(size, cells.squared_norm)
    squared = np.minimum(value**2, numbers * norm)
    squares = np.clip(squares, squared / numbers, norm)
    zeros, inner = np.zeros(size), variance.inner
    if points.law is not None:
        # errors of two items that share cells are correlated by the product of their entries
        with np.errstate(divide="ignore", invalid="ignore"):
            shared = np.where(cells.mean_square > 0, inner * np.maximum(squared - squares, 0) / cells.mean_square, 0.0)
        of_cells = np.asarray(points.law.variance * (numbers + shared), dtype=np.float64)
        return Found(value, of_cells, zeros, zeros, zeros, zeros, points.law, numbers)
    lengths, fourths = _indicators(cells, groups, numbers.astype(np.float64))
    of_map = variance.of_inner_product(norm, lengths, np.sqrt(squared), squares)
    of_noise = cells.effect.inner_product_variance(norm, lengths, np.full(size, cells.k2), zeros)
    of_cells = np.maximum(of_map, 0.0) + np.maximum(of_noise, 0.0)
    kurtosis = zeros
    if isinstance(cells.effect, OutputNoise):
        kurtosis = np.divide(cells.k4 * fourths, of_cells**2, out=np.zeros(size), where=of_cells > 0)
    growth = inner + variance.fourth / numbers  # if all items of a group grow alike
    return Found(
        value, of_cells, zeros, 2 * growth * value, growth, kurtosis, None, numbers, points.grain, points.shared
    )


def _grouped(groups: Groups, values: Floats, size: int) -> Floats:
    """Return the sum of the values of each group's items."""
    return np.bincount(groups.codes, values[groups.items], size).astype(np.float64)


def _indicators(cells: Cells, groups: Groups, numbers: Floats) -> tuple[Floats, Floats]:
    """Return the squared norm of the sketch of each group's indicator, and the sum of its fourth powers.

    Those of hashed maps are exact; of dense ones they are the expected ones, of normal cells.
    """
    projection = cells.projection
    entries = projection.sparse_entries(groups.indices)
    if entries is None:
        return numbers, 3 * numbers**2 / projection.sketch_dim
    cell, entry = (part[groups.items].reshape(-1) for part in entries)
    rows = np.repeat(groups.codes, projection.nonzeros)
    sketches = sparse.csr_array((entry.astype(np.float64), (rows, cell)), (numbers.size, projection.sketch_dim))
    squares = float(projection.scale_squared) * sketches.power(2)  # of which entries of one place were added up before
    return squares.sum(axis=1), squares.power(2).sum(axis=1)
