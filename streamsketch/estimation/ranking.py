"""What simultaneous intervals show about extremes and ranks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Floats
from streamsketch.estimation.intervals import Interval, Intervals


class Ranks(NamedTuple):
    """The lowest and the highest possible ranks of quantities, from 1, the smallest: int64 arrays of equal shape.

    They are 0 on the diagonal, where a stream is compared with itself.

    Examples
    --------
    >>> from streamsketch.estimation import Estimates
    >>> ranks = Estimates(np.array([100.0, 40.0, 42.0]), np.full(3, 9.0), np.full(3, 16.0)).ranks()
    >>> ranks.low.tolist(), ranks.high.tolist()  # the second and the third may have either order
    ([3, 1, 1], [3, 2, 2])
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]


def smallest_of(ends: Intervals, lowest: float) -> Interval:
    """Return the interval of the smallest of quantities that all lie in theirs; NaN ends are of unknown ones."""
    unknown = bool(np.isnan(ends.low).any())
    return Interval(lowest if unknown else float(ends.low.min()), float(np.nanmin(ends.high, initial=np.inf)))


def largest_of(ends: Intervals, highest: float) -> Interval:
    """Return the interval of the largest; see `smallest_of`."""
    unknown = bool(np.isnan(ends.high).any())
    return Interval(float(np.nanmax(ends.low, initial=-np.inf)), highest if unknown else float(ends.high.max()))


def ranks_of(low: Floats, high: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the greatest rank of each of n quantities that all lie in their intervals.

    A quantity has at least as many below it as there are intervals that end below its own, and as many above it as
    there are that begin above (Klein, Wright and Wieczorek 2020). NaN ends are of unknown quantities.
    """
    known_low, known_high = (np.sort(end[~np.isnan(end)]) for end in (low, high))
    below = np.where(np.isnan(low), 0, np.searchsorted(known_high, low, side="left"))
    beyond = len(known_low) - np.searchsorted(known_low, high, side="right")
    above = np.where(np.isnan(high), 0, beyond)
    return below + 1, len(low) - above
