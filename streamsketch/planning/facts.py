"""Inputs of a plan: the streams, the goal and the privacy budget."""

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Real
from typing import cast

from streamsketch.core.numbers import Exact, check_int, check_resolution, exact_fraction, short
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import MAX_SKETCH_DIM

_MOST_EVENTS = 1 << 60
_LEAST_DISTANCE, _MOST_DISTANCE = 1e-60, 1e30  # squared distances whose own squares are finite


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """What is known about the streams without looking at them, as public facts or guesses.

    Parameters
    ----------
    dim
        Number of possible indices. The default is 2^60, for keys that will be hashed.
    squared_distances
        One or several squared distances ‖x - y‖₂² of interest, in squared data units. The default is 2 · ``events``,
        the smallest distance that two streams of ``events`` counts each without common coordinates can have.
    events
        Number of updates in one stream.
    spread
        The smallest number of coordinates in which two streams differ. Estimates for streams that differ in one item
        have heavier tails than for streams that differ in a thousand (Theory 4.1). Use 1 if nothing is known.
    step
        All values are multiples of this number: 1 for counts, ``"1/100"`` for cents. None for real numbers: the plan
        then chooses a resolution that moves no squared distance by more than a thousandth, if noise can be sampled on
        so fine a grid. This requires ``events``.

    Raises
    ------
    InvalidInputError
        If a fact is out of range or missing.

    Examples
    --------
    >>> StreamFacts(dim=1 << 40, events=20_000).squared_distances
    (40000.0,)
    """

    dim: int = HASHED_DIM
    squared_distances: float | Iterable[float] | None = None
    events: int | None = None
    spread: int = 1
    step: Exact | None = 1

    def __post_init__(self) -> None:
        check_int(self.dim, "dim", 1, HASHED_DIM)
        check_int(self.spread, "spread", 1, HASHED_DIM)
        if self.events is not None:
            check_int(self.events, "events", 1, _MOST_EVENTS)
        if self.step is not None:
            step = exact_fraction(self.step, "step")
            check_resolution(step, "step")
            object.__setattr__(self, "step", step)
        elif self.events is None:
            raise InvalidInputError(
                "a plan for real values (step=None) needs events, the number of updates in a stream"
            )
        object.__setattr__(self, "squared_distances", self._distances())

    def _distances(self) -> tuple[float, ...]:
        stated = self.squared_distances
        if stated is None:
            if self.events is None or self.step != 1:
                raise InvalidInputError(
                    "a plan needs squared_distances; for streams of counts (step=1), events is enough"
                )
            return (2.0 * self.events,)
        distances = tuple(stated) if isinstance(stated, Iterable) and not isinstance(stated, str) else (stated,)
        for distance in distances:
            if not (_is_real(distance) and _LEAST_DISTANCE <= distance <= _MOST_DISTANCE):
                raise InvalidInputError(
                    f"a squared distance must be a number in [{_LEAST_DISTANCE:g}, {_MOST_DISTANCE:g}], got "
                    f"{distance!r:.40}"
                )
        if not distances:
            raise InvalidInputError("squared_distances is empty; pass at least one")
        return tuple(sorted({float(distance) for distance in distances}))

    @property
    def distances(self) -> tuple[float, ...]:
        """The squared distances, ascending."""
        return cast("tuple[float, ...]", self.squared_distances)  # __post_init__ made it one

    def truncation(self, resolution: Fraction) -> float:
        """Return a bound on how far truncation to a grid moves a squared distance, as a share of the smallest one.

        Each update loses less than the grid step g, so with n updates in each stream a difference z loses e with
        ‖e‖₂ ≤ 2ng, and ‖z‖² moves by at most 2‖z‖‖e‖ + ‖e‖². The bound is reached only if all updates fall on one
        coordinate; it is 0 if the values are multiples of g.
        """
        if self.step is not None and (Fraction(self.step) / resolution).denominator == 1:
            return 0.0
        lost = 2 * float(self.events or 1) * float(resolution) / math.sqrt(self.distances[0])
        return 2 * lost + lost**2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """The accuracy to reach, and the limits on its cost.

    Parameters
    ----------
    relative_error
        The error to reach, as a share of each squared distance, in (0, 10]. It may be exceeded with probability at most
        1 - ``confidence``. None asks for the smallest error. The noise's part is taken as normal; with few cells and
        high confidence, Laplace noise exceeds the error more often: instead of 0.1 % of cases, in 0.6 % with 16 cells
        and 0.2 % with 100.
    confidence
        Confidence, in [0.5, 1 - 1e-9].
    max_cells
        The largest number of cells of a sketch; each takes 8 bytes in memory.
    max_nonzeros
        The largest number of cells that one update may touch.

    Raises
    ------
    InvalidInputError
        If a number is out of range.

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
        check_int(self.max_cells, "max_cells", 1, MAX_SKETCH_DIM)
        check_int(self.max_nonzeros, "max_nonzeros", 1, MAX_SKETCH_DIM)

    @property
    def miss(self) -> float:
        """The probability of a larger error that the goal accepts, which is 1 - ``confidence``."""
        return 1 - self.confidence


@dataclasses.dataclass(frozen=True)
class Protection:
    """A budget and the neighbour relation."""

    budget: Budget
    neighbours: Neighbours


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
