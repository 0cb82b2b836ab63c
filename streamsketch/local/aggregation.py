"""The server: an exact, mergeable sum of reports, and the estimated mean."""

import math
from typing import Self

import numpy as np

from streamsketch.core.numbers import Floats, Ints, check_int
from streamsketch.errors import InvalidInputError, SketchOverflowError
from streamsketch.kernels.hashing import Words
from streamsketch.local.mechanism import Mechanism
from streamsketch.local.plausible_lengths import all_fit, implausible, lengths_fit
from streamsketch.local.portable_floats import power_below
from streamsketch.local.report import Report, Reported, Reports, Values
from streamsketch.release.published import Encoded

MAX_COUNT = (1 << 31) - 1
"""Largest number of reports of one aggregator: each adds at most 2^32 steps to a cell, so cells fit into 63 bits."""

_STEPS_PER_SIZE = 22  # log2 of the steps in a contribution's root mean square
_LIMIT = 2.0**32  # steps: 1024 times the root mean square; honest values are below a few hundred times
_SLACK = 1e-6  # relative, for the floating-point sum of a length


class MeanAggregator(Encoded):
    """Sums locally private reports, and estimates the mean of the vectors behind them.

    Every contribution is rounded once, to a multiple of 2^-22 of its root mean square, and added as an integer. So
    merges are exact, and the mean has the same bits on every machine, however the reports were split and ordered:
    contributions follow from IEEE sums, products, quotients and roots, and from numbers of 32 bits (WIRE.md). Rounding
    moves a coordinate of the mean (of the rotated mean, under a shared rotation) by at most 2^-23 of one report's root
    mean square, for any number of reports, and by √n less if the errors have random signs. Memory is O(dim).

    The state is computed only from reports, which are private, so it is as safe to share as they are.

    Parameters
    ----------
    mechanism
        The mechanism of all reports.

    Examples
    --------
    >>> from streamsketch.local import PrivUnitG
    >>> mechanism = PrivUnitG(dim=2, epsilon=8.0)
    >>> north, south = MeanAggregator(mechanism), MeanAggregator(mechanism)
    >>> north.add(mechanism.randomize_many([[1, 0]] * 5000))
    >>> south.add(mechanism.randomize_many([[0, 1]] * 5000))
    >>> north.merge(south)
    >>> bool(abs(north.mean() - 0.5).max() < 8 * north.standard_error())
    True
    """

    magic = b"\x89SSM\r\n\x1a\n"

    __slots__ = ("_count", "_mechanism", "_step_exponent", "_totals")

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._step_exponent = step_exponent_of(mechanism)
        self._count = 0
        self._totals = np.zeros(mechanism.state_dim, dtype=np.int64)

    @classmethod
    def from_parts(cls, mechanism: Mechanism, count: int, totals: Ints) -> Self:
        """Return the aggregator with this state.

        Raises
        ------
        InvalidInputError
            If no reports can sum to this state.
        """
        check_int(count, "the number of reports", 0, MAX_COUNT)
        if not isinstance(totals, np.ndarray):
            raise InvalidInputError(f"totals must be a NumPy array, got a {type(totals).__name__}")
        if totals.dtype != np.int64 or totals.shape != (mechanism.state_dim,):
            raise InvalidInputError(
                f"totals of {mechanism!r} must be int64 of shape ({mechanism.state_dim},), got {totals.dtype} of shape "
                f"{totals.shape}"
            )
        largest = max(int(totals.max()), -int(totals.min()))
        most = count * int(_LIMIT)
        if largest > most:
            raise InvalidInputError(
                f"the totals contain {largest}, but {count} reports add up to at most {most}; take count and totals "
                "from the same aggregator"
            )
        self = cls(mechanism)
        cells = totals.astype(np.float64)
        length = math.sqrt(float(np.einsum("i,i->", cells, cells))) * self.step
        longest = mechanism.longest_contribution + self.step * math.sqrt(cells.size) / 2  # including rounding
        if length > count * longest * (1 + _SLACK):
            raise InvalidInputError(
                f"the totals have length {length:.6g}, but {count} honest reports of {mechanism!r} add up to at most "
                f"{count * longest:.6g}; some reports are damaged or dishonest"
            )
        self._count, self._totals = count, totals.copy()
        return self

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of all reports."""
        return self._mechanism

    @property
    def count(self) -> int:
        """Number of reports added."""
        return self._count

    @property
    def totals(self) -> Ints:
        """A copy of the state in multiples of `step`, int64 of shape (mechanism.state_dim,)."""
        return self._totals.copy()

    @property
    def step(self) -> float:
        """The value of one unit of the state, a power of two."""
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
            If ``reports`` is neither.
        InvalidInputError
            If they come from another mechanism, or one has a length that no honest report has
            (`Mechanism.honest_lengths`); nothing is added then. `add_plausible` skips such reports.
        SketchOverflowError
            For more than 2^31 - 1 reports in total; nothing is added then.
        """
        seeds, values = self._arrays(reports)
        if not all_fit(self._mechanism, values):
            raise InvalidInputError(f"{implausible(self._mechanism, values)}. To skip such reports, use add_plausible")
        self._add(seeds, values)

    def add_plausible(self, reports: Report | Reports) -> int:
        """Add the reports that an honest person may have sent; return the number of others, which are skipped.

        Raises
        ------
        TypeError, SketchOverflowError
            As in `add`.
        InvalidInputError
            If they come from another mechanism; nothing is added then.
        """
        seeds, values = self._arrays(reports)
        fit = lengths_fit(self._mechanism, values)
        if not fit.all():
            seeds, values = seeds[fit], values[fit]
        return int(fit.size - seeds.size) + self._add_each(seeds, values)

    def _arrays(self, reports: Report | Reports) -> tuple[Words, Values]:
        if isinstance(reports, Report):
            seeds, values = np.array([reports.seed], dtype=np.uint64), reports.values[np.newaxis].copy()
        elif isinstance(reports, Reports):  # arrays of one layout need only one compiled kernel
            seeds, values = (np.require(part, None, ["C", "A", "W"]) for part in (reports.seeds, reports.values))
        else:
            raise TypeError(f"reports must be a Report or Reports, got a {type(reports).__name__}")
        self._check_same(reports.mechanism)
        self._check_count(seeds.size)
        return seeds, values

    def _add(self, seeds: Words, values: Values) -> None:
        self._mechanism.add_steps(seeds, values, self._totals, self.step, _LIMIT)
        self._count += seeds.size

    def _add_each(self, seeds: Words, values: Values) -> int:
        """Add reports that can be added; return the number of others, such as those with all values in one cell."""
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
        TypeError
            If ``other`` is not a MeanAggregator.
        InvalidInputError
            If its mechanism or its `step` differs.
        SketchOverflowError
            For more than 2^31 - 1 reports in total.
        """
        if not isinstance(other, MeanAggregator):
            raise TypeError(f"a MeanAggregator merges only with a MeanAggregator, got a {type(other).__name__}")
        self._check_same(other.mechanism)
        if other.step_exponent != self._step_exponent:  # pickled on a machine that rounded it differently
            raise InvalidInputError(
                f"totals in steps of 2^{other.step_exponent} cannot be added to totals in steps of "
                f"2^{self._step_exponent}; add the reports on one machine instead"
            )
        self._check_count(other.count)
        self._totals += other.totals
        self._count += other.count

    def __add__(self, other: "MeanAggregator") -> Self:
        total = self.copy()
        total.merge(other)
        return total

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

        The noise, `expected_squared_error` minus the limit, spreads evenly over the coordinates, except for its part
        along the vectors, which in few dimensions may fall on one coordinate. The bias of a biased mechanism may lie
        along any direction, so all of it is attributed to each coordinate.

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
            If the bytes are not a valid aggregator, if no honest reports can add up to its totals, or if they are
            longer than ``max_bytes``, by default `Limits.max_bytes`. The state takes at most 8 times their memory.
        """
        return cls._decoded(data, max_bytes=max_bytes)

    def copy(self) -> Self:
        """Return an independent copy."""
        again = type(self).from_parts(self._mechanism, self._count, self._totals)
        # a pickle may come from a machine that rounded the step differently
        again._step_exponent = self._step_exponent  # noqa: SLF001 - same class
        return again

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeanAggregator):
            return NotImplemented
        mine, theirs = (
            (aggregator.mechanism, aggregator.count, aggregator.step_exponent) for aggregator in (self, other)
        )
        return mine == theirs and np.array_equal(self._totals, other.totals)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"MeanAggregator({self._mechanism!r}, {self._count} reports)"

    def _check_same(self, theirs: Reported) -> None:
        mine = self._mechanism
        if mine is theirs or mine == theirs:
            return
        ours, others = mine.agreed_fields(), theirs.agreed_fields()
        names = [name for name in ours | others if ours.get(name) != others.get(name)]
        differing = "; ".join(f"{name} is {ours.get(name)!r} here, {others.get(name)!r} there" for name in names)
        raise InvalidInputError(
            f"reports of different mechanisms cannot be added: {differing}. Use one mechanism for all reports"
        )

    def _check_count(self, more: int) -> None:
        if self._count + more > MAX_COUNT:
            raise SketchOverflowError(
                f"an aggregator holds at most {MAX_COUNT} reports; this one has {self._count}, and {more} more were "
                "not added. Use several aggregators, and average their means weighted by count"
            )

    def _check_not_empty(self) -> None:
        if not self._count:
            raise InvalidInputError("the aggregator has no reports, so there is no mean to estimate; add reports first")


def step_exponent_of(mechanism: Mechanism) -> int:
    """Return e such that 2^e is the largest power of two up to 2^-22 of the mechanism's `Mechanism.cell_size`."""
    return power_below(mechanism.cell_size) - _STEPS_PER_SIZE
