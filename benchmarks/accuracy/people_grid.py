"""Releases that protect a person, by many choices, and their errors against the exact answers of the raw data.

A choice is how a person is clipped, to which bound, which noise hides it, and k and s of the map. Clipping, noise and
estimates are the library's; noise is keyed, so that a study gives the same figures each time. A release of all keys
answers three questions about each pair: the cosine, the squared distance, and the squared distance of averages. An
undefined answer counts as an error of 1.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import trials
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.estimation.blocks import Block, Units
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.estimation.noise_effect import effect_of
from streamsketch.intake.units import unit_events
from streamsketch.privacy import Budget, Neighbours, calibration
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.neighbours import Clip
from streamsketch.privacy.noise import Noise
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.digests import UnitDigests
from streamsketch.sketching.bounding.runs import Runs
from streamsketch.sketching.bounding.units import UnitBounds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DELTA = 1e-6
COSINE, DISTANCE, MEAN = QUESTIONS = ("cosine", "squared distance", "distance of averages")
LAPLACE, GAUSSIAN, SCALE, EQUAL = PROTECTIONS = ("L1, Laplace", "L1, Gaussian", "sketch L2, scale", "sketch L2, equal")
HISTOGRAM = "noise on the histogram"

_SECRET = bytes(range(32))  # the same in every run, so that its figures are
_UNIT = "person"
_STEPS = 12  # a bound is 2^12 grid steps or more, and less than twice as many


@dataclasses.dataclass(frozen=True, eq=False)
class People:
    """Rows of people, one for each person, key and item, and the bounds to try.

    Parameters
    ----------
    name
        Of the data.
    people, keys, items, values
        Rows: int64, (n,) each; keys and items count from 0.
    l1_bounds, l2_bounds
        Bounds on what a person adds.
    key_limits
        For L1: in how many keys a person may be; None for a bound on all keys together.
    """

    name: str
    people: Ints
    keys: Ints
    items: Ints
    values: Ints
    l1_bounds: Sequence[int]
    l2_bounds: Sequence[int]
    key_limits: Sequence[int | None]

    @functools.cached_property
    def n_keys(self) -> int:
        """The number of keys."""
        return int(self.keys.max()) + 1

    @functools.cached_property
    def n_items(self) -> int:
        """The number of items."""
        return int(self.items.max()) + 1

    @functools.cached_property
    def table(self) -> pa.Table:
        """The rows as a table with the columns person, key, item and value."""
        columns = (self.people, self.keys, self.items, self.values)
        return pa.table(dict(zip(("person", "key", "item", "value"), columns, strict=True)))

    @functools.cached_property
    def typical_items(self) -> float:
        """How many different items half of the people have at most."""
        pairs = np.unique(self.people * self.n_items + self.items) // self.n_items
        return float(np.median(np.bincount(pairs)[np.unique(self.people)]))

    @functools.cached_property
    def n_people(self) -> int:
        """The number of people."""
        return np.unique(self.people).size

    @functools.cached_property
    def people_in(self) -> Ints:
        """How many people are in each key: (keys,)."""
        return np.bincount(np.unique(self.people * self.n_keys + self.keys) % self.n_keys, minlength=self.n_keys)

    @property
    def equal_length(self) -> int:
        """The length of people that weigh the same; the answers to other lengths follow from it."""
        return self.l2_bounds[len(self.l2_bounds) // 2]

    @functools.cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Pairs of keys, the first less than the second."""
        return np.triu_indices(self.n_keys, 1)

    @functools.cached_property
    def truth(self) -> Mapping[str, Floats]:
        """The exact answers of the raw data for each question: (pairs,) each."""
        vectors = np.zeros((self.n_keys, self.n_items))
        np.add.at(vectors, (self.keys, self.items), self.values)
        products, units = vectors @ vectors.T, Units(self.people_in.astype(np.float64), np.zeros(self.n_keys))
        return answers(products, np.diagonal(products), units, self.pairs)

    @functools.cached_property
    def size(self) -> Mapping[str, Floats]:
        """What errors are shares of: 1 for cosines, the true answer for distances: (pairs,) each."""
        return {name: np.ones_like(answer) if name == COSINE else answer for name, answer in self.truth.items()}

    @functools.cached_property
    def _events(self) -> Runs:
        people, keys, items, values = map(pa.array, (self.people, self.keys, self.items, self.values))
        read = unit_events(ss.SJLT(sketch_dim=64, sparsity=1, seed=0), people, keys, [items], values)
        return Runs.of(Contributions.of(read, UnitDigests(_SECRET)))

    def events(self, resolution: Fraction) -> Runs:
        """Return the rows as the library bounds them, on a grid of 1/n."""
        return dataclasses.replace(self._events, steps=self._events.steps * resolution.denominator)

    @functools.cache  # noqa: B019 - a study has few sets of data
    def clipped(self, choice: "Choice") -> tuple[Ints, Ints]:
        """Return the sums of people clipped by L1, (keys, items) in grid steps, and the people in each key.

        They are the same for any map, so ask with `Choice.without_map`. For bounds in sketch space they are those of
        the histogram.
        """
        return self.sums(choice, choice.projection(self, 0), self.n_items)

    def sums(self, choice: "Choice", projection: ss.projections.Projection, columns: int) -> tuple[Ints, Ints]:
        """Return what a choice leaves of people, (keys, columns) in grid steps, and the people in each key."""
        bounds = UnitBounds(projection, choice.neighbours(self), max_keys=choice.most_keys(self), clip=choice.clip)
        sums, counts = np.zeros(self.n_keys * columns, dtype=np.int64), np.zeros(self.n_keys, dtype=np.int64)
        for left in bounds.clipped_parts(self.events(choice.resolution), _SECRET, totals=False):
            keys = np.array([key for key, _ in left.slots], dtype=np.int64)
            places = keys[left.codes] * columns + left.indices
            sums += np.bincount(places, left.steps, sums.size).astype(np.int64)  # exact: far below 2^53
            counts[keys] += left.counts[:, 0]
        return sums.reshape(self.n_keys, columns), counts


@dataclasses.dataclass(frozen=True)
class Choice:
    """How a release of all keys protects a person.

    Parameters
    ----------
    protection
        One of `PROTECTIONS`.
    cells, sparsity
        k and s of the map; no cells for the histogram.
    bound
        On what one person adds. Of equal weights it is the length, which scales distances.
    limit
        In how many keys a person may be, under L1 each clipped to the bound; None for all keys together.
    """

    protection: str
    cells: int
    sparsity: int
    bound: Fraction | int
    limit: int | None = None

    @property
    def family(self) -> str:
        """What it is compared as: its protection, or any noise on the histogram."""
        return self.protection if self.cells else HISTOGRAM

    @property
    def in_sketch_space(self) -> bool:
        """Whether a person's cells are clipped, instead of its values."""
        return self.protection in (SCALE, EQUAL)

    @property
    def resolution(self) -> Fraction:
        """The grid: 1/n, on which the bound is 2^12 steps or more."""
        return Fraction(1, 1 << max(0, _STEPS - math.floor(math.log2(self.bound))))

    @property
    def without_map(self) -> "Choice":
        """The same for the histogram, and for any noise."""
        protection = self.protection if self.in_sketch_space else LAPLACE
        return dataclasses.replace(self, cells=0, sparsity=1, protection=protection)

    def projection(self, people: People, seed: int) -> ss.projections.Projection:
        """Return the map of the items."""
        if not self.cells:
            return ss.projections.Identity(dim=people.n_items, resolution=self.resolution)
        options: dict[str, Any] = {"sketch_dim": self.cells, "sparsity": self.sparsity, "seed": seed}
        return ss.SJLT(dim=people.n_items, resolution=self.resolution, **options)

    def neighbours(self, people: People) -> Neighbours:
        """Return the relation that the release names."""
        if self.in_sketch_space:
            return ss.SketchL2(self.bound, unit=_UNIT, max_keys=self.most_keys(people))
        return ss.L1(self.bound, unit=_UNIT, max_keys=self.limit or 1)

    def most_keys(self, people: People) -> int:
        """Return in how many keys a person may be: 2 at least, if in any number, as clipping them together needs it."""
        return self.limit or max(2, people.n_keys)

    @property
    def clip(self) -> Clip:
        """How a person is clipped."""
        return "equal" if self.protection == EQUAL else "scale"

    def counting(self, people: People, projection: ss.projections.Projection) -> ss.privacy.Counting | None:
        """Return the default count of people; none where keys are clipped together."""
        if not self.in_sketch_space and self.limit is None:
            return None
        options: dict[str, Any] = {"delta": DELTA, "mechanism": self.mechanism}
        return ss.privacy.Counting.of(projection, self.neighbours(people), **options)

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return "laplace" if self.protection == LAPLACE else "gaussian"

    def __str__(self) -> str:
        where = f"k = {self.cells}, s = {self.sparsity}" if self.cells else "histogram"
        keys = f", {self.limit} keys" if self.limit else "" if self.in_sketch_space else ", all keys together"
        return f"{self.protection}, bound {float(self.bound):g}{keys}, {where}"


@dataclasses.dataclass
class Errors:
    """Squared errors of one question's answers, over pairs and releases, and how many answers were undefined."""

    squares: list[float] = dataclasses.field(default_factory=list)
    undefined: list[float] = dataclasses.field(default_factory=list)

    def add(self, error: Floats, undefined: float) -> None:
        """Add the answers of one release."""
        self.squares.append(float((error**2).mean()))
        self.undefined.append(undefined)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return math.sqrt(np.mean(self.squares))

    @property
    def uncertainty(self) -> float:
        """The relative standard error of `rmse`."""
        return float(np.std(self.squares) / (2 * np.mean(self.squares) * math.sqrt(len(self.squares))))

    @property
    def undefined_share(self) -> float:
        """The share of answers that were undefined."""
        return float(np.mean(self.undefined))


Measured = dict[tuple[str, float, Choice], Errors]
"""Question, ε and choice → errors."""


def answers(products: Floats, squared_norms: Floats, units: Units, pairs: tuple[Ints, Ints]) -> dict[str, Floats]:
    """Return the answer to each question for each pair, by the library's estimators: (pairs,) each.

    Parameters
    ----------
    products, squared_norms
        Of the sums of people: (keys, keys), and (keys,) without the noise's part.
    units
        People in each key, NaN where not known; distances of averages are NaN there, and where they are few.
    pairs
        Pairs of keys.
    """
    (i, j), product, norms = pairs, products[pairs], squared_norms
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.clip(product / np.sqrt(norms[i] * norms[j]), -1, 1)
        reliable = units.number > 2 * np.sqrt(units.variance)
        number = np.where(reliable, units.number, np.nan)
        weight, spread = number / (number**2 + units.variance), units.variance / number**2
        averages = weight**2 * norms * (1 - spread * (1 - spread) / (1 + 3 * spread))
        mean = averages[i] + averages[j] - 2 * weight[i] * weight[j] * product
    return {COSINE: cosine, DISTANCE: norms[i] + norms[j] - 2 * product, MEAN: mean}


def grid(people: People, cells: Iterable[int], sparsities: Iterable[int]) -> list[Choice]:
    """Return every choice; 0 cells are the histogram. Equal weights have one bound: see `measure`."""
    choices = []
    for k in cells:
        for s in sparsities if k else (1,):
            if k and k < 8 * s:
                continue
            choices += [
                Choice(name, k, s, bound, limit)
                for name in (LAPLACE, GAUSSIAN)
                for limit in people.key_limits
                for bound in people.l1_bounds
            ]
            choices += [Choice(SCALE, k, s, bound) for bound in people.l2_bounds]
            choices.append(Choice(EQUAL, k, s, people.equal_length))
    return choices


def measure(people: People, wanted: Mapping[Choice, Sequence[float]], seeds: Iterable[int], *, exact: bool) -> Measured:
    """Release with each seed's map and noise, and return the errors.

    Equal weights of another length are the same release but for a public factor, so they are released once, of
    `People.equal_length`, and the answers scaled to each of the bounds.

    Parameters
    ----------
    people
        Whose data.
    wanted
        Choices, with the ε of each.
    seeds
        One release each.
    exact
        False is faster: in sketch space, people are clipped by the norm of what they add instead of its cells, which
        differs by colliding items, and noise is doubles of the same variance, one draw for all choices of a map.
    """
    errors: Measured = {}
    maps: dict[tuple[int, int], list[Choice]] = {}
    for choice in wanted:
        maps.setdefault((choice.cells, choice.sparsity), []).append(choice)
    for seed in seeds:
        for own in maps.values():
            draw = Draw(f"{people.name}; {own[0].cells}; {own[0].sparsity}; {seed}", exact=exact)
            for choice, sums, counts in _tables(people, own, seed, exact=exact):
                for epsilon in wanted[choice]:
                    _add(errors, people, choice, (sums, counts), epsilon, draw)
    return errors


class Draw:
    """Noise for the releases of one map, the same in every run."""

    def __init__(self, context: str, *, exact: bool) -> None:
        self._context, self._exact = context, exact
        self._numbers: dict[tuple[str, int], Floats] = {}

    def of(self, noise: Noise, size: int, purpose: str) -> NDArray[Any]:
        """Return noise in grid steps: (size,)."""
        if self._exact:
            return noise.sample(size, trials.keyed(f"{self._context}; {purpose}".encode()))
        if (noise.name, size) not in self._numbers:
            words = np.frombuffer(self._context.encode(), dtype=np.uint8)
            rng = np.random.default_rng(words)
            drawn = rng.normal(size=size) if noise.name == "gaussian" else rng.laplace(size=size, scale=math.sqrt(0.5))
            self._numbers[noise.name, size] = drawn
        return math.sqrt(noise.cumulants.k2) * self._numbers[noise.name, size]


def _tables(
    people: People, choices: Sequence[Choice], seed: int, *, exact: bool
) -> Iterable[tuple[Choice, Ints, Ints]]:
    """Yield choices of one k and s with the cells, (keys, k) in grid steps, and the people in each key."""
    by_clip: dict[Choice, list[Choice]] = {}
    for choice in choices:
        if not (exact and choice.in_sketch_space):
            by_clip.setdefault(choice.without_map, []).append(choice)
    if by_clip:
        clipped = [people.clipped(each) for each in by_clip]
        vectors = np.concatenate([vectors for vectors, _ in clipped])
        plain = dataclasses.replace(choices[0], bound=1 << _STEPS)  # on a grid of 1, for vectors in steps
        cells = plain.projection(people, seed).transform(vectors, exact=True).reshape(len(by_clip), people.n_keys, -1)
        for sums, (_, counts), own in zip(cells, clipped, by_clip.values(), strict=True):
            yield from ((choice, sums, counts) for choice in own)
    for choice in choices:
        if exact and choice.in_sketch_space:
            projection = choice.projection(people, seed)
            yield choice, *people.sums(choice, projection, projection.sketch_dim)


@functools.lru_cache(maxsize=1 << 16)
def _noise(
    people: People, choice: Choice, epsilon: float
) -> tuple[ss.projections.Projection, ss.privacy.Counting | None, Noise]:
    """Return a map like those released by, what is published of the number of people, and the calibrated noise."""
    projection = choice.projection(people, 0)
    counting = choice.counting(people, projection)
    sensitivity = sensitivity_of(projection, choice.neighbours(people), Layout(counting))
    return projection, counting, calibration.choose(sensitivity, Budget(epsilon, DELTA), choice.mechanism)


def _add(
    errors: Measured,
    people: People,
    choice: Choice,
    exact: tuple[Ints, Ints],
    epsilon: float,
    draw: Draw,
) -> None:
    """Draw noise, estimate, and add the errors of one release."""
    projection, counting, noise = _noise(people, choice, epsilon)
    sums, counts = exact
    columns = sums.shape[1] + (counting is not None)
    drawn = draw.of(noise, people.n_keys * columns, f"{choice}; {epsilon}").reshape(people.n_keys, columns)
    moments = noise.cumulants.scaled(projection.cell_unit)
    every = np.ones(people.n_keys)
    block = Block(
        sums + drawn[:, : sums.shape[1]],
        projection.cell_unit * every,
        moments.k2 * every,
        moments.k4 * every,
        projection.variance,
        effect_of(projection, "output"),
    )
    units = Units(np.nan * every, 0 * every)
    if counting is not None:
        units = Units(counts + drawn[:, -1] / counting.units, noise.cumulants.k2 / counting.units**2 * every)
    norms = block.squared_norms
    products = block.values @ block.values.T
    estimates = answers(products, norms, units, people.pairs)
    hidden = below_noise_floor(block)
    estimates[COSINE][hidden[people.pairs[0]] | hidden[people.pairs[1]]] = np.nan
    for question, values in estimates.items():
        if question == MEAN and counting is None:
            continue
        undefined = np.isnan(values)
        rescaled = choice.protection == EQUAL and choice.bound == people.equal_length and question != COSINE
        for bound in {choice.bound, *(people.l2_bounds if rescaled else ())}:
            error = (values * float(bound / choice.bound) ** 2 - people.truth[question]) / people.size[question]
            error[undefined] = 1.0
            which = dataclasses.replace(choice, bound=bound) if rescaled else choice
            errors.setdefault((question, epsilon, which), Errors()).add(error, float(undefined.mean()))
