"""Ways to protect units, with the errors that they leave: what a unit may add, how it is clipped, the noise, the map.

An error has three parts: of the map, of the noise (Theory 4), and the bias by which the answer from clipped units
differs from that of all that they add.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.agreement.grids import fine_enough
from streamsketch.core.numbers import Floats
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.planning.facts import Goal
from streamsketch.planning.mapped import MappedOption
from streamsketch.planning.noise_floor import NoiseFloor, chances_below
from streamsketch.planning.unit_facts import UnitFacts, UnitSums
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.calibration import candidates
from streamsketch.privacy.l1 import L1
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.sketch_l2 import SketchL2
from streamsketch.projections.base import Projection
from streamsketch.projections.identity import Identity
from streamsketch.projections.sjlt import SJLT, CountSketch

Question: TypeAlias = Literal["cosine", "distance", "mean", "point"]
QUESTIONS: tuple[Question, ...] = get_args(Question)

_LEAST_CELLS = 16
_SPARSITY = 4  # beside 1: errors of sums of many units hardly depend on it
_STEPS = 1 << 12  # of an L1 bound: entries are scaled to whole steps
_TENTHS, _FEWER = (10, 15, 20, 30, 40, 50, 60, 80), (10, 20, 30, 50)  # of a power of ten, for SketchL2 and for L1
_MOST_BOUNDS = 64
_ROUNDING = Fraction(1, 10**9)  # of a size that is a float
_TINY = 1e-300  # instead of 0, to divide by


@dataclasses.dataclass(frozen=True)
class UnitOption(MappedOption):
    """A way to protect units, and the predicted error of an answer.

    Parameters
    ----------
    projection
        The map, with seed 0, on a grid that is fine enough for clipped units.
    neighbours, clip
        What one unit may add, and how it is clipped to that.
    layout
        What is published of a key, with or without the number of units.
    mechanism, noise
        The name of a noise, and its calibrated distribution.
    map_error, noise_error
        The map's and the noise's parts of the standard error, as root mean squares over the pairs of keys. For a cosine
        they are absolute, for a distance relative to it, and for a point in data units.
    bias
        The root mean square bias due to clipping, in the same units.
    """

    neighbours: Neighbours
    clip: Clip
    layout: Layout
    mechanism: str
    noise: Noise
    map_error: float
    noise_error: float
    bias: float

    @property
    def error(self) -> float:
        """The root mean square error of the three parts together."""
        return math.sqrt(self.map_error**2 + self.noise_error**2 + self.bias**2)

    @property
    def bound(self) -> Fraction:
        """The bound, in data units."""
        return Fraction(self.neighbours.bound)


@dataclasses.dataclass(frozen=True)
class UnitGoal:
    """What is asked of units, and the limits on the answer.

    Parameters
    ----------
    question
        One of `QUESTIONS`.
    units
        How many units each key has.
    unit
        What one unit is called.
    counted
        Whether the number of units is also published.
    limits
        The most cells and nonzeros.
    dim
        Number of possible indices.
    max_keys
        In how many keys a unit may be; by default as many as the sizes say.
    """

    question: Question
    units: tuple[float, ...]
    unit: str
    counted: bool
    limits: Goal
    dim: int = HASHED_DIM
    max_keys: int | None = None


def unit_options(
    facts: UnitFacts, goal: UnitGoal, budget: Budget, bounds: Iterable[Fraction] | None = None
) -> list[UnitOption]:
    """Return every option within the goal's limits.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    stated = None if bounds is None else sorted(set(bounds))
    everything = np.ones_like(facts.sizes.pieces)
    exact = facts.sums(goal.units, everything, everything)
    options: list[UnitOption] = []
    refusal: InvalidInputError | None = None
    for neighbours, clip in _ways(facts, goal, stated):
        left = facts.sums(goal.units, *clipped(facts, neighbours, clip))
        kinds: list[Kind] = []
        for projection in projections_within(goal.limits, goal.dim):
            try:
                kinds += kinds_of(projection, neighbours, budget, counted=goal.counted)
            except InvalidInputError as error:  # noise too wide to sample; that of another may not be
                refusal = refusal or error
        options += options_of(kinds, neighbours, clip, goal.question, (exact, left))
    if not options:
        raise refusal or InvalidInputError(
            f"no sketch has at most {goal.limits.max_cells} cells; raise max_cells to {_LEAST_CELLS} or more"
        )
    return options


def clipped(facts: UnitFacts, neighbours: Neighbours, clip: Clip) -> tuple[Floats, Floats]:
    """Return the factor by which clipping multiplies a unit's values, and the probability that a unit keeps a key.

    An entry for each of the sizes. A sketch's norm is taken to be that of its vector, which it is on average.
    """
    sizes, bound = facts.sizes, float(neighbours.bound)
    kept = np.minimum(1.0, neighbours.max_keys / sizes.keys)
    if neighbours.norm == "l1":
        return np.minimum(1.0, bound / sizes.pieces), kept
    weights = bound / np.sqrt(sizes.whole_squares * kept)
    return (weights if clip == "equal" else np.minimum(1.0, weights)), kept


def _ways(facts: UnitFacts, goal: UnitGoal, bounds: list[Fraction] | None) -> Iterator[tuple[Neighbours, Clip]]:
    """Yield each bound with a way to clip to it."""
    sizes = facts.sizes
    most = goal.max_keys or int(sizes.keys.max())
    for keys in sorted({1, min(int(np.median(sizes.keys)), most), most}):
        for bound in _bounds(sizes.pieces, _FEWER) if bounds is None else bounds:
            yield L1(bound, goal.unit, keys), "scale"
    lengths = np.sqrt(sizes.whole_squares)
    for bound in _bounds(lengths) if bounds is None else bounds:
        yield SketchL2(bound, goal.unit, most), "scale"
    for bound in [Fraction(1)] if goal.question == "cosine" else _bounds(lengths) if bounds is None else bounds:
        yield SketchL2(bound, goal.unit, most), "equal"


def _bounds(sizes: Floats, series: tuple[int, ...] = _TENTHS) -> list[Fraction]:
    """Return 1, 1.5, 2, 3, … from below the least of sizes to above the largest; or the size, if there is but one."""
    least, most = float(sizes.min()), float(sizes.max())
    if most <= least * (1 + 1e-9):
        step = Fraction(10) ** (math.floor(math.log10(most)) - 2)
        return [math.ceil(Fraction(most) * (1 - _ROUNDING) / step) * step]
    decades = range(math.floor(math.log10(least)), math.floor(math.log10(most)) + 2)
    bounds = [Fraction(tenths, 10) * Fraction(10) ** decade for decade in decades for tenths in series]
    first = next(place for place, bound in enumerate(bounds) if bound > least)
    last = next(place for place, bound in enumerate(bounds) if bound >= most)
    return bounds[max(first - 1, 0) : last + 1][-_MOST_BOUNDS:]


def projections_within(limits: Goal, dim: int) -> Iterator[Projection]:
    """Yield the maps that are compared, of an unknown seed: the raw histogram if it is small enough, and sketches."""
    if dim <= limits.max_cells:
        yield Identity(dim=dim)
    cells = _LEAST_CELLS
    while cells <= limits.max_cells and cells < dim:
        yield CountSketch(dim=dim, sketch_dim=cells, seed=0)
        if limits.max_nonzeros >= _SPARSITY:
            yield SJLT(dim=dim, sketch_dim=cells, sparsity=_SPARSITY, seed=0)
        cells *= 2


class Kind(NamedTuple):
    """A way to release the sums of clipped units: a map, what is published of a key, and a noise."""

    projection: Projection
    layout: Layout
    mechanism: str
    noise: Noise


def options_of(
    kinds: Sequence[Kind], neighbours: Neighbours, clip: Clip, question: Question, sums: tuple[UnitSums, UnitSums]
) -> list[UnitOption]:
    """Return an option for each kind; ``sums`` are those of keys as they are, and of clipped units."""
    if not kinds:
        return []
    parts = (np.sqrt(np.mean(part, axis=-1)) for part in _ERRORS[question](kinds, *sums))
    errors = np.broadcast_arrays(np.empty(len(kinds)), *parts)[1:]
    return [
        UnitOption(kind.projection, neighbours, clip, kind.layout, kind.mechanism, kind.noise, *map(float, own))
        for kind, *own in zip(kinds, *errors, strict=True)
    ]


@functools.lru_cache(maxsize=1024)  # it does not depend on the facts, of which a plan compares several
def kinds_of(projection: Projection, neighbours: Neighbours, budget: Budget, *, counted: bool) -> tuple[Kind, ...]:
    """Return each noise that gives the guarantee, with the map on a grid that is fine enough."""
    projection = _on_fine_grid(projection, neighbours)
    layout = Layout.counted(projection, neighbours, delta=budget.delta) if counted else CELLS
    options = candidates(sensitivity_of(projection, neighbours, layout), budget)
    return tuple(Kind(projection, layout, option.mechanism, option.noise) for option in options)


def _on_fine_grid(projection: Projection, neighbours: Neighbours) -> Projection:
    """Return the projection on a grid on which clipped units lose next to nothing by rounding; noise is no wider."""
    if neighbours.of_sketches:
        return fine_enough(projection, neighbours)
    resolution = Fraction(1)
    while Fraction(neighbours.bound) / resolution < _STEPS:
        resolution /= 2
    return projection.replace(resolution=resolution)


def _pairs(sums: UnitSums) -> tuple[Floats, Floats, Floats]:
    """Return the squared norms of both sums of each pair of keys, and their inner product."""
    first, second = sums.pairs
    norms: Floats = np.maximum(np.diagonal(sums.products), _TINY)
    return norms[first], norms[second], sums.products[first, second]


Parts: TypeAlias = tuple[Floats, Floats, Floats]
"""Squares of what the map, the noise and clipping do to each answer: (kinds, answers), or of all kinds (answers,)."""


class Columns(NamedTuple):
    """Numbers of maps and noises, each (kinds, 1), in data units."""

    cells: Any
    k2: Floats
    k4: Floats
    map_norms: Floats

    @classmethod
    def of(cls, kinds: Iterable[tuple[Projection, Noise]]) -> Self:
        """Return the numbers of these."""
        rows = []
        for projection, noise in kinds:
            cumulants = noise.cumulants.scaled(projection.cell_unit)
            rows.append((projection.sketch_dim, cumulants.k2, cumulants.k4, projection.variance.norms))
        return cls(*np.array(rows, dtype=np.float64).T[..., np.newaxis])


def _columns(kinds: Sequence[Kind]) -> Columns:
    return Columns.of((kind.projection, kind.noise) for kind in kinds)


def _cosine_errors(kinds: Sequence[Kind], exact: UnitSums, left: UnitSums) -> Parts:
    """Return the errors of the cosines (Theory 4, "Shape"), 1 where a sum comes out below the noise floor."""
    x, y, product = _pairs(left)
    cosine = product / np.sqrt(x * y)
    of_map, of_noise = cosine_variances(_columns(kinds), x, y, cosine)
    exact_x, exact_y, exact_product = _pairs(exact)
    bias = (cosine - exact_product / np.sqrt(exact_x * exact_y)) ** 2
    floors = [NoiseFloor.of(kind.projection, kind.noise) for kind in kinds]
    above = 1 - chances_below(floors, np.diagonal(left.products))
    above = above[:, left.pairs[0]] * above[:, left.pairs[1]]
    return above * of_map, above * of_noise + 1 - above, above * bias


def cosine_variances(of: Columns, x: Floats, y: Floats, cosine: Floats) -> tuple[Floats, Floats]:
    """Return the map's and the noise's part of the variance of cosines of sums of squared norms x and y.

    That of the noise is at most 1: a cosine is not farther off than that.
    """
    effect, k2, k4 = OutputNoise(of.cells), of.k2, of.k4
    spread_x: Floats = effect.squared_norm_variance(x, k2, k4)
    spread_y: Floats = effect.squared_norm_variance(y, k2, k4)
    levels = k2 / x + k2 / y + effect.count * k2**2 / (x * y)
    growth = (spread_x / x**2 + spread_y / y**2) / 4 - 2 * (k2 / x + k2 / y)
    of_noise: Floats = np.minimum(np.maximum(levels + cosine**2 * growth, 0.0), 1.0)
    of_map: Floats = of.map_norms * (1 - cosine**2) ** 2
    return of_map, of_noise


def _distance_errors(kinds: Sequence[Kind], exact: UnitSums, left: UnitSums) -> Parts:
    """Return the errors of the squared distances between sums, each as a share of it."""
    ones = [dataclasses.replace(sums, units=np.ones_like(sums.units)) for sums in (exact, left)]
    return _errors_of_means(kinds, np.zeros((len(kinds), 1)), *ones)


def _mean_errors(kinds: Sequence[Kind], exact: UnitSums, left: UnitSums) -> Parts:
    """Return the errors of the squared distances between averages, ‖x/n - y/m‖², each as a share of it."""
    count_errors = np.array([[kind.layout.units_deviation(kind.noise.cumulants)] for kind in kinds])
    return _errors_of_means(kinds, count_errors, exact, left)


def _errors_of_means(kinds: Sequence[Kind], count_errors: Floats, exact: UnitSums, left: UnitSums) -> Parts:
    """Return the errors of squared distances between averages, with these errors of n: (kinds, 1).

    An error of n counts to first order: the squared distance moves by 2(‖x/n‖² - ⟨x/n, y/m⟩) times the relative error.
    """
    of = _columns(kinds)
    wanted, (distances, (x, y, product), (n, m)) = _of_means(exact)[0], _of_means(left)
    k2, k4 = of.k2 * (1 / n**2 + 1 / m**2), of.k4 * (1 / n**4 + 1 / m**4)
    of_counts = (2 * (x - product) * count_errors / n) ** 2 + (2 * (y - product) * count_errors / m) ** 2
    of_noise = OutputNoise(of.cells).squared_norm_variance(distances, k2, k4) + of_counts
    of_map = np.array(
        [[kind.projection.variance.of_squared_norm(distance) for distance in distances] for kind in kinds]
    )
    return of_map / wanted**2, of_noise / wanted**2, (distances / wanted - 1) ** 2


def _of_means(sums: UnitSums) -> tuple[Floats, Parts, tuple[Floats, Floats]]:
    """Return the squared distances between the averages of pairs of keys, their products, and how many units."""
    first, second = sums.pairs
    n, m = sums.units[first], sums.units[second]
    x, y, product = _pairs(sums)
    x, y, product = x / n**2, y / m**2, product / (n * m)
    return np.maximum(x + y - 2 * product, _TINY), (x, y, product), (n, m)


def _point_errors(kinds: Sequence[Kind], exact: UnitSums, left: UnitSums) -> Parts:
    """Return the errors of how much a sum holds of one item: its product with the exact sketch of the item."""
    del exact
    of, norms = _columns(kinds), np.maximum(np.diagonal(left.products), 0.0)
    return of.map_norms * norms, of.k2, left.lost**2


_ERRORS = {"cosine": _cosine_errors, "distance": _distance_errors, "mean": _mean_errors, "point": _point_errors}
