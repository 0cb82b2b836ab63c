"""Populations compared by features: how far apart, in which columns, and what each column holds (Theory 10)."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.same import check_alike
from streamsketch.core import special
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Floats
from streamsketch.core.wrong import AGREEMENT, wrong_type
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, is_secret, pair_of
from streamsketch.estimation.estimate import SECRET_METADATA, Estimate
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.intervals import ErrorModel, Intervals, invert, invert_selected, miss_of, quantile
from streamsketch.estimation.means import averages_of, check_defined, few_units, mean_distances_in, mean_norms_of
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.features.columns import Category, Number
from streamsketch.features.features import REST, Features
from streamsketch.features.features import Block as FeatureBlock
from streamsketch.release.private_sketch import PrivateSketch

_FEWER = 3.0  # standard errors, by which numbers of units and norms may be smaller than estimated
_ROUNDING = 1 / 12  # of a grid step², the variance of features' rounding, which all rows may share
_OF_AVERAGES = 1 / 4  # of a grid step², its square at most where the rows of each unit are averaged
_DOUBT = 1e-3  # probability with which people of one row each may look as if they had several
_PRIOR = 8  # waves, of which the parts of a squared distance are taken to vary as squares of normal numbers


def mmd(x: AnySketch, y: AnySketch, agreement: Agreement) -> Estimate:
    """Estimate the squared maximum mean discrepancy of two populations, from their sums of features.

    MMD² = ‖μ_x - μ_y‖² in the space of the agreement's kernel, μ the mean over units of what one contributes; 0 if and
    only if the populations are alike in all that the kernel sees (Gretton et al. 2012). It is `mean_distance`, whose
    expected value over the seeds of random features is MMD², with the error of these features besides: a kernel of w
    random frequencies errs by about MMD²·√(2/w). The interval allows for that, and at 95 % has no upper end but 4 with
    fewer than about 8 frequencies. In simulations 95 % intervals covered in 93 to 100 % from 8 frequencies on, and in
    91 to 100 % with 2 or 4 (Theory 10.2).

    It is the discrepancy of the units that were counted. Each counts as one row, the average of its own, by
    ``clip="average"``. By other ways to clip it contributes the direction of this average. The discrepancy is then one
    of people only if each has one row, so it is refused where a release shows units of several rows. Two samples of one
    population do not have the discrepancy 0: test that by `sameness(x, y, by="mean", samples=True)`.

    Parameters
    ----------
    x, y
        Sketches or releases of one agreement with `Features`, with independent noise, whose units were counted.
    agreement
        That agreement.

    Returns
    -------
    Estimate
        From 0 to 4, in squared lengths: a row has length 1. The part of random features is in ``projection_variance``.

    Raises
    ------
    InvalidInputError
        For an agreement without features; if units were not counted, or their number is within two standard errors of
        0; for units of several rows that were not averaged.
    IncompatibleAgreementsError
        If a sketch follows another agreement.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `mean_distance`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import agree, bound
    >>> from streamsketch.features import Category, Features
    >>> features = Features({"ward": Category(["A", "B"])}, seed=7)
    >>> rows = pa.table({"patient": ["p1", "p2", "p3", "p4"], "ward": ["A", "A", "B", "B"]})
    >>> agreement = agree(rows, features=features, unit="patient")
    >>> round(mmd(bound(rows, agreement), bound(rows.slice(1), agreement), agreement).value, 3)  # ½ and ⅓ in A
    0.056
    """
    features = _features_of([x, y], agreement)
    _check_people([x, y], agreement)
    parts, relative = _parts(features, x, y)
    whole, own = parts[0], np.maximum(parts.value[1 : relative.size + 1], 0.0)
    size = max(whole.value, 0.0)
    # where nothing seems to differ, blocks count by their lengths
    shares = np.minimum(own / size, 1.0) if size else _lengths(features) ** 2
    added = float(relative @ shares**2)
    return dataclasses.replace(
        whole, projection_variance=added * size**2, lowest=0.0, highest=4.0, error_law="cosine",
        slope=whole.slope + 2 * added * size, curvature=whole.curvature + added,
    )  # fmt: skip


def column_differences(
    x: AnySketch, y: AnySketch, agreement: Agreement, *, confidence: float = 0.95, samples: bool = False
) -> "pa.Table":
    """Estimate which columns make two populations differ: the discrepancy of each column's own features.

    The intervals are for the units that were counted. Two samples of one population differ a little in every column, so
    with enough units all intervals leave out 0. With ``samples=True`` the intervals are for the populations from which
    the units are samples. They are wider by a bound on the distance between the averages of samples and populations,
    for independent units with one row each, whatever their populations (Theory 10.2).

    Parameters
    ----------
    x, y, agreement
        As in `mmd`.
    confidence
        Probability in (0, 1) with which all intervals hold together (Bonferroni).
    samples
        Whether intervals are of the populations, not of the units that were counted.

    Returns
    -------
    pyarrow.Table
        A row for each column with features of its own, and for all numbers together where there are joint features,
        clearest first: by the estimate over its standard error. Columns: ``column``, ``estimate`` of MMD² of this
        column's kernel alone, from 0 to 4, ``error``, ``low`` and ``high``, float64.

    Raises
    ------
    InvalidInputError, IncompatibleAgreementsError, TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `mmd`; and for a confidence outside (0, 1).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import agree, bound
    >>> from streamsketch.features import Category, Features
    >>> features = Features({"ward": Category(["A", "B"]), "sex": Category(["f", "m"])}, seed=7)
    >>> rows = pa.table({"patient": ["p1", "p2"], "ward": ["A", "B"], "sex": ["f", "f"]})
    >>> agreement = agree(rows, features=features, unit="patient")
    >>> x, y = bound(rows, agreement), bound(rows.slice(1), agreement)
    >>> column_differences(x, y, agreement).select(["column", "estimate"]).to_pylist()[0]
    {'column': 'ward', 'estimate': 0.5}
    """
    features = _features_of([x, y], agreement)
    miss = miss_of(confidence) / (2 if samples else 1)
    _check_people([x, y], agreement)
    parts, relative = _parts(features, x, y)
    blocks = [block for block in features.blocks if block.name != REST]
    scale = 1 / _lengths(features)[: len(blocks)] ** 2
    value, _, noise, slope, curvature = (part[1 : len(blocks) + 1] for part in parts.parts()[:5])
    size, relative = np.maximum(value, 0.0), relative[: len(blocks)]
    added = relative * size**2
    stated = ErrorModel(
        *(value * scale, added * scale**2, noise * scale**2, (slope + 2 * relative * size) * scale),
        *(curvature + relative, 0.0, math.inf),
    )
    cells = np.array([block.cells for block in blocks])
    low, high = _ends(stated, cells, miss)
    if samples:
        reach = _sampled_reach(blocks, x, y, miss / cells.size)
        low = np.maximum(np.sqrt(np.maximum(low, 0.0)) - reach, 0.0) ** 2
        high = (np.sqrt(np.maximum(high, 0.0)) + reach) ** 2
    error = np.sqrt(stated.projection_variance + stated.noise_variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        clearness = np.where(error > 0, stated.value / error, np.where(value > 0, np.inf, -np.inf))
    order = np.argsort(-clearness, kind="stable")
    columns = {"estimate": stated.value, "error": error, "low": low, "high": np.minimum(high, 4.0)}
    table = pa.table(
        {"column": [blocks[place].name for place in order], **{name: values[order] for name, values in columns.items()}}
    )
    return table.replace_schema_metadata(SECRET_METADATA) if parts.secret else table


def describe(
    release: AnySketch,
    agreement: Agreement,
    *,
    shares: Mapping[str, Iterable[str]] | None = None,
    confidence: float = 0.95,
) -> "pa.Table":
    """Estimate what the columns of a population hold: means and standard deviations, and shares of categories.

    Each unit counts the same, however many rows it has: means and shares are averages over units of the average of a
    unit's rows, and standard deviations are of a row that is drawn from a unit that is drawn. That is so by
    ``clip="average"``, which `agree` chooses for features.

    By other ways to clip, and in data of older agreements, a unit of several rows contributes the direction of its mean
    features, which is longer than that mean where rows differ. Means are then farther from the middle of their range,
    shares larger, and standard deviations too small. So all are NaN where the release shows units of several rows. A
    listed category shows them, even one that is the same in all rows. Without a listed category, only variances below 0
    show them, and estimates may be wrong. Numbers beyond their range count as its ends.

    Parameters
    ----------
    release
        A sketch or a release of an agreement with `Features`, whose units were counted.
    agreement
        That agreement.
    shares
        For hashed categories, a mapping from columns to the values whose share to estimate. Others in the
        same cell add to the error.
    confidence
        Probability in (0, 1) with which an interval holds what it estimates. In simulations 95 % ones covered in 94 %
        and more, but of standard deviations in 85 % where there are 3 standard errors of the number of people
        (Theory 10.3).

    Returns
    -------
    pyarrow.Table
        ``column``, ``measure``: ``"mean"`` and ``"standard deviation"`` of numbers among units that have one,
        ``"share of VALUE"`` for listed categories and those in ``shares``, ``"others"`` and ``"missing"``, as shares
        of all units; ``estimate``, ``error``, ``low``, ``high``, float64. NaN where there are too few units for
        their noise, and where the release shows units of several rows that were not averaged. Errors of numbers include
        the grid of features, about 10⁻⁵ of the range.

    Raises
    ------
    InvalidInputError
        As in `mmd`; for ``shares`` of other columns than hashed categories, and a confidence outside (0, 1).
    IncompatibleAgreementsError, TypeError
        As in `mmd`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import agree, bound
    >>> from streamsketch.features import Category, Features, Number
    >>> features = Features({"age": Number(0, 110), "ward": Category(["A", "B"])}, seed=7)
    >>> rows = pa.table({"patient": ["p1", "p2"], "age": [40, 60], "ward": ["A", None]})
    >>> agreement = agree(rows, features=features, unit="patient")
    >>> table = describe(bound(rows, agreement), agreement)
    >>> dict(zip(table["measure"].to_pylist(), table["estimate"].to_numpy().round(2).tolist()))
    {'mean': 50.0, 'standard deviation': 10.0, 'missing': 0.5, 'share of A': 0.5, 'share of B': 0.0, 'others': 0.0}
    """
    features = _features_of([release], agreement)
    reach = quantile(miss_of(confidence), "normal")
    asked = {} if shares is None else dict(shares)
    hashed = {
        name for name, column in features.columns.items() if isinstance(column, Category) and column.values is None
    }
    if other := sorted(asked.keys() - hashed):
        raise InvalidInputError(
            f"shares must be for hashed categories, which are {', '.join(sorted(hashed)) or 'none here'}, got "
            f"{other[0]!r}"
        )
    check_comparable([release])
    averaged = rows_are_averaged(release, agreement)
    population = _population(block_of([release]), features, averaged=averaged)
    if not averaged and population.several_rows(features):
        population = _nothing(features)
    rows: list[tuple[str, _Measure]] = []
    for block in features.blocks:
        column = features.columns.get(block.name)
        if column is None:
            continue
        if isinstance(column, Number):
            measures = population.number(block, column)
        elif isinstance(column, Category):
            measures = population.category(block, column, list(asked.get(block.name, ())), features)
        else:
            measures = [population.share(block, column.cells - 1, "missing")]
        rows += [(block.name, measure) for measure in measures]
    ends = [measure.ends(reach) for _, measure in rows]
    table = pa.table(
        {
            "column": pa.array([name for name, _ in rows], pa.string()),
            "measure": pa.array([measure.name for _, measure in rows], pa.string()),
            "estimate": pa.array([measure.estimate for _, measure in rows], pa.float64()),
            "error": pa.array([measure.error for _, measure in rows], pa.float64()),
            "low": pa.array([low for low, _ in ends], pa.float64()),
            "high": pa.array([high for _, high in ends], pa.float64()),
        }
    )
    return table.replace_schema_metadata(SECRET_METADATA) if is_secret([release]) else table


class _Measure(NamedTuple):
    """One estimate of a population."""

    name: str
    estimate: float
    error: float
    lowest: float = 0.0
    highest: float = 1.0
    square: tuple[float, float] | None = None
    """Of a root: the estimate of its square, whose errors are nearer to normal, and its standard error."""

    def ends(self, reach: float) -> tuple[float, float]:
        """Return the interval of so many standard errors; an estimate beyond the range has that of the range's end."""
        if self.square is None:
            value = min(max(self.estimate, self.lowest), self.highest)
            low, high = value - reach * self.error, value + reach * self.error
        else:
            square, error = self.square
            value = min(max(square, 0.0), self.highest**2)
            low, high = (math.sqrt(max(value + side * reach * error, 0.0)) for side in (-1, 1))
        low, high = (min(max(end, self.lowest), self.highest) for end in (low, high))
        return low, high


class _Moments(NamedTuple):
    """Mean and variance of a number on a range scaled to [-1, 1], and the squares of their errors; NaN if unknown."""

    first: float
    of_first: float
    spread: float
    of_spread: float


class _Population(NamedTuple):
    """Sums of features of a population, and the number of its units, with the variances of their noise."""

    cells: Floats
    """In lengths: (D,)."""
    k2: float
    units: float
    units_variance: float
    stretch: float
    """By how much a row may count longer than its features, relative to them: it is lengthened to 1."""
    rounding: float = 0.0
    """The variance, in grid steps², of what averaging adds to a cell of each unit."""

    def share(self, block: FeatureBlock, place: int, name: str, sign: int = 1, mixed: float = 0.0) -> "_Measure":
        """Return the share of units in a cell of a block; ``mixed`` is the variance that other values add."""
        length = block.amplitude / (1 << 15)
        ratio = sign * float(self.cells[block.first + place]) / (length * self.units)
        variance = self._of_ratio(ratio, self.k2 / length**2, self.units, self.units_variance)
        return _Measure(name, ratio, math.sqrt(variance + mixed + self.rounding / block.amplitude**2))

    def number(self, block: FeatureBlock, column: Number) -> list["_Measure"]:
        """Return mean and standard deviation of those that have a number, and the share of others."""
        missing = self.share(block, column.cells - 1, "missing")
        half, moments = (column.high - column.low) / 2, self.moments(block, column)
        middle, error = column.low + half * (1 + moments.first), half * math.sqrt(moments.of_first)
        mean = _Measure("mean", middle, error, column.low, column.high)
        if column.moments == 1:
            return [mean, missing]
        if math.isnan(moments.spread):
            return [mean, _Measure("standard deviation", math.nan, math.nan, 0.0, half), missing]
        root, of_root = math.sqrt(max(moments.spread, 0.0)), math.sqrt(moments.of_spread)
        error = of_root / (2 * root) if root > math.sqrt(of_root) else math.sqrt(of_root)
        square = half**2 * moments.spread, half**2 * of_root
        return [mean, _Measure("standard deviation", half * root, half * error, 0.0, half, square), missing]

    def moments(self, block: FeatureBlock, column: Number) -> "_Moments":
        """Return the mean and the variance of those that have a number, on a range scaled to [-1, 1].

        With u = T_1: E u = m_1, and Var u = (1 + m_2)/2 - m_1², as T_2 = 2u² - 1.
        """
        length = block.amplitude / (1 << 15)
        steps = math.isqrt(block.amplitude**2 // column.moments)
        held = self.units - float(self.cells[block.first + column.moments]) / length
        held_variance = self.units_variance + self.k2 / length**2
        if not held > 2 * math.sqrt(held_variance):
            return _Moments(math.nan, math.nan, math.nan, math.nan)
        scale, rounding = steps / (1 << 15), (_ROUNDING + self.rounding) / steps**2
        first = float(self.cells[block.first]) / (scale * held)
        of_first = self._of_ratio(first, self.k2 / scale**2, held, held_variance)
        if column.moments == 1:
            return _Moments(first, of_first + rounding, math.nan, math.nan)
        second = float(self.cells[block.first + 1]) / (scale * held)
        # less what the error of the first adds to its square
        spread = (1 + second) / 2 - first**2 + of_first
        together = first * second * held_variance / held**2
        of_second = self._of_ratio(second, self.k2 / scale**2, held, held_variance)
        of_spread = (of_second + rounding) / 4 + 4 * first**2 * (of_first + rounding) - 2 * first * together
        return _Moments(first, of_first + rounding, spread, max(of_spread, 0.0))

    def several_rows(self, features: Features) -> bool:
        """Return whether the sums cannot be those of units with one row each, but for an error of `_DOUBT`.

        One row is A long in a listed category's block of this length, and variances are not below 0. The direction of
        several rows is the mean of these, lengthened to 1.
        """
        excesses = []
        for block, column in zip(features.blocks, features.columns.values(), strict=False):
            if isinstance(column, Number) and column.moments > 1:
                moments = self.moments(block, column)
                excesses.append((-moments.spread, moments.of_spread))
            elif isinstance(column, Category) and column.values is not None:
                length = block.amplitude / (1 << 15)
                ratio = float(self.cells[block.places].sum()) / (length * self.units)
                variance = self._of_ratio(ratio, block.cells * self.k2 / length**2, self.units, self.units_variance)
                excesses.append((ratio - 1, variance))
        reach = -float(special.ndtri(_DOUBT / max(len(excesses), 1)))
        return any(excess > reach * math.sqrt(variance) for excess, variance in excesses)

    def category(self, block: FeatureBlock, column: Category, asked: list[str], features: Features) -> list["_Measure"]:
        """Return the share of each listed category, others and missing; of hashed ones, of those asked for."""
        missing = self.share(block, column.cells - 1, "missing")
        if column.values is not None:
            listed = [self.share(block, place, f"share of {value}") for place, value in enumerate(column.values)]
            return [missing, *listed, self.share(block, len(column.values), "others")]
        cells = self.cells[block.first : block.first + column.cells - 1] / (block.amplitude / (1 << 15))
        noise = self.k2 / (block.amplitude / (1 << 15)) ** 2
        squares = max(float(cells @ cells) - cells.size * noise, 0.0) / self.units**2
        shares = [missing]
        for value in asked:
            place, sign = features.cell_of(block.name, value)
            share = self.share(block, place, f"share of {value}", sign)
            mixed = max(squares - share.estimate**2, 0.0) / cells.size
            shares.append(self.share(block, place, f"share of {value}", sign, mixed))
        return shares

    def _of_ratio(self, ratio: float, variance: float, below: float, below_variance: float) -> float:
        """Return the variance of a sum over a number, to first order."""
        return (variance + ratio**2 * below_variance) / below**2 + (ratio * self.stretch) ** 2


def _nothing(features: Features) -> _Population:
    """Return a population of which nothing is known."""
    return _Population(np.full(features.dim, math.nan), math.nan, math.nan, math.nan, math.nan)


def _population(block: Block, features: Features, *, averaged: bool) -> _Population:
    if few_units(block).any() or block.units is None:
        return _nothing(features)
    number, variance = float(block.units.number[0]), float(block.units.variance[0])
    rounding = _OF_AVERAGES if averaged else 0.0
    return _Population(block.values[0], float(block.k2[0]), number, variance, _stretch(features), rounding)


def rows_are_averaged(sketch: AnySketch, agreement: Agreement) -> bool:
    """Return whether the rows of each unit in a sketch of this agreement were averaged, so that it counts as one row.

    Units are counted only where they were clipped, in the agreed way if there is one.
    """
    clip = sketch.clip if isinstance(sketch, PrivateSketch) else sketch.bounds.clip
    return "average" in (agreement.clip, clip)


def has_people(sketch: AnySketch, agreement: Agreement) -> bool:
    """Return whether nothing in a sketch of features shows units of several rows that were not averaged.

    Where something does, averages and distances in it are not those of people.
    """
    features = _features_of([sketch], agreement)
    if rows_are_averaged(sketch, agreement):
        return True
    return not _population(block_of([sketch]), features, averaged=False).several_rows(features)


def _check_people(sketches: Sequence[AnySketch], agreement: Agreement) -> None:
    if not all(has_people(sketch, agreement) for sketch in sketches):
        raise InvalidInputError(
            "some units have several rows, and contribute the direction of their mean features, so that averages and "
            "discrepancies are not those of people. Agree again (streamsketch.agree with features has clip='average'), "
            "or compare what units contribute, by mean_distance"
        )


def _features_of(sketches: Sequence[AnySketch], agreement: Agreement) -> Features:
    """Return the features of an agreement that these follow."""
    if not isinstance(agreement, Agreement):
        raise wrong_type("agreement must be an Agreement", agreement, AGREEMENT)
    if agreement.features is None:
        raise InvalidInputError(
            "the agreement has no features, so its releases are of items: compare them by mean_distance and "
            "top_differences"
        )
    check_comparable(sketches)
    for sketch in sketches:
        check_alike(sketch.agreement, agreement)
    return cast("Features", agreement.features)


def _lengths(features: Features) -> Floats:
    """Return the length of each block in a row: (b,)."""
    return np.array([block.amplitude for block in features.blocks]) / (1 << 15)


def _stretch(features: Features) -> float:
    """Return by how much a row may be longer in a sum than its features are, relative to them."""
    squares = 0
    for block in features.blocks:
        waves = features.waves_of(block)
        own = waves * math.isqrt(block.amplitude**2 // waves) ** 2 if waves else block.amplitude**2
        squares += own if block.name != REST else 0
    return (1 << 15) / math.sqrt(squares) - 1 + 1 / (1 << 15)


def _parts(features: Features, x: AnySketch, y: AnySketch) -> tuple[Estimates, Floats]:
    """Estimate the squared distance of averages: of all cells, of each of b blocks, and of each frequency in these.

    Also return the relative variance of each block, (b,), that random features add, over their seed. Frequencies are
    independent, so their parts vary as a sample of as many: what noise adds to that is taken off. Few say little of how
    they vary, and a low estimate comes with a small spread, so eight more count as those of a shift do. Hashed
    categories vary as under `CountSketch`. Rows may be lengthened a little to 1.
    """
    first, second = pair_of(x, y)
    waves = [features.waves_of(block) for block in features.blocks]
    places = [slice(0, features.dim), *(block.places for block in features.blocks)]
    for block, number in zip(features.blocks, waves, strict=True):
        places += [slice(block.first + 2 * wave, block.first + 2 * wave + 2) for wave in range(number)]
    estimates = mean_distances_in(first, second, places)
    check_defined(~np.isnan(estimates.value))
    after, relative = len(waves) + 1, np.zeros(len(waves))
    for place, (block, number) in enumerate(zip(features.blocks, waves, strict=True)):
        column = features.columns.get(block.name)
        if number:
            own = slice(after, after + number)
            values, noise = estimates.value[own], float(estimates.noise_variance[own].sum())
            after += number
            seen = max(float(((values - values.mean()) ** 2).sum()) * number - (number - 1) * noise, 0.0)
            squares = max(estimates.value[place + 1], 0.0) ** 2 + estimates.noise_variance[place + 1]
            relative[place] = ((seen / squares if squares else 0.0) + _PRIOR * 2 / number) / (number - 1 + _PRIOR)
        elif isinstance(column, Category) and column.values is None:
            relative[place] = 2 / (block.cells - 1)
    return estimates, relative + (2 * _stretch(features)) ** 2


def _sampled_reach(blocks: Sequence[FeatureBlock], x: AnySketch, y: AnySketch, tail: float) -> Floats:
    """Return how far the averages of two samples are from those of their populations in b blocks, but for a tail: (b,).

    In lengths of a block, of which a unit with one row has at most 1. So the squared distance is at most
    (1 - ‖x̄‖²)/n_x + (1 - ‖ȳ‖²)/n_y on average, and of all quadratic forms of normal numbers that of a single one has
    the longest tail (Székely and Bakirov 2003).
    """
    expected = np.zeros(len(blocks))
    for side in pair_of(x, y):
        averages = averages_of(side)
        fewest = max(float(averages.numbers[0] * (1 - _FEWER * math.sqrt(averages.spread[0]))), 1.0)
        for place, block in enumerate(blocks):
            own = side._replace(cells=side.cells[:, block.places], effect=OutputNoise(block.cells))
            norm = mean_norms_of(own)[0].scaled((1 << 30) / block.amplitude**2)
            least = norm.value - _FEWER * norm.standard_error
            expected[place] += (1 - min(max(least, 0.0), 1.0)) / fewest
    return -float(special.ndtri(tail / 2)) * np.sqrt(expected)


def _ends(stated: ErrorModel, cells: Floats, miss: float) -> Intervals:
    """Return intervals of squared distances of few cells each, of which any misses with this probability.

    Noise alone makes them χ² of as many degrees of freedom, which reaches farther above 0 than a normal law.
    """
    each = miss / cells.size
    reach = (2 * special.gammainccinv(cells / 2, each / 2) - cells) / np.sqrt(2 * cells)
    low, high = invert_selected(stated, cells.size, each)
    return Intervals(np.minimum(low, invert(stated, reach).low), high)
