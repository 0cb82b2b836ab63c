"""Any range of the windows that were published by a schedule, from all of its rows."""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from streamsketch.core.libraries import pa
from streamsketch.core.numbers import short
from streamsketch.data.windows import window_time
from streamsketch.errors import InvalidInputError, SketchOverflowError
from streamsketch.estimation.changes import (
    Against,
    Changes,
    Control,
    SeriesOptions,
    changes_of,
    check_series_options,
    typical_tolerance,
)
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.estimators import squared_norm
from streamsketch.estimation.same import (
    SameBy,
    SameTest,
    check_same_by,
    check_tolerance,
    distance_of_multiples,
    same_as_zero,
    same_shape_of_ranges,
)
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection
from streamsketch.release.history import HistoryPart
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.schedules.progress import decoded

Range: TypeAlias = tuple[Any, Any] | str
"""Windows from the first to the second, without it, by number or name; or a year, month or date, by name."""

Curve: TypeAlias = Literal["squared_norm", "units"]
"""What is estimated of each range of a series."""

_MOST_CELL = float(1 << 62)
_CONFIDENCE = 0.95
_PERIOD = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_MICRO = dt.timedelta(microseconds=1)
_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class History:
    """The published rows of a stream with a schedule, from which any range of windows can be read as a release.

    Rows are solved once (Theory 11.1). All ranges share the noise of the rows, so compare two ranges by `difference`,
    `squared_distance` and `sameness`. Ranges of two streams have independent noise, so compare them by the usual
    estimators. Reading spends nothing: one guarantee covers all rows and everything computed from them.

    Parameters
    ----------
    releases
        All rows from the first window on, in any order: `PrivateSketch` objects, or `PrivateTable` objects with
        ``key``.
    key
        The key whose rows are read, if the releases are tables of several keys.
    names
        The names of the windows, in order: text such as ``"2013-01-31"``, as in the names of the files that `sketch
        --job` writes. By default windows have only numbers.

    Raises
    ------
    TypeError
        If an element is not a release.
    InvalidInputError
        If there are no releases, or they belong to several histories; if a row is missing, or appears twice with
        different content; if tables have several keys and ``key`` is missing or not one of them; if names are not times
        of windows in order.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, AdditiveNoise, continual
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> publish = AdditiveNoise(epsilon=1.0, neighbours=L1(1, unit="sale"), schedule=continual.Tree(horizon=365))
    >>> days = []
    >>> for day in range(60):
    ...     days.append(projection.sketch())
    ...     days[day].update(["tea", "jam"], [300, 40 if day < 30 else 140])
    >>> history = History(continual.release(days, publish))
    >>> history.range(0, 30).guarantee.epsilon, history.sameness((0, 30), (30, 60)).p_value < 0.001
    (1.0, True)
    """

    def __init__(
        self,
        releases: Iterable[PrivateSketch | PrivateTable],
        key: object = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        rows = _in_order([_row_of(release, key) for release in releases])
        self._rows = rows
        self._prefixes = decoded(self.schedule, np.array([row.numbers for row in rows]))
        self._times = None if names is None else _times_of(names, len(rows))
        self._names = None if names is None else list(names)

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """The schedule, that is, which sums of windows were published."""
        return cast("Schedule", self.guarantee.mechanism.layout.schedule)  # which all rows state

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all rows together, and for everything computed from them."""
        return self._rows[0].guarantee

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._rows[0].projection

    @property
    def windows(self) -> int:
        """The number of windows that were published so far."""
        return len(self._rows)

    @property
    def names(self) -> list[str] | None:
        """The windows' names; None if they have only numbers."""
        return None if self._names is None else list(self._names)

    def __len__(self) -> int:
        return self.windows

    def __repr__(self) -> str:
        return f"<History of {self.windows} windows, {self.schedule}>"

    # --- ranges ---------------------------------------------------------------------------------------------

    def range(self, start: int | str, stop: int | str | None = None) -> PrivateSketch:
        """Return the release of all windows from ``start`` to ``stop``, without ``stop``.

        Parameters
        ----------
        start, stop
            Numbers or names of windows. A single name of a year, a month, a date or a window, such as ``"2013-01"``,
            represents all windows that begin in it.

        Returns
        -------
        PrivateSketch
            The release. Its noise comes from its rows, with the schedule's `error`, and it has the guarantee of the
            history. Counts add up the units of each window: a unit in two windows counts twice.

        Raises
        ------
        InvalidInputError
            If the range is empty, a window was not published, or a name is neither a window nor a period that was
            published in full.
        SketchOverflowError
            If a cell would leave 62 bits.
        """
        begin, end = self.numbers((start, stop) if stop is not None else start)
        return self._solved(HistoryPart(self._part.id, begin, end))

    def difference(self, first: Range, second: Range) -> PrivateSketch:
        """Return the release of one range minus another, with the noise that remains.

        Parameters
        ----------
        first, second
            Ranges ``(start, stop)`` as in `range`, or names of periods.

        Raises
        ------
        InvalidInputError, SketchOverflowError
            As in `range`, and if both ranges are the same.
        """
        (begin, end), minus = self.numbers(first), self.numbers(second)
        return self._solved(HistoryPart(self._part.id, begin, end, minus=minus))

    def squared_distance(self, first: Range, second: Range) -> Estimate:
        """Estimate the squared distance of two ranges of this stream, with the noise that they share.

        It has the parameters and raises the errors of `difference`.
        """
        return squared_norm(self.difference(first, second))

    def sameness(self, first: Range, second: Range, tolerance: float = 0.0, *, by: SameBy = "distance") -> SameTest:
        """Test whether two ranges of this stream are the same, or at most ``tolerance`` apart.

        See `streamsketch.sameness`. The noise that both ranges share is accounted for. Ranges of different lengths are
        compared ``by="profile"`` or ``"cosine"``, whatever their size; there is no test of averages. It has the
        parameters and raises the errors of `difference` and of that function.
        """
        _check_by(by)
        if by == "distance":
            return same_as_zero(self.difference(first, second), tolerance)
        check_tolerance(tolerance)
        return same_shape_of_ranges(*self._pair(first, second), by, float(tolerance))

    def _pair(self, first: Range, second: Range) -> tuple[PrivateSketch, PrivateSketch]:
        """Return two ranges that differ."""
        left, right = self.numbers(first), self.numbers(second)
        HistoryPart(self._part.id, *left, minus=right)
        return self.range(*left), self.range(*right)

    def numbers(self, wanted: Range | int) -> tuple[int, int]:
        """Return the numbers of the windows of a range. Raises the same errors as `range`."""
        try:
            return self._numbers(wanted)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error}. {self._form_of_ranges()}") from None

    def _form_of_ranges(self) -> str:
        """Return how a range is written: the end of every message that refuses one."""
        first, last = self._name(0), self._name(self.windows - 1)
        if self._times is None:
            return (
                f"A range is written by its first window and the one after its last: (0, {self.windows}), on the "
                f"command line 0..{self.windows}"
            )
        return (
            f"A range is written by its first window and the one after its last: ({first!r}, {last!r}), or by number "
            f"(0, {self.windows}), on the command line {first}..{last} or 0..{self.windows}; or as a year, month or "
            f"day, such as {first[:7]}, for all windows that begin in it"
        )

    def _numbers(self, wanted: Range | int) -> tuple[int, int]:
        if isinstance(wanted, str):
            begin, end = self._of_period(wanted)
        elif isinstance(wanted, tuple) and len(wanted) == 2:
            begin, end = map(self._number, wanted)
        else:
            raise InvalidInputError(
                f"a range must be a pair (first window, window after the last) or a name, got {short(wanted)}"
            )
        self.schedule.check_range(begin, end, self.windows)
        return begin, end

    # --- curves ---------------------------------------------------------------------------------------------

    def series(
        self, length: int, every: int = 1, *, what: Curve = "squared_norm", confidence: float = 0.95
    ) -> "pa.Table":
        """Estimate a quantity of each range of ``length`` windows, for a curve with a band.

        Parameters
        ----------
        length
            Number of windows in a range.
        every
            Number of windows from the start of a range to the start of the next.
        what
            The ``"squared_norm"``, in squared data units; or, if units were counted, the number of ``"units"``, where a
            unit counts once in each of its windows.
        confidence
            The confidence of each interval, in (0, 1).

        Returns
        -------
        pyarrow.Table
            One row for each range: ``start`` and ``stop``, numbers of windows; ``window``, the name of the first
            window, or its number as text; ``estimate``, ``error``, ``low`` and ``high``, float64.

        Raises
        ------
        InvalidInputError
            If there is no range of this length, or units were not counted.
        """
        if what not in get_args(Curve):
            raise InvalidInputError(f"what must be one of {', '.join(get_args(Curve))}, got {short(what)}")
        estimates = []
        for begin, end in self._ranges(length, every):
            release = self.range(begin, end)
            estimates.append(squared_norm(release) if what == "squared_norm" else release.units)
        ends = [estimate.interval(confidence) for estimate in estimates]
        starts = [begin for begin, _ in self._ranges(length, every)]
        return pa.table(
            {
                "start": pa.array(starts, pa.int64()),
                "stop": pa.array([start + length for start in starts], pa.int64()),
                "window": [self._name(start) for start in starts],
                "estimate": [estimate.value for estimate in estimates],
                "error": [estimate.standard_error for estimate in estimates],
                "low": [low for low, _ in ends],
                "high": [high for _, high in ends],
            }
        )

    def changes(
        self,
        length: int,
        every: int | None = None,
        *,
        against: Against = "previous",
        tolerance: float | Literal["typical"] = 0.0,
        by: SameBy = "distance",
        level: float = 0.05,
        control: Control = "any",
    ) -> Changes:
        """Find the ranges of ``length`` windows that differ from the one before, or from the first.

        See `streamsketch.changes`. The ranges are of one stream, and the noise that they share is accounted for.

        Parameters
        ----------
        length, every
            As in `series`; by default ranges follow each other.
        against, tolerance, level, control
            As in `streamsketch.changes`. ``control="any"`` is valid for any dependence of the tests.
        by
            As in `sameness`.

        Raises
        ------
        InvalidInputError
            If there are fewer than two ranges, and as in `streamsketch.changes`.
        """
        check_series_options(against, control, level)
        if tolerance != "typical":
            check_tolerance(tolerance)
        ranges = self._ranges(length, length if every is None else every)
        if len(ranges) < 2:
            raise InvalidInputError(f"a series needs at least two ranges to compare, got {len(ranges)}")
        pairs = [(ranges[i], ranges[0 if against == "first" else i - 1]) for i in range(1, len(ranges))]
        _check_by(by)
        distances = [self._apart(*pair, by) for pair in pairs] if tolerance == "typical" else []
        allowed = typical_tolerance(distances) if tolerance == "typical" else float(tolerance)
        tests = tuple(self.sameness(*pair, allowed, by=by) for pair in pairs)
        windows, before = ([self._name(pair[place][0]) for pair in pairs] for place in (0, 1))
        options = SeriesOptions(allowed, against, by, samples=False, level=level, control=control)
        return changes_of(windows, before, tests, options)

    def _apart(self, first: Range, second: Range, by: SameBy) -> Estimate:
        """Estimate the distance whose typical size is a tolerance."""
        return (
            self.squared_distance(first, second)
            if by == "distance"
            else distance_of_multiples(*self._pair(first, second))
        )

    # --- within ---------------------------------------------------------------------------------------------

    @property
    def _part(self) -> HistoryPart:
        return _part_of(self._rows[0])

    def _solved(self, part: HistoryPart) -> PrivateSketch:
        """Return the release of a part of the history."""
        first = self._rows[0]
        numbers = self._prefixes[part.stop] - self._prefixes[part.start]
        if part.minus is not None:
            numbers = numbers - (self._prefixes[part.minus[1]] - self._prefixes[part.minus[0]])
        halvings = self.schedule.scale.bit_length() - 1
        if halvings:
            numbers = numbers * float(self.schedule.scale)
            if np.abs(numbers).max() >= _MOST_CELL:
                raise SketchOverflowError(
                    f"the sum of these windows could exceed 2**62 steps of 2^-{halvings} of the grid in a cell: read "
                    "fewer windows"
                )
            numbers = np.rint(numbers).astype(np.int64)
        cells, counts = first.layout.split(numbers, self.projection.sketch_dim)
        return PrivateSketch(
            self.projection,
            cells,
            part.noise(self.guarantee.mechanism.layout, first.noise).scaled(self.schedule.scale),
            self.guarantee,
            multiplier=Fraction(1, self.schedule.scale),
            release_ids=first.release_ids,
            data_ids=first.data_ids,
            counts=None if part.minus is not None else counts,
            history=part,
            agreement=first.agreement,
            clip=first.clip if part.minus is None else None,
        )

    def _ranges(self, length: int, every: int) -> list[tuple[int, int]]:
        if type(length) is not int or type(every) is not int or not (0 < length <= self.windows and every > 0):
            raise InvalidInputError(
                f"length must be 1 to {self.windows} windows and every at least 1, got length={short(length)} and "
                f"every={short(every)}"
            )
        return [(begin, begin + length) for begin in range(0, self.windows - length + 1, every)]

    def _name(self, window: int) -> str:
        return str(window) if self._names is None else self._names[window]

    def _number(self, window: object) -> int:
        """Return the number of a window by name, or of the first that is not before a date."""
        if not isinstance(window, str):
            if type(window) is not int and not isinstance(window, np.integer):
                raise InvalidInputError(f"a window must be a number or a name, got {short(window)}")
            return int(window)
        if self._times is None:
            raise InvalidInputError(f"the windows have numbers only, got the name {short(window)}: pass names")
        time = window_time(window)
        if time is None:
            raise InvalidInputError(f"{short(window)} is not the name of a window, such as {self._name(0)}")
        if time in self._times:
            return self._times.index(time)
        if time > self._times[-1] and time <= self._after_last():
            return self.windows
        raise InvalidInputError(
            f"no window begins at {short(window)}: windows begin from {self._name(0)} to {self._name(self.windows - 1)}"
        )

    def _of_period(self, name: str) -> tuple[int, int]:
        """Return the windows that begin in a year, a month, a date, or at a time."""
        if self._times is None:
            raise InvalidInputError(f"the windows have numbers only, got the name {short(name)}: pass names")
        match = _PERIOD.fullmatch(name)
        if match is None:
            begin = self._number(name)
            return begin, begin + 1
        start, stop = _period(*match.groups())
        begin = sum(time < start for time in self._times)
        end = sum(time < stop for time in self._times)
        has_start = begin < self.windows and self._times[begin] == start
        if not has_start or (end == self.windows and self._after_last() < stop):
            raise InvalidInputError(
                f"{name} was not published in full: windows begin from {self._name(0)} to "
                f"{self._name(self.windows - 1)}"
            )
        return begin, end

    def _after_last(self) -> int:
        """Return where the window after the last begins, as far as the last two tell."""
        times = self._times or [0]
        return times[-1] + (times[-1] - times[-2] if len(times) > 1 else 1)


def _check_by(by: str) -> None:
    """Raise `InvalidInputError` for what ranges are not compared by."""
    check_same_by(by, samples=False)
    if by == "mean":
        raise InvalidInputError(
            "ranges of one history are compared by 'distance', 'profile' or 'cosine', got by='mean': their counts "
            "share noise. 'profile' compares what they consist of, whatever the number of units"
        )


def _row_of(release: object, key: object) -> PrivateSketch:
    """Return the row of a stream, or of a key."""
    if isinstance(release, PrivateTable):
        keys = list(release)
        if key is None and len(keys) > 1:
            raise InvalidInputError(f"the rows are tables of {len(keys)} keys: pass one, such as key={keys[0]!r:.40}")
        if key is not None and key not in release:
            raise InvalidInputError(
                f"there is no key {key!r:.40} in the rows: they have {', '.join(map(repr, keys))[:80]}"
            )
        release = release[keys[0] if key is None else key]
    elif key is not None:
        raise InvalidInputError(f"the rows are of one stream without keys: leave out key={key!r:.40}")
    if not isinstance(release, PrivateSketch):
        raise TypeError(f"a history is made of PrivateSketch or PrivateTable objects, got a {type(release).__name__}")
    if release.history is None or not release.history.is_row:
        raise InvalidInputError(
            "a history is made of rows, as they are published by a schedule, and this is "
            + ("no part of a history" if release.history is None else str(release.history))
        )
    return release


def _part_of(row: PrivateSketch) -> HistoryPart:
    return cast("HistoryPart", row.history)  # of rows, as `_row_of` takes no others


def _in_order(rows: Sequence[PrivateSketch]) -> list[PrivateSketch]:
    """Return rows of one history by window, each once."""
    if not rows:
        raise InvalidInputError("a history needs at least one row, got none")
    first, by_window = rows[0], dict[int, PrivateSketch]()
    for row in rows:
        part, its = _part_of(row), _part_of(first)
        same = (part.id, row.guarantee, row.noise, row.data_ids) == (
            its.id,
            first.guarantee,
            first.noise,
            first.data_ids,
        )
        if not same or (row.projection, row.agreement) != (first.projection, first.agreement):
            raise InvalidInputError(
                f"{its} and {part} belong to different histories, streams or keys, or have different guarantees: read "
                "each history by itself"
            )
        if by_window.setdefault(part.start, row) != row:
            raise InvalidInputError(
                f"{part} is there twice, with different numbers: ask the publisher which is correct"
            )
    missing = sorted(set(range(max(by_window) + 1)) - set(by_window))
    if missing:
        raise InvalidInputError(
            f"the rows of {len(missing)} windows are missing, first the row of window {missing[0]}: all rows from the "
            "first window to the last are needed"
        )
    return [by_window[window] for window in range(len(by_window))]


def _times_of(names: Sequence[str], windows: int) -> list[int]:
    if len(names) != windows:
        raise InvalidInputError(f"names must hold one name for each of {windows} windows, got {len(names)}")
    times = [window_time(name) if isinstance(name, str) else None for name in names]
    for name, time, before in zip(names, times, [None, *times], strict=False):
        if time is None or (before is not None and time <= before):
            raise InvalidInputError(
                f"names must be times in increasing order: {short(name)} is not a time, or not after the name before it"
            )
    return [time for time in times if time is not None]


def _period(year: str, month: str | None, day: str | None) -> tuple[int, int]:
    """Return the start of a year, month or date and the start of the next one, in microseconds since 1970."""
    try:
        start = dt.datetime(int(year), int(month or 1), int(day or 1), tzinfo=dt.UTC)
        if day is not None:
            stop = start + dt.timedelta(days=1)
        elif month is not None:
            stop = (start + dt.timedelta(days=31)).replace(day=1)
        else:
            stop = start.replace(year=start.year + 1)
    except (ValueError, OverflowError):
        raise InvalidInputError(f"there are no dates from {year}-{month or '01'}-{day or '01'} on") from None
    return (start - _1970) // _MICRO, (stop - _1970) // _MICRO
