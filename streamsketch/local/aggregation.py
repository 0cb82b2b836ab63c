"""The server: an exact, mergeable sum of reports, and the mean it estimates."""

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, Words, short
from streamsketch.errors import InvalidInputError, SketchOverflowError
from streamsketch.local.agreed import power_below
from streamsketch.local.normal import Floats
from streamsketch.local.report import Report, Reports, all_fit, implausible, lengths_fit
from streamsketch.release import Encoded

if TYPE_CHECKING:
    from streamsketch.local.mechanism import Mechanism

MAX_COUNT = (1 << 31) - 1
"""Reports one aggregator takes: each adds at most 2^32 steps to a cell, so cells stay within 63 bits."""

_STEPS_PER_SIZE = 22  # log2 of the steps in a contribution's root mean square
_LIMIT = 2.0**32  # steps: 1024 times the root mean square; honest values are within a few hundred
_SLACK = 1e-6  # of a length: its sum in floating point


class MeanAggregator(Encoded):
    """Adds up locally private reports, and estimates the mean of the vectors behind them.

    Every contribution is rounded once, to a multiple of 2^-22 of its root mean square, and added as an integer: so
    merges are exact, and the mean has the same bits however the reports were split and ordered, on every machine:
    contributions follow from IEEE sums, products, quotients and roots, and from numbers of 32 bits (WIRE.md). The
    rounding moves a coordinate of the mean (of the rotated mean, under a shared rotation) by at most 2^-23 of one
    report's root mean square, whatever the number of reports; over random signs by √n less. Memory is O(dim).

    Its state comes from reports alone, which are private already: it is as safe to share as they are.

    Parameters
    ----------
    mechanism
        The one that all its reports come from.

    Examples
    --------
    >>> from streamsketch.local import PrivUnitG
    >>> mechanism = PrivUnitG(dim=2, epsilon=8.0)
    >>> north, south = mechanism.aggregator(), mechanism.aggregator()
    >>> north.add(mechanism.randomize_many([[1, 0]] * 5000))
    >>> south.add(mechanism.randomize_many([[0, 1]] * 5000))
    >>> north.merge(south)
    >>> bool(abs(north.mean() - 0.5).max() < 8 * north.standard_error())
    True
    """

    __slots__ = ("_count", "_mechanism", "_step_exponent", "_totals")

    def __init__(self, mechanism: "Mechanism") -> None:
        self._mechanism = mechanism
        self._step_exponent = step_exponent_of(mechanism)
        self._count = 0
        self._totals = np.zeros(mechanism.state_dim, dtype=np.int64)

    @classmethod
    def from_parts(cls, mechanism: "Mechanism", count: int, totals: Ints) -> Self:
        """Return the aggregator with this state.

        Raises
        ------
        InvalidInputError
            If no reports add up to it.
        """
        if type(count) is not int or not 0 <= count <= MAX_COUNT:
            raise InvalidInputError(f"an aggregator holds 0 to {MAX_COUNT} reports, got {short(count)}")
        if not isinstance(totals, np.ndarray):
            raise InvalidInputError(f"totals must be an array, got a {type(totals).__name__}")
        if totals.dtype != np.int64 or totals.shape != (mechanism.state_dim,):
            raise InvalidInputError(
                f"totals of {mechanism!r} must be int64 of shape ({mechanism.state_dim},), got {totals.dtype} of shape "
                f"{totals.shape}"
            )
        largest = max(int(totals.max()), -int(totals.min()))
        most = count * int(_LIMIT)
        if largest > most:
            raise InvalidInputError(
                f"the totals hold {largest}, more than {count} reports add up to, {most} at most: count and totals are "
                f"not of one aggregator"
            )
        self = cls(mechanism)
        cells = totals.astype(np.float64)
        length = math.sqrt(float(np.einsum("i,i->", cells, cells))) * self.step
        longest = mechanism.longest_contribution + self.step * math.sqrt(cells.size) / 2  # and its rounding
        if length > count * longest * (1 + _SLACK):
            raise InvalidInputError(
                f"the totals have the length {length:.6g}, more than {count} honest reports of {mechanism!r} add up "
                f"to, {count * longest:.6g} at most: they were damaged, or are not honest"
            )
        self._count, self._totals = count, totals.copy()
        return self

    @property
    def mechanism(self) -> "Mechanism":
        """What all reports come from."""
        return self._mechanism

    @property
    def count(self) -> int:
        """How many reports were added."""
        return self._count

    @property
    def totals(self) -> Ints:
        """The state: int64, (mechanism.state_dim,), a copy, in `step`."""
        return self._totals.copy()

    @property
    def step(self) -> float:
        """What one unit of the state means: a power of two."""
        return 2.0**self._step_exponent

    @property
    def step_exponent(self) -> int:
        """The base-2 logarithm of `step`."""
        return self._step_exponent

    def add(self, reports: Report | Reports) -> None:
        """Add one report or a batch.

        Raises
        ------
        TypeError
            If it is neither.
        InvalidInputError
            If they come from another mechanism, or one has a length that no honest report has
            (`Mechanism.honest_lengths`); nothing is added then. `add_plausible` leaves such reports out.
        SketchOverflowError
            Beyond 2^31 - 1 reports; nothing is added then.
        """
        seeds, values = self._arrays(reports)
        if not all_fit(self._mechanism, values):
            raise InvalidInputError(f"{implausible(self._mechanism, values)}. Leave such reports out by add_plausible")
        self._add(seeds, values)

    def add_plausible(self, reports: Report | Reports) -> int:
        """Add those of a batch that an honest person may have sent; return how many were left out.

        Raises
        ------
        TypeError, SketchOverflowError
            As `add`.
        InvalidInputError
            If they come from another mechanism; nothing is added then.
        """
        seeds, values = self._arrays(reports)
        fit = lengths_fit(self._mechanism, values)
        if not fit.all():
            seeds, values = seeds[fit], values[fit]
        return int(fit.size - seeds.size) + self._add_each(seeds, values)

    def _arrays(self, reports: Report | Reports) -> tuple[Words, NDArray[Any]]:
        if isinstance(reports, Report):
            seeds, values = np.array([reports.seed], dtype=np.uint64), reports.values[np.newaxis].copy()
        elif isinstance(reports, Reports):  # arrays of one layout, so that one compiled kernel serves all
            seeds, values = (np.require(part, None, ["C", "A", "W"]) for part in (reports.seeds, reports.values))
        else:
            raise TypeError(f"an aggregator adds a Report or Reports, got a {type(reports).__name__}")
        self._check_same(reports.mechanism)
        self._check_count(seeds.size)
        return seeds, values

    def _add(self, seeds: Words, values: NDArray[Any]) -> None:
        self._mechanism.add_steps(seeds, values, self._totals, self.step, _LIMIT)
        self._count += seeds.size

    def _add_each(self, seeds: Words, values: NDArray[Any]) -> int:
        """Add what can be added, and return how many reports could not: values that are all in one cell, for one."""
        try:
            self._add(seeds, values)
        except InvalidInputError:
            if seeds.size == 1:
                return 1
            half = seeds.size // 2
            return self._add_each(seeds[:half], values[:half]) + self._add_each(seeds[half:], values[half:])
        return 0

    def merge(self, other: "MeanAggregator") -> None:
        """Add all reports of another aggregator of an equal mechanism, exactly.

        Raises
        ------
        TypeError, InvalidInputError, SketchOverflowError
            As `add`.
        """
        if not isinstance(other, MeanAggregator):
            raise TypeError(f"a MeanAggregator merges with another, got a {type(other).__name__}")
        self._check_same(other.mechanism)
        if other.step_exponent != self._step_exponent:  # pickled on a machine that rounded it otherwise
            raise InvalidInputError(
                f"totals in steps of 2^{other.step_exponent} cannot be added to totals in steps of "
                f"2^{self._step_exponent}; add the reports themselves on one machine"
            )
        self._check_count(other.count)
        self._totals += other.totals
        self._count += other.count

    def mean(self) -> Floats:
        """Return the estimated mean of the vectors: float64, (dim,).

        Raises
        ------
        InvalidInputError
            Before the first report.
        """
        self._check_not_empty()
        whole = self._mechanism.mean_of(self._totals.astype(np.float64) * (self.step / self._count))
        return whole[: self._mechanism.dim].copy()

    def standard_error(self) -> float:
        """Return the standard error of a coordinate of `mean`: √(noise / sphere_dim + limiting_squared_error).

        The noise, what `expected_squared_error` has beyond the limit, spreads over the coordinates: evenly but for
        its part along the vectors, which in a few dimensions may put up to all of it on one. The bias of a biased
        mechanism does not: it lies along the vectors, or anywhere, so each coordinate is charged with all of it.

        Raises
        ------
        InvalidInputError
            Before the first report.
        """
        self._check_not_empty()
        limit = self._mechanism.limiting_squared_error
        noise = self._mechanism.expected_squared_error(self._count) - limit
        return math.sqrt(max(0.0, noise) / self._mechanism.sphere_dim + limit)

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int | None = None) -> Self:
        """Return the aggregator in ``data``.

        Raises
        ------
        WireFormatError
            If the bytes are not a sound aggregator, no reports of a length that honest ones have add up to its
            totals, or they are more than ``max_bytes``,
            by default `Limits.max_bytes`. The state in memory is at most 8 times the bytes.
        """
        return cls._decoded(data, max_bytes=max_bytes)

    def copy(self) -> Self:
        """Return an independent copy."""
        again = type(self).from_parts(self._mechanism, self._count, self._totals)
        # what the totals are in, were it pickled where it came out otherwise
        again._step_exponent = self._step_exponent  # noqa: SLF001 - its own kind
        return again

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeanAggregator):
            return NotImplemented
        mine, theirs = ((one.mechanism, one.count, one.step_exponent) for one in (self, other))
        return mine == theirs and np.array_equal(self._totals, other.totals)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"MeanAggregator({self._mechanism!r}, {self._count} reports)"

    def _check_same(self, theirs: "Mechanism") -> None:
        mine = self._mechanism
        if mine is theirs or mine == theirs:
            return
        ours, others = mine.agreed_fields(), theirs.agreed_fields()
        names = [name for name in ours | others if ours.get(name) != others.get(name)]
        differing = "; ".join(f"{name} is {ours.get(name)!r} here, {others.get(name)!r} there" for name in names)
        raise InvalidInputError(f"reports of different mechanisms do not add up: {differing}. Agree on one")

    def _check_count(self, more: int) -> None:
        if self._count + more > MAX_COUNT:
            raise SketchOverflowError(
                f"an aggregator holds at most {MAX_COUNT} reports: this one has {self._count}, {more} more were not "
                f"added. Average the means of several, weighted by their counts"
            )

    def _check_not_empty(self) -> None:
        if not self._count:
            raise InvalidInputError("no report was added yet: there is no mean to estimate")


def step_exponent_of(mechanism: "Mechanism") -> int:
    """Return e, 2^e the greatest power of two that is at most 2^-22 of what a report adds to a cell."""
    return power_below(mechanism.cell_size) - _STEPS_PER_SIZE
