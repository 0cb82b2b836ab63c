"""What a plan starts from: the streams, the goal and the privacy budget."""

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Real
from typing import cast

from streamsketch.core import Exact, check_resolution, exact_fraction, short
from streamsketch.data import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget, Neighbours
from streamsketch.projections import MAX_SKETCH_DIM

_MOST_EVENTS = 1 << 60
_LEAST_DISTANCE, _MOST_DISTANCE = 1e-60, 1e30  # squared; of them the squares, as shares of a variance, are finite


@dataclasses.dataclass(frozen=True, kw_only=True)
class Streams:
    """What is known of the streams without looking at them: public facts, or guesses.

    Parameters
    ----------
    dim
        Number of possible indices; `streamsketch.HASHED_DIM` for keys that will be hashed.
    squared_distances
        The squared distances ‖x - y‖₂² that matter, one or several, in squared data units. Left out, they are those of
        two unrelated streams of ``events`` counts each, which seldom meet in a coordinate: twice the events, the least
        that unrelated streams of counts can have.
    events
        How many updates one stream makes.
    spread
        The least number of coordinates that make a difference. Two streams that differ in one item only are estimated
        with heavier tails than two that differ in a thousand (THEORY.md 4.1); 1 if nothing is known.
    step
        What all values are multiples of: 1 for counts, ``"1/100"`` for cents; None for real numbers, for which the plan
        chooses a resolution that moves no squared distance by more than a thousandth, if noise can be sampled on so
        fine a grid. That needs ``events``.

    Raises
    ------
    InvalidInputError
        For a fact out of range, or too few of them.

    Examples
    --------
    >>> Streams(dim=1 << 40, events=20_000).squared_distances
    (40000.0,)
    """

    dim: int
    squared_distances: float | Iterable[float] | None = None
    events: int | None = None
    spread: int = 1
    step: Exact | None = 1

    def __post_init__(self) -> None:
        _check_int("dim", self.dim, HASHED_DIM)
        _check_int("spread", self.spread, HASHED_DIM)
        if self.events is not None:
            _check_int("events", self.events, _MOST_EVENTS)
        if self.step is not None:
            step = exact_fraction(self.step, "step")
            check_resolution(step, "step")
            object.__setattr__(self, "step", step)
        elif self.events is None:
            raise InvalidInputError(
                "for real values (step=None) a plan needs events, the number of updates of a stream"
            )
        object.__setattr__(self, "squared_distances", self._distances())

    def _distances(self) -> tuple[float, ...]:
        given = self.squared_distances
        if given is None:
            if self.events is None or self.step != 1:
                raise InvalidInputError(
                    "a plan needs the squared_distances that matter; for streams of counts (step=1), events will do"
                )
            return (2.0 * self.events,)
        found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
        for distance in found:
            if not (_is_real(distance) and _LEAST_DISTANCE <= distance <= _MOST_DISTANCE):
                raise InvalidInputError(
                    f"a squared distance must be a number in [{_LEAST_DISTANCE:g}, {_MOST_DISTANCE:g}], got "
                    f"{distance!r:.40}"
                )
        if not found:
            raise InvalidInputError("squared_distances is empty; name at least one that matters")
        return tuple(sorted({float(distance) for distance in found}))

    @property
    def distances(self) -> tuple[float, ...]:
        """The squared distances, ascending."""
        return cast("tuple[float, ...]", self.squared_distances)  # __post_init__ made it one

    def truncation(self, resolution: Fraction) -> float:
        """Return how far truncating values to a grid can move a squared distance, as a share of the least one.

        Each update loses less than the grid step g, so of n updates a stream a difference z loses e with ‖e‖₂ ≤ 2ng,
        and its square moves by at most 2‖z‖‖e‖ + ‖e‖²: as much only if all updates meet in one coordinate, and nothing
        if the values are multiples of g.
        """
        if self.step is not None and (Fraction(self.step) / resolution).denominator == 1:
            return 0.0
        lost = 2 * float(self.events or 1) * float(resolution) / math.sqrt(self.distances[0])
        return 2 * lost + lost**2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """What the estimates shall reach, and what they may cost.

    Parameters
    ----------
    relative_error
        The error, as a share of each squared distance, that shall be exceeded with chance 1 - ``confidence`` at
        most, in (0, 10]. None: as little as can be had. The noise's part is taken as normal: with few cells and much
        confidence Laplace noise exceeds it more often, 0.6 % instead of 0.1 % of 16 cells, 0.2 % of 100.
    confidence
        In [0.5, 1 - 1e-9].
    max_cells
        The most cells of a sketch: each takes 8 bytes in memory.
    max_nonzeros
        The most cells that one update may touch.

    Raises
    ------
    InvalidInputError
        For a number out of range.

    Examples
    --------
    >>> Goal(relative_error=0.2).confidence
    0.95
    """

    relative_error: float | None = None
    confidence: float = 0.95
    max_cells: int = 1 << 16
    max_nonzeros: int = 32

    def __post_init__(self) -> None:
        if self.relative_error is not None and not (_is_real(self.relative_error) and 0 < self.relative_error <= 10):
            raise InvalidInputError(
                f"relative_error must lie in (0, 10], got {short(self.relative_error)}; 0.2 is 20 %"
            )
        if not (_is_real(self.confidence) and 0.5 <= self.confidence <= 1 - 1e-9):
            raise InvalidInputError(
                f"confidence must lie in [0.5, 1 - 1e-9], got {short(self.confidence)}; 0.95 is usual"
            )
        _check_int("max_cells", self.max_cells, MAX_SKETCH_DIM)
        _check_int("max_nonzeros", self.max_nonzeros, MAX_SKETCH_DIM)

    @property
    def miss(self) -> float:
        """The chance that may be left: 1 - ``confidence``."""
        return 1 - self.confidence


@dataclasses.dataclass(frozen=True)
class Protection:
    """How much privacy may be lost, and whose."""

    budget: Budget
    neighbours: Neighbours


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_int(name: str, value: object, high: int) -> None:
    if type(value) is not int or not 1 <= value <= high:
        raise InvalidInputError(f"{name} must be an int in [1, {high}], got {short(value)}")
