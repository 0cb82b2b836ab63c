"""Populations compared by features: how far apart, in which columns, and what each column holds (THEORY.md 10)."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import gammainccinv, ndtr

from streamsketch.agreement import Agreement, check_alike
from streamsketch.core import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, is_secret, mark_secret, pair_of
from streamsketch.estimation.estimate import SECRET_METADATA, Estimate, Estimates
from streamsketch.estimation.intervals import Interval, quantile
from streamsketch.estimation.means import few_units, mean_distances_between
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.features import JOINT, REST, Category, Embedding, Features, Number
from streamsketch.features import Block as FeatureBlock

_FARTHEST = 8.0  # standard errors, where a normal law has 1e-15 left
_PRIOR = 4  # waves, of which the parts of a squared distance are taken to vary as squares of normal numbers


def mmd(x: AnySketch, y: AnySketch, agreement: Agreement) -> Estimate:
    """Estimate the squared maximum mean discrepancy of two populations, from their sums of features.

    MMD² = ‖μ_x - μ_y‖² in the space of the agreement's kernel, μ the mean over units of what one contributes; 0 if and
    only if the populations are alike in all that the kernel sees (Gretton et al. 2012). It is `mean_distance`, whose
    expected value over the seeds of random features is MMD², with the error of these features besides: a kernel of w
    random frequencies errs by about MMD²·√(2/w). The interval allows for that, and at 95 % has no upper end but 4 with
    fewer than about 8 frequencies. In simulations 95 % intervals covered in 88 to 100 % from 8 frequencies on, and in
    85 to 100 % with 2 or 4 (THEORY.md 10.2).

    It is the discrepancy of the units that were counted. Two samples of one population do not have the discrepancy 0:
    test that by `test_same(x, y, by="mean", samples=True)`.

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
        0.
    IncompatibleAgreementsError
        If a sketch follows another agreement.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `mean_distance`.

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
    first, second = pair_of(x, y)
    whole = _averaged(first, second)
    size, relative = max(whole.value, 0.0), 0.0
    for block in features.blocks:
        part, spread = _part(features, block, first, second)
        # where nothing seems to differ, blocks count by their lengths
        share = min(max(part.value, 0.0) / size, 1.0) if size else (block.amplitude / (1 << 15)) ** 2
        relative += spread * share**2
    return mark_secret(_spread_out(whole, relative, highest=4.0), first)


def column_differences(x: AnySketch, y: AnySketch, agreement: Agreement, *, confidence: float = 0.95) -> pa.Table:
    """Estimate which columns make two populations differ: the discrepancy of each column's own features.

    Parameters
    ----------
    x, y, agreement
        As in `mmd`.
    confidence
        Probability in (0, 1) with which all intervals hold together (Bonferroni).

    Returns
    -------
    pyarrow.Table
        A row for each column, and for all numbers together where there are joint features, clearest first: by the
        estimate over its standard error. Columns: ``column``, ``estimate`` of MMD² of this column's kernel alone, from
        0 to 4, ``error``, ``low`` and ``high``, float64.

    Raises
    ------
    InvalidInputError, IncompatibleAgreementsError, TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `mmd`; and for a confidence outside (0, 1).

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
    quantile(confidence, "normal")
    first, second = pair_of(x, y)
    found: list[tuple[str, Estimate]] = []
    for block in features.blocks:
        if block.name != REST:
            whole = _spread_out(*_part(features, block, first, second))
            found.append((block.name, whole.scaled((1 << 30) / block.amplitude**2)))
    found.sort(key=lambda one: -_clearness(one[1]))
    ends = [_ends(one, features.block(name).cells, len(found), confidence) for name, one in found]
    table = pa.table(
        {
            "column": [name for name, _ in found],
            "estimate": [one.value for _, one in found],
            "error": [one.standard_error for _, one in found],
            "low": [low for low, _ in ends],
            "high": [min(high, 4.0) for _, high in ends],
        }
    )
    return table.replace_schema_metadata(SECRET_METADATA) if is_secret([x, y]) else table


def describe(
    release: AnySketch,
    agreement: Agreement,
    *,
    shares: Mapping[str, Iterable[str]] | None = None,
    confidence: float = 0.95,
) -> pa.Table:
    """Estimate what the columns of a population hold: means and standard deviations, and shares of categories.

    They are those of units with one row each: what a unit of several rows contributes is the mean direction of its
    features. Numbers beyond their range count as its ends.

    Parameters
    ----------
    release
        A sketch or a release of an agreement with `Features`, whose units were counted.
    agreement
        That agreement.
    shares
        Of hashed categories: column to the values whose share to estimate. Others in the same cell add to the error.
    confidence
        Probability in (0, 1) with which an interval holds what it estimates. In simulations 95 % ones covered in 94 %
        and more, but of standard deviations in 85 % where there are 3 standard errors of their number of people, in
        92 % where there are 5 (THEORY.md 10.3).

    Returns
    -------
    pyarrow.Table
        ``column``, ``measure``: ``"mean"`` and ``"standard deviation"`` of numbers among units that have one,
        ``"share of VALUE"`` for listed categories and those in ``shares``, ``"others"`` and ``"missing"``, as shares
        of all units; ``estimate``, ``error``, ``low``, ``high``, float64. NaN where there are too few units for
        their noise.

    Raises
    ------
    InvalidInputError
        As `mmd`; for ``shares`` of other columns than hashed categories, and a confidence outside (0, 1).
    IncompatibleAgreementsError, TypeError
        As `mmd`.

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
    reach = quantile(confidence, "normal")
    asked = {} if shares is None else dict(shares)
    hashed = {
        name for name, column in features.columns.items() if isinstance(column, Category) and column.values is None
    }
    if other := sorted(asked.keys() - hashed):
        raise InvalidInputError(
            f"shares are of hashed categories, which are {', '.join(sorted(hashed)) or 'none here'}, got {other[0]!r}"
        )
    check_comparable([release])
    population = _population(block_of([release]))
    rows: list[tuple[str, _Measure]] = []
    for block, column in zip(features.blocks, features.columns.values(), strict=False):
        if isinstance(column, Number):
            found = population.number(block, column)
        elif isinstance(column, Category):
            found = population.category(block, column, list(asked.get(block.name, ())), features)
        else:
            found = [population.share(block, column.cells - 1, "missing")]
        rows += [(block.name, one) for one in found]
    ends = [one.ends(reach) for _, one in rows]
    table = pa.table(
        {
            "column": [name for name, _ in rows],
            "measure": [one.name for _, one in rows],
            "estimate": pa.array([one.estimate for _, one in rows], pa.float64()),
            "error": pa.array([one.error for _, one in rows], pa.float64()),
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
        """Return the interval of so many standard errors."""
        if self.square is None:
            low, high = self.estimate - reach * self.error, self.estimate + reach * self.error
        else:
            value, error = self.square
            low, high = (math.sqrt(max(value + side * reach * error, 0.0)) for side in (-1, 1))
        low, high = (min(max(end, self.lowest), self.highest) for end in (low, high))
        return low, high


class _Population(NamedTuple):
    """Sums of features of a population, and the number of its units, with the variances of their noise."""

    cells: Floats
    """In lengths: (D,)."""
    k2: float
    units: float
    units_variance: float

    def share(self, block: FeatureBlock, place: int, name: str, sign: int = 1, mixed: float = 0.0) -> "_Measure":
        """Return the share of units in a cell of a block; ``mixed`` is the variance that other values add."""
        length = block.amplitude / (1 << 15)
        ratio = sign * float(self.cells[block.first + place]) / (length * self.units)
        variance = self._of_ratio(ratio, self.k2 / length**2, self.units, self.units_variance)
        return _Measure(name, ratio, math.sqrt(variance + mixed))

    def number(self, block: FeatureBlock, column: Number) -> list["_Measure"]:
        """Return mean and standard deviation of those that have a number, and the share of others.

        With u = T_1 on [-1, 1]: E u = m_1, and Var u = (1 + m_2)/2 - m_1², as T_2 = 2u² - 1.
        """
        length = block.amplitude / (1 << 15)
        missing = self.share(block, column.cells - 1, "missing")
        scale = math.isqrt(block.amplitude**2 // column.moments) / (1 << 15)
        held = self.units - float(self.cells[block.first + column.moments]) / length
        held_variance = self.units_variance + self.k2 / length**2
        half = (column.high - column.low) / 2
        names = ["mean", *(["standard deviation"] if column.moments > 1 else [])]
        if held <= 2 * math.sqrt(held_variance):
            return [*(_Measure(name, math.nan, math.nan, -math.inf, math.inf) for name in names), missing]
        cells = self.cells[block.first :] / scale
        of_cell = self.k2 / scale**2
        first = float(cells[0]) / held
        of_first = self._of_ratio(first, of_cell, held, held_variance)
        mean = _Measure("mean", column.low + half * (1 + first), half * math.sqrt(of_first), column.low, column.high)
        if column.moments == 1:
            return [mean, missing]
        second = float(cells[1]) / held
        # less what the error of the first adds to its square
        spread = (1 + second) / 2 - first**2 + of_first
        together = first * second * held_variance / held**2
        of_spread = self._of_ratio(second, of_cell, held, held_variance) / 4 + 4 * first**2 * of_first
        of_spread = max(of_spread - 2 * first * together, 0.0)
        root = math.sqrt(max(spread, 0.0))
        error = math.sqrt(of_spread) / (2 * root) if root > math.sqrt(math.sqrt(of_spread)) else of_spread**0.25
        square = half**2 * spread, half**2 * math.sqrt(of_spread)
        return [mean, _Measure("standard deviation", half * root, half * error, 0.0, half, square), missing]

    def category(self, block: FeatureBlock, column: Category, asked: list[str], features: Features) -> list["_Measure"]:
        """Return the share of each listed category, others and missing; of hashed ones, of those asked for."""
        missing = self.share(block, column.cells - 1, "missing")
        if column.values is not None:
            listed = [self.share(block, place, f"share of {value}") for place, value in enumerate(column.values)]
            return [missing, *listed, self.share(block, len(column.values), "others")]
        cells = self.cells[block.first : block.first + column.cells - 1] / (block.amplitude / (1 << 15))
        noise = self.k2 / (block.amplitude / (1 << 15)) ** 2
        squares = max(float(cells @ cells) - cells.size * noise, 0.0) / self.units**2
        found = [missing]
        for value in asked:
            place, sign = features.cell_of(block.name, value)
            share = self.share(block, place, f"share of {value}", sign)
            mixed = max(squares - share.estimate**2, 0.0) / cells.size
            found.append(self.share(block, place, f"share of {value}", sign, mixed))
        return found

    def _of_ratio(self, ratio: float, variance: float, below: float, below_variance: float) -> float:
        """Return the variance of a sum over a number, to first order."""
        return (variance + ratio**2 * below_variance) / below**2


def _population(block: Block) -> _Population:
    if few_units(block).any() or block.units is None:
        nothing = np.full(block.cells.shape[1], math.nan)
        return _Population(nothing, math.nan, math.nan, math.nan)
    number, variance = float(block.units.number[0]), float(block.units.variance[0])
    return _Population(block.values[0], float(block.k2[0]), number, variance)


def _features_of(sketches: Sequence[AnySketch], agreement: Agreement) -> Features:
    """Return the features of an agreement that these follow."""
    if not isinstance(agreement, Agreement):
        raise TypeError(f"agreement must be an Agreement, got a {type(agreement).__name__}")
    if agreement.features is None:
        raise InvalidInputError(
            "the agreement has no features, so its releases are of items: compare them by mean_distance and "
            "top_differences"
        )
    check_comparable(sketches)
    for sketch in sketches:
        check_alike(sketch.agreement, agreement)
    return agreement.features


def _only(block: Block, features: FeatureBlock) -> Block:
    """Return the cells of some features as a block of their own."""
    return block._replace(cells=block.cells[:, features.places], effect=OutputNoise(features.cells))


def _averaged(first: Block, second: Block) -> Estimate:
    """Estimate the squared distance of averages; raise as `mean_distance`."""
    found: Estimates = mean_distances_between(first, second, same=False)
    if np.isnan(found.value).any():
        raise InvalidInputError(
            "the average is undefined: the number of units in a sketch is within two standard errors of zero. Check "
            "release.units, and release more units together, with a larger epsilon"
        )
    return found[0, 0]


def _spread_out(estimate: Estimate, relative: float, highest: float = math.inf) -> Estimate:
    """Return an estimate with the variance that its random features add, as a share of its square."""
    size = max(estimate.value, 0.0)
    return dataclasses.replace(
        estimate, projection_variance=relative * size**2, lowest=0.0, highest=highest,
        slope=estimate.slope + 2 * relative * size, curvature=estimate.curvature + relative,
    )  # fmt: skip


def _part(features: Features, block: FeatureBlock, first: Block, second: Block) -> tuple[Estimate, float]:
    """Return the squared distance in a block, and the relative variance that random features add, over their seed.

    Frequencies are independent, so their parts vary as a sample of as many: what noise adds to that is taken off. Few
    say little of how they vary, so as many again count as those of a shift do. Hashed categories vary as under
    `CountSketch`.
    """
    whole = _averaged(_only(first, block), _only(second, block))
    column = features.columns.get(block.name)
    if isinstance(column, Category) and column.values is None:
        return whole, 2 / (block.cells - 1)
    waves = column.waves if isinstance(column, Embedding) else features.joint if block.name == JOINT else 0
    if not waves:
        return whole, 0.0
    parts = [
        _averaged(_only(first, pair), _only(second, pair))
        for pair in (block._replace(first=block.first + 2 * wave, cells=2) for wave in range(waves))
    ]
    values, noise = np.array([part.value for part in parts]), sum(part.noise_variance for part in parts)
    seen = max(float(((values - values.mean()) ** 2).sum()) * waves - (waves - 1) * noise, 0.0)
    squares = max(whole.value, 0.0) ** 2 + whole.noise_variance
    relative = ((seen / squares if squares else 0.0) + _PRIOR * 2 / waves) / (waves - 1 + _PRIOR)
    return whole, relative


def _ends(estimate: Estimate, cells: int, candidates: int, confidence: float) -> Interval:
    """Return a simultaneous interval of a squared distance of few cells.

    Noise alone makes it χ² of as many degrees of freedom, which reaches farther above 0 than a normal law.
    """
    low, high = estimate.selected_interval(candidates, confidence)
    tail = (1 - confidence) / (2 * candidates)
    reach = (2 * float(gammainccinv(cells / 2, tail)) - cells) / math.sqrt(2 * cells)
    return Interval(min(low, estimate.interval(1 - 2 * float(ndtr(-min(reach, _FARTHEST)))).low), high)


def _clearness(estimate: Estimate) -> float:
    return estimate.value / estimate.standard_error if estimate.standard_error else math.inf * estimate.value
