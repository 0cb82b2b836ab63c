"""The accuracy of answers as the criterion for choosing a bound on units, from counts of units by size."""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from streamsketch.core.numbers import Floats, short
from streamsketch.errors import InvalidInputError
from streamsketch.planning.typical import TypicalUnit, key_sizes, modelled_norms, modelled_sums
from streamsketch.planning.unit_facts import UnitFacts, UnitSizes, UnitSums
from streamsketch.planning.unit_options import QUESTIONS, Question, clipped, kinds_of, options_of
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import Projection

_SURE = 9.3  # standard deviations of a noisy count: Laplace noise alone exceeds it once in a million draws


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The question that releases answer, for which `choose_bound` takes the bound with the least predicted error.

    The error is that of `plan_units`. It comes from the map, from the noise, and from the bias between clipped and
    unclipped units. The choice uses only noisy counts of units by size.

    Parameters
    ----------
    question
        As in `plan_units`. For ``"cosine"`` consider ``clip="equal"``, which needs no bound.
    projection
        The public map.
    neighbours
        The kind of neighbours, with any bound, which the candidates replace: ``L1(1, unit="customer")`` for totals of
        `unit_totals`, or ``SketchL2(1, unit="customer")`` for norms of what units add to all keys.
    epsilon, delta
        The privacy loss of the releases, not of the choice.
    units
        About how many units a key has. Several numbers stand for keys of different sizes. By default, all units that
        are counted.
    items
        About how many different items a unit adds to a key.
    match, cosine, catalogue
        As in `TypicalUnit`. If neither ``match`` nor ``catalogue`` is stated, or only the latter, the bound is that of
        least worst regret over the range there.

    Raises
    ------
    InvalidInputError
        If the question is unknown, or if ε, δ or a number is out of range.

    Examples
    --------
    >>> from streamsketch import L1, CountSketch
    >>> from streamsketch.bounding import choose_bound
    >>> wanted = Accuracy(
    ...     question="distance", projection=CountSketch(sketch_dim=256, seed=7), neighbours=L1(1), epsilon=1.0
    ... )
    >>> totals = [20.0] * 5000 + [500.0] * 10
    >>> choose_bound(totals, [1, 5, 10, 20, 50, 100, 500], epsilon=1.0, accuracy=wanted).bound
    Fraction(20, 1)
    """

    question: Question
    projection: Projection
    neighbours: Neighbours
    epsilon: float
    delta: float = 0.0
    units: float | Sequence[float] | None = None
    items: float = 10.0
    match: float | None = None
    cosine: float | Sequence[float] | None = None
    catalogue: float | None = None

    def __post_init__(self) -> None:
        if self.question not in QUESTIONS:
            raise InvalidInputError(f"question must be one of {', '.join(QUESTIONS)}, got {short(self.question)}")
        if not self.neighbours.counted:
            raise InvalidInputError(f"bounds are chosen for L1(bound) or SketchL2(bound), got {self.neighbours!r}")
        object.__setattr__(self, "cosine", self._typical.cosine)
        if self.units is not None:
            object.__setattr__(self, "units", key_sizes(self.units))
        Budget(self.epsilon, self.delta)

    @property
    def _typical(self) -> TypicalUnit:
        return TypicalUnit(items=self.items, match=self.match, cosine=self.cosine, catalogue=self.catalogue)

    def errors(self, bounds: Sequence[Fraction], counts: Sequence[int], deviation: float) -> list[float]:
        """Return the predicted error for each bound; see `streamsketch.privacy.bound_choice.Criterion`.

        Where it is not stated how often pieces match, it is the worst regret of a bound over the range, times the best
        error of the likely match.

        Counts that may be noise alone are left out, because a few large units that do not exist would distort sizes.
        Each unit is taken to add the geometric mean of the bounds on both sides of it.
        """
        numbers = np.array(counts, dtype=np.float64)
        numbers[numbers < _SURE * deviation] = 0.0
        if not numbers.any():
            numbers[:] = 1.0  # nothing is known
        typical = [self._typical, *(self._typical.others().values() if self.match is None else [])]
        table = np.array([self._errors(bounds, numbers, unit.likely_match) for unit in typical])
        regrets = (table / table.min(axis=1, keepdims=True)).max(axis=0)
        worst: list[float] = (regrets * table[0].min()).tolist()
        return worst

    def _errors(self, bounds: Sequence[Fraction], numbers: Floats, match: float) -> list[float]:
        """Return the predicted error for each bound if pieces match with this probability."""
        facts = _CountedUnits(self, match, _sizes_between(bounds, self), numbers / numbers.sum())
        many = (max(1.0, float(numbers.sum())),) if self.units is None else key_sizes(self.units)
        budget, counted, everything = Budget(self.epsilon, self.delta), self.question == "mean", np.ones(numbers.size)
        exact = facts.sums(many, everything, everything)
        errors = []
        for bound in bounds:
            neighbours = dataclasses.replace(self.neighbours, bound=bound)
            left = facts.sums(many, *clipped(facts, neighbours, "scale"))
            kinds = kinds_of(self.projection, neighbours, budget, counted=counted)
            options = options_of(kinds, neighbours, "scale", self.question, (exact, left))
            errors.append(min(option.error for option in options))
        return errors


@dataclasses.dataclass(frozen=True, eq=False)
class _CountedUnits(UnitFacts):
    """Units of which there are so many of each size."""

    asked: Accuracy
    match: float
    sizes_given: UnitSizes
    often: Floats

    @property
    def sizes(self) -> UnitSizes:
        return self.sizes_given

    @property
    def units(self) -> None:
        return

    @property
    def cosines(self) -> Floats:
        return np.atleast_1d(np.asarray(self.asked.cosine, dtype=np.float64))

    def squared_norms(self, units: Floats, weights: Floats, kept: Floats) -> Floats:
        return modelled_norms(self.sizes, self.often, self.match, units, weights, kept)[1]

    def sums(self, units: Sequence[float], weights: Floats, kept: Floats) -> UnitSums:
        return modelled_sums(self.sizes, self.often, (self.match, self.asked.cosine), units, weights, kept)  # type: ignore[arg-type] # __post_init__ made it a tuple

    def assumed(self, unit: str) -> str:
        return f"{unit}s counted by size"


def _sizes_between(bounds: Sequence[Fraction], asked: Accuracy) -> UnitSizes:
    """Return a size below the first bound, one between each and the next, and one beyond the last."""
    edges = np.array([float(bound) for bound in bounds])
    beyond = edges[-1] ** 2 / edges[-2], edges[0] ** 2 / edges[1]
    edges = np.array([beyond[1], *edges, beyond[0]])
    sizes = np.sqrt(edges[:-1] * edges[1:])
    lengths = sizes / math.sqrt(asked.items) if asked.neighbours.norm == "l1" else sizes
    return UnitSizes(lengths * math.sqrt(asked.items), lengths**2, lengths**2, np.ones(sizes.size))
