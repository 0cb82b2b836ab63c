"""How often an item occurs, of one item or many: point queries of a release (Theory 4.5)."""

import dataclasses
import datetime as dt
import math
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args, overload

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.libraries import is_installed, pa
from streamsketch.core.numbers import Floats, Ints, short
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, check_comparable
from streamsketch.estimation.cell_law import CellLaw, normal_median_variance
from streamsketch.estimation.cells import Cells
from streamsketch.estimation.coarse_noise import NoiseReach, reach_of
from streamsketch.estimation.estimate import SECRET_METADATA, Estimate, SecretEstimate
from streamsketch.estimation.intervals import (
    ErrorModel,
    Interval,
    Intervals,
    Method,
    heavier,
    invert,
    miss_of,
    quantile,
)
from streamsketch.estimation.items import is_one, items_of, single_index
from streamsketch.estimation.noise_effect import OutputNoise

PointEstimator: TypeAlias = Literal["auto", "mean", "median"]
"""How the s cells of an item become one estimate."""

Key: TypeAlias = str | bytes | int | np.generic | dt.date
"""One key of an index; a `datetime` is a date, too."""

_TILE = 1 << 16  # items of a sparse map at a time
_TILE_CELLS = 1 << 17  # of columns of a dense map: integers and floats stay in the second cache
_MOST_NOISES = 8  # in a mean; those of more are fine and nearly normal
_LEAST_MEDIAN = 2  # cells, up to which the median is the mean
_LEAST_COLLISIONS = 0.9  # of 1/k: a map with fewer has cells that show little about another item's error


@dataclasses.dataclass(frozen=True, repr=False)
class _MedianEstimate(Estimate):
    """An estimate whose error has a known law, which its intervals use."""

    law: CellLaw | None = dataclasses.field(default=None, compare=False)

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Interval:
        """Return value ± the quantile of the law; by Chebyshev, as any estimate. See `Estimate.interval`."""
        if method == "normal" and self.law is not None:
            return self._within(self.law.reach(miss_of(confidence)))
        return super().interval(confidence, method)

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Interval:
        """Return value ± Bonferroni's quantile of the law; see `Estimate.selected_interval`."""
        if self.law is None:
            return super().selected_interval(candidates, confidence)
        return self._within(self.law.reach(miss_of(confidence, candidates)))

    def _within(self, width: float) -> Interval:
        return Interval(self.value - width, self.value + width)

    def scaled(self, factor: float) -> Self:
        """Return the estimate of ``factor`` times the quantity; see `Estimate.scaled`."""
        return dataclasses.replace(super().scaled(factor), law=None if self.law is None else self.law.scaled(factor))

    def as_secret(self) -> "_SecretMedianEstimate":
        """Return the estimate as a `SecretEstimate`."""
        return _SecretMedianEstimate(**vars(self))


@dataclasses.dataclass(frozen=True, repr=False)
class _SecretMedianEstimate(_MedianEstimate, SecretEstimate):
    """A median from a raw sketch."""


class SharedCells(NamedTuple):
    """The law of the mean of an item's cells without the item: each is a cell of the sketch with a random sign.

    Single intervals take it as normal. The farthest of many errors is not: it is that of an item beside the largest.
    """

    law: CellLaw
    """Of one cell, times its weight in the mean."""
    cells: int
    """The cells of an item."""

    def reach(self, numbers: Ints, miss: float) -> Floats:
        """Return how far sums over so many items are from theirs but with this probability."""
        return self.law.reach_of_sums(self.cells * numbers, miss)


class Points(NamedTuple):
    """Estimates of n items by one estimator, as float64 arrays, (n,), in data units; see `points_of`."""

    value: Floats
    projection_variance: Floats
    noise_variance: Floats
    slope: Floats
    curvature: float
    kurtosis: Floats
    law: CellLaw | None
    """The distribution of the median's error, the same for all items; None for the mean."""
    secret: bool = False
    """Whether the sketch is raw."""
    grain: NoiseReach | None = None
    """The noise in each estimate by the mean, if its law is known."""
    shared: SharedCells | None = None
    """What else is in the cells of an estimate by the mean, if these are few."""

    @property
    def standard_error(self) -> Floats:
        """Standard errors."""
        error: Floats = np.sqrt(self.projection_variance + self.noise_variance)
        return error

    def interval(self, confidence: float, candidates: int = 1) -> Intervals:
        """Return intervals that hold with this confidence for ``candidates`` items at once (Bonferroni)."""
        miss = miss_of(confidence, candidates)
        if self.law is not None:
            width = self.law.reach(miss)
            return Intervals(self.value - width, self.value + width)
        reach = heavier(quantile(miss, "normal"), self.kurtosis)
        curvature = np.full(self.value.shape, self.curvature)
        parts = (self.value, self.projection_variance, self.noise_variance, self.slope, curvature)
        stated = ErrorModel(*parts, -math.inf, math.inf, self.grain)
        low, high = stated.widened(invert(stated, reach), miss)
        if self.shared is not None and candidates > 1:
            least = self.shared.reach(np.ones(1, dtype=np.int64), miss)
            low, high = np.minimum(low, self.value - least), np.maximum(high, self.value + least)
        return Intervals(low, high)

    def only(self, place: int) -> Estimate:
        """Return the estimate at one place."""
        estimate = self._only(place)
        return estimate.as_secret() if self.secret else estimate

    def _only(self, place: int) -> Estimate:
        parts = (self.value, self.projection_variance, self.noise_variance)
        value, of_map, of_noise = (float(part[place]) for part in parts)
        if self.law is not None:
            return _MedianEstimate(value, of_map, of_noise, law=self.law)
        return Estimate(
            value,
            of_map,
            of_noise,
            slope=float(self.slope[place]),
            curvature=self.curvature,
            kurtosis=float(self.kurtosis[place]),
            grain=self.grain,
        )

    def table(
        self, items: "pa.Array", confidence: float, places: Ints | None = None, candidates: int = 1
    ) -> "pa.Table":
        """Return the estimates at ``places``, by default all, with items and intervals, as an Arrow table."""
        kept: Any = slice(None) if places is None else places
        low, high = self.interval(confidence, candidates)
        columns = {"estimate": self.value, "error": self.standard_error, "low": low, "high": high}
        shown = items if places is None else items.take(pa.array(places))
        table = pa.table({"item": shown, **{name: column[kept] for name, column in columns.items()}})
        return table.replace_schema_metadata(SECRET_METADATA) if self.secret else table


@overload
def frequency(
    release: AnySketch,
    item: Key | tuple[Key, ...],
    *,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> Estimate: ...
@overload
def frequency(
    release: AnySketch,
    item: object,
    *,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> "pa.Table": ...
def frequency(
    release: AnySketch,
    item: object,
    *,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> Any:
    """Estimate how often an item, or each of many items, occurs in a stream: entry x_j of its vector, in data units.

    It needs no privacy budget beyond that of the release. An item is added to s cells, each with a sign. Such a cell
    times its sign is x_j, plus the other items in the cell with random signs, plus noise.

    ``"mean"`` is the mean over these cells, which is the inner product with the exact sketch of the item alone. Its
    variance is that of `inner_product`: a‖x‖² + (b + c)x_j² + K2, and for a hashed map (‖x‖² - x_j²)/k + K2. On skewed
    streams, a few frequent items make up most of ‖x‖², but disturb only the items that share a cell with them.

    ``"median"`` is the median over these cells (Pagh and Thorup 2022), which such collisions rarely move. It is far
    better for skewed streams with s ≥ 3; for s ≤ 2 it equals the mean. The error of a cell has the distribution of any
    cell with a random sign, so the release itself shows the distribution of the median's error. Intervals are quantiles
    of it, and the standard error is the root of its variance.

    Both are unbiased. ``"auto"`` takes the one whose standard error, as estimated from the release, is smaller: the
    median if cells have heavy tails, and the mean if errors are nearly normal, as on even streams or under much noise.
    With s ≤ 2 the values are the same, and it takes the intervals of the median.

    If units were clipped (`bound`, `SketchL2`), it estimates the item's count after clipping. In simulations, intervals
    of the median covered as stated within two points, and 50 % intervals in up to 56 % of cases, because counts are
    whole steps. So did intervals of the mean for dense maps and, with s ≥ 2, for even streams. Other intervals of the
    mean assume normal errors, which they do not have: 50 % intervals covered in 46 to 97 % of cases, 90 % intervals in
    85 to 99 %, 95 % intervals in 90 to 99 %, and 99 % intervals in 96.5 % or more (Theory 4.5).

    Parameters
    ----------
    release
        A `PrivateSketch`, or your own `Sketch`. Estimates from a `Sketch` are as secret as it is: they are a
        `SecretEstimate`, or a table with ``streamsketch.secret`` = ``true`` in its schema metadata.
    item
        One item: an integer, text, bytes, date or time, or a tuple of these for an index of several columns. Many
        items: a list, array or Series of items, a tuple of such columns, or a table of any library. The table has a
        column for each part of the index, in order, or, with an agreement, the columns that its index names. Items are
        hashed as in updates.
    agreement
        The agreement that the stream followed; items are cast to its types. A `Sketch` holds its agreement, but a
        release only its fingerprint.
    estimator
        ``"mean"``, ``"median"`` or ``"auto"``.
    confidence
        For tables, the probability with which each interval contains the true value.

    Returns
    -------
    Estimate or pyarrow.Table
        For one item an `Estimate`. For many a table with one row per item, in the given order: ``item``, a struct if
        the index has several columns, and ``estimate``, ``error``, ``low`` and ``high``, float64, in data units.
        ``error`` is the standard error.

    Raises
    ------
    InvalidInputError
        If an item is out of range or of another type, the estimator is unknown, or the confidence is outside (0, 1);
        for a median if the map does not add each item to s cells with signs, or the noise was added before the map.
    IncompatibleAgreementsError
        If the stream followed another agreement, or its agreement is not passed.
    TypeError
        If ``release`` is not a sketch.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT
    >>> x = SJLT(sketch_dim=1280, sparsity=5, seed=7).sketch()
    >>> x.update(["tea", "jam"], [30, 4])
    >>> frequency(x, "tea").value
    30.0
    >>> frequency(x, pa.array(["jam", "tea", "salt"])).column("estimate").to_pylist()
    [4.0, 30.0, 0.0]
    """
    check_comparable([release])
    miss_of(confidence)  # checks it
    if not is_installed("pyarrow") and (index := single_index(item, release, agreement)) is not None:
        return points_of(release, index, estimator).only(0)
    items = items_of(item, release, agreement)
    points = points_of(release, items.indices, estimator)
    return points.only(0) if is_one(item) else points.table(items.column, confidence)


def check_point_estimator(estimator: str) -> None:
    """Raise `InvalidInputError` unless there is such an estimator of items."""
    if estimator not in get_args(PointEstimator):
        names = ", ".join(map(repr, get_args(PointEstimator)))
        raise InvalidInputError(f"estimator must be one of {names}, got {short(estimator)}")


def points_of(sketch: AnySketch, indices: Ints, estimator: PointEstimator = "auto") -> Points:
    """Estimate the entries of a sketch's vector at indices, int64, (n,). Raises the same errors as `frequency`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsketch import CountSketch
    >>> sketch = CountSketch(dim=1000, sketch_dim=64, seed=7).sketch()
    >>> sketch.update([3, 500], [40, 2])
    >>> points_of(sketch, np.array([3, 500])).value
    array([40.,  2.])
    """
    check_point_estimator(estimator)
    return points_from(Cells.of(sketch), indices, estimator)


def points_from(cells: Cells, indices: Ints, estimator: PointEstimator = "auto") -> Points:
    """Estimate the entries of the vector that has these cells; errors as `frequency`."""
    nonzeros = cells.projection.nonzeros
    why = _no_median(cells)
    if estimator == "median" and why:
        raise InvalidInputError(f"the median {why}: use estimator='mean'")
    law = None
    if not why and estimator != "mean":  # that of s cells with random signs
        law = CellLaw.of(cells.steps, nonzeros, abs(float(cells.weight * nonzeros)))
    if law is not None and estimator == "auto" and nonzeros > _LEAST_MEDIAN and law.variance > cells.mean_square:
        law = None
    value = _values(cells, indices, "mean" if law is None else "median")
    if law is None:
        return _mean_points(cells, value)
    of_noise = min(cells.k2 * nonzeros * normal_median_variance(nonzeros), law.variance)
    zeros, whole = np.zeros(value.shape), np.ones(value.shape)
    return Points(value, (law.variance - of_noise) * whole, of_noise * whole, zeros, 0.0, zeros, law, cells.secret)


def _no_median(cells: Cells) -> str | None:
    """Return why there is no median of an item's cells; None if there is."""
    projection = cells.projection
    if projection.sparse_entries(np.zeros(1, dtype=np.int64)) is None:
        return f"needs a map with few cells for each item, but this one has {projection.nonzeros:,}"
    if not isinstance(cells.effect, OutputNoise):
        return "needs noise after the map: noise before the map is the same in all cells of an item"
    if projection.variance.norms * projection.sketch_dim < _LEAST_COLLISIONS:
        return f"needs a map in which items share cells at random, as this one, of dim {projection.dim:,}, does not"
    return None


def _values(cells: Cells, indices: Ints, estimator: str) -> Floats:
    """Return the estimates of items, tile by tile, in data units.

    Sums of s cells stay below 2^63·2^24, far within floats.
    """
    projection, weight = cells.projection, cells.weight
    estimates = np.empty(indices.size)
    sparse = projection.sparse_entries(np.zeros(1, dtype=np.int64)) is not None
    tile = max(1, _TILE // projection.nonzeros * 4 if sparse else _TILE_CELLS // projection.sketch_dim)
    for start in range(0, indices.size, tile):
        part = indices[start : start + tile]
        entries = projection.sparse_entries(part) if sparse else None
        if entries is None:
            estimates[start : start + tile] = float(weight) * (
                cells.steps @ projection.columns(part).astype(np.float64)
            )
            continue
        signed = cells.steps[entries[0]] * entries[1]
        if estimator == "median" and projection.nonzeros > _LEAST_MEDIAN:
            estimates[start : start + tile] = float(weight * projection.nonzeros) * np.median(signed, axis=1)
        else:
            estimates[start : start + tile] = float(weight) * signed.sum(axis=1)
    return estimates


def _mean_points(cells: Cells, value: Floats) -> Points:
    """Return the mean of items with the variance of an inner product with a unit vector (Theory 4.5)."""
    variance, effect = cells.projection.variance, cells.effect
    norm = np.full(value.shape, cells.squared_norm)
    square = np.minimum(value**2, norm)
    ones, zeros = np.ones(value.shape), np.zeros(value.shape)
    of_map = np.maximum(variance.of_inner_product(norm, ones, np.sqrt(square), square), 0.0)
    of_noise = np.maximum(effect.inner_product_variance(norm, ones, cells.k2 * ones, zeros), 0.0)
    growth = variance.inner + variance.fourth
    kurtosis = zeros
    if isinstance(effect, OutputNoise):  # of s independent noises, of the whole error
        with np.errstate(divide="ignore", invalid="ignore"):
            shared = cells.k4 / cells.projection.nonzeros / (of_map + of_noise) ** 2
        kurtosis = np.where(of_map + of_noise > 0, shared, 0.0)
    grain = reach_of_items(cells)
    shared = None
    if not (grain is not None and grain.alone) and cells.projection.nonzeros <= _MOST_NOISES and _is_sparse(cells):
        shared = SharedCells(CellLaw.of(cells.steps, 1, abs(float(cells.weight))), cells.projection.nonzeros)
    return Points(value, of_map, of_noise, 2 * growth * value, growth, kurtosis, None, cells.secret, grain, shared)


def _is_sparse(cells: Cells) -> bool:
    return cells.projection.sparse_entries(np.zeros(1, dtype=np.int64)) is not None


def reach_of_items(cells: Cells) -> NoiseReach | None:
    """Return how far the noise moves an item's mean; None if its law is not known, or that of many cells."""
    projection = cells.projection
    plain = projection.variance.norms == 0 and projection.variance.inner == 0
    if (
        cells.noises is None
        or projection.nonzeros > _MOST_NOISES
        or not (plain or isinstance(cells.effect, OutputNoise))
    ):
        return None
    if not plain and not _is_sparse(cells):
        return None
    scale = float(projection.scale_squared) ** 0.5
    draws = projection.nonzeros
    return reach_of((term.scaled(scale)._replace(draws=term.draws * draws) for term in cells.noises), alone=plain)
