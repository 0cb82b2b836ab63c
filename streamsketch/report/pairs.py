"""All comparisons of a page as numbers, written once: tables, pictures and the script read the same."""

import base64
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.documents import Json
from streamsketch.core.numbers import Floats
from streamsketch.estimation.estimate import Estimate, estimate_cells
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.intervals import Interval, Intervals

_EXACT = 5_000  # pairs, up to which a page has all digits
_STEPS = 2.0**14  # of the grid of larger pages, to a standard error: the digits shown are about 1/30 of one


class Pairs(NamedTuple):
    """Estimates between n streams with their standard errors and 95 % intervals: (n, n), symmetric."""

    value: Floats
    error: Floats
    low: Floats
    high: Floats

    @property
    def unclear(self) -> NDArray[np.bool_]:
        """Which intervals contain 0: the pair cannot be distinguished from 0."""
        unclear: NDArray[np.bool_] = ~((self.low > 0) | (self.high < 0))
        np.fill_diagonal(unclear, val=False)
        return unclear

    def cells(self, i: int, j: int) -> tuple[str, str, str]:
        """Return a pair's estimate, standard error and interval as text."""
        return estimate_cells(self.estimate(i, j), Interval(float(self.low[i, j]), float(self.high[i, j])))

    def estimate(self, i: int, j: int) -> Estimate:
        """Return a pair's estimate, for its text."""
        return Estimate(float(self.value[i, j]), float(self.error[i, j]) ** 2, 0.0)

    def packed(self) -> Json:
        """Return the numbers of the pairs i < j, row by row, for a script.

        ``base64`` is that of a zlib stream of bytes: values, errors, lows and highs, each the first bytes of all its
        numbers (little-endian, of ``bytes`` bytes), then the second ones and so on.
        """
        first, second = np.triu_indices(len(self.value), 1)
        size = 8 if len(first) <= _EXACT else 4
        columns = [np.ascontiguousarray(matrix[first, second], dtype=f"<f{size}") for matrix in self]
        planes = b"".join(column.view(np.uint8).reshape(-1, size).T.tobytes() for column in columns)
        return {"bytes": size, "base64": base64.b64encode(zlib.compress(planes, 6)).decode()}


def pairs_of(estimates: Estimates, ends: Intervals | None = None) -> Pairs:
    """Return (n, n) estimates as the numbers of a page: all digits of few, and those that mean something of many.

    The intervals are ``ends``, by default 95 % intervals that hold by themselves.
    """
    low, high = estimates.interval(0.95) if ends is None else ends
    numbers = estimates.value, estimates.standard_error, low, high
    if len(estimates.value) * (len(estimates.value) - 1) // 2 <= _EXACT:
        return Pairs(*numbers)
    error = estimates.standard_error
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where((error > 0) & np.isfinite(error), 2.0 ** np.floor(np.log2(error)) / _STEPS, 1.0)
    return Pairs(*((np.rint(values / step) * step).astype(np.float32).astype(np.float64) for values in numbers))
