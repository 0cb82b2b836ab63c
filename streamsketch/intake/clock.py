"""The event-time clock of a log, which decides which events are late."""

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Ints, short
from streamsketch.data.calendar import Calendar, EventWindows
from streamsketch.data.windows import LARGEST_TIME
from streamsketch.errors import InvalidInputError

ClockKind: TypeAlias = Literal["events", "heartbeats"]

MOST_AHEAD = 10_000
"""By default, how many windows a row may be ahead."""

_HOURS = {"day": 23, "week": 7 * 24 - 1, "month": 28 * 24 - 1}  # of the shortest such window
_NEVER = -(1 << 62)  # no number of a window


class AheadLimit(NamedTuple):
    """How many windows a row may be ahead of the watermark.

    A row is too far ahead if its time minus the delay is more than ``most`` windows after the window of the watermark.
    So a row always passes if it is ahead of the newest time by at most the length of ``most`` windows.

    Parameters
    ----------
    windows
        The windows.
    most
        How many of them.
    first
        The number of the first window that is released. A clock that is behind it counts from there, and one that no
        row has advanced yet allows at least 10,000 windows after it, because the first window of a log is unknown. If
        None, there is no limit to the first row.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsketch.data.windows import Tumbling
    >>> clock = Clock(5, limit=AheadLimit(Tumbling(10), most=2))
    >>> clock.ahead(np.array([3, 44, 16])).tolist()
    [False, True, False]
    """

    windows: EventWindows
    most: int = MOST_AHEAD
    first: int | None = None

    @classmethod
    def of_length(cls, windows: EventWindows, length: int | None, first: int | None = None) -> "AheadLimit":
        """Return the limit of a length of time in microseconds, rounded up to whole windows; None is 10,000 windows."""
        if length is None:
            return cls(windows, MOST_AHEAD, first)
        size = _HOURS[windows.period] * 3_600_000_000 if isinstance(windows, Calendar) else windows.size
        return cls(windows, -(-length // size), first)

    def reach(self, before: Ints) -> Ints:
        """Return the number of the last window in reach of watermarks in windows of these numbers: int64, (n,)."""
        first = _NEVER if self.first is None else self.first
        last: Ints = np.where(before == _NEVER, self.last(None), np.maximum(before, first) + self.most)
        return last

    def last(self, before: int | None) -> int:
        """Return the number of the last window in reach of a watermark in a window, None before there is one."""
        if before is not None:
            return (before if self.first is None else max(before, self.first)) + self.most
        return -_NEVER if self.first is None else self.first + max(self.most, MOST_AHEAD)


class Clock:
    """The event-time clock of a log: its watermark is the newest time that advanced it, less a delay.

    An event is late if the rows before it in the log had already advanced the watermark to the end of its window or
    beyond. Wall-clock time is never read. So the log alone determines which events are late, however it is split into
    batches. Times are int64, in microseconds since 1970.

    Parameters
    ----------
    delay
        How far events may be out of order, in microseconds.
    kind
        What advances the clock: every row (``"events"``), or only the rows that the caller marks as heartbeats
        (``"heartbeats"``). With ``"events"``, a row far in the future makes all later rows late, so one unit's events
        can make another's late.
    newest
        The newest time that advanced an earlier clock, to continue from it.
    span
        The earliest and the latest valid time. Rows with other times are late, and do not advance the clock.
    limit
        How far ahead a row may be. One that is further ahead does not advance the clock, and is not late; by default
        there is no limit.

    Raises
    ------
    InvalidInputError
        For another kind.

    Examples
    --------
    Windows of 10 µs, and a delay of 5 µs: at time 16 the watermark is 11, and the first window is over.

    >>> import numpy as np
    >>> from streamsketch.data.windows import Tumbling
    >>> clock, times = Clock(5), np.array([3, 16, 9, 12])
    >>> clock.late(times, Tumbling(10)).tolist()
    [False, False, True, False]
    >>> clock.advance(times)
    >>> clock.newest, clock.watermark
    (16, 11)
    """

    def __init__(
        self,
        delay: int,
        kind: ClockKind = "events",
        *,
        newest: int | None = None,
        span: tuple[int, int] = (-LARGEST_TIME, LARGEST_TIME),
        limit: AheadLimit | None = None,
    ) -> None:
        if kind not in get_args(ClockKind):
            raise InvalidInputError(f"clock must be one of {', '.join(get_args(ClockKind))}, got {short(kind)}")
        self.delay, self.kind, self.newest = delay, kind, newest
        self._low, self._high = span
        self._limit = limit

    @property
    def watermark(self) -> int | None:
        """``newest`` less the delay: windows that end by then are over. None before any row advanced the clock."""
        return None if self.newest is None else self.newest - self.delay

    def newest_before(self, times: Ints, heartbeats: NDArray[np.bool_] | None = None) -> Ints:
        """Return the newest time before each row, and after the last one: int64, (n + 1,).

        Until a row has advanced the clock it is the start of the span, at which nothing is late.
        """
        moves, ahead = self._judged(times, heartbeats)
        newest: Ints = np.maximum.accumulate(np.append(self._before, np.where(moves & ~ahead, times, self._before)))
        return newest

    def ahead(self, times: Ints, heartbeats: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return which of some consecutive rows are too far ahead, without advancing the clock: bool, (n,)."""
        return self._judged(times, heartbeats)[1]

    def late(
        self, times: Ints, windows: EventWindows, heartbeats: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_]:
        """Return which of some consecutive rows are late, without advancing the clock: bool, (n,)."""
        if self._all_in_time(times, windows):
            return np.zeros(times.shape, dtype=bool)
        within = np.clip(times, self._low, self._high)
        newest = self.newest_before(times, heartbeats)[:-1]
        late: NDArray[np.bool_] = (windows.end_of(within) <= newest - self.delay) | (within != times)
        return late & ~self.ahead(times, heartbeats)

    def _all_in_time(self, times: Ints, windows: EventWindows) -> bool:
        """Return whether the window of the earliest row is open even after the latest one, so that no row is late."""
        if not times.size:
            return True
        first, last = int(times.min()), int(times.max())
        is_valid = self._low <= first and last <= self._high
        return is_valid and max(last, self._before) - self.delay < windows.end_of(first)

    def advance(self, times: Ints, heartbeats: NDArray[np.bool_] | None = None) -> None:
        """Advance the clock past rows."""
        moves, ahead = self._judged(times, heartbeats)
        newest = int(times.max(initial=self._before, where=moves & ~ahead))
        if self.newest is not None or newest > self._low:
            self.newest = newest

    @property
    def _before(self) -> int:
        """The newest time that advanced the clock, or the start of the span before there is one."""
        return self._low if self.newest is None else self.newest

    def _judged(self, times: Ints, heartbeats: NDArray[np.bool_] | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows move the clock unless they are too far ahead, and which of all rows are: bool, (n,)."""
        moves = (self._low <= times) & (times <= self._high)
        if self.kind == "heartbeats":
            moves &= False if heartbeats is None else heartbeats
        return moves, self._too_far(times, moves)

    def _too_far(self, times: Ints, moves: NDArray[np.bool_]) -> NDArray[np.bool_]:
        if self._limit is None or not times.size:
            return np.zeros(times.shape, dtype=bool)
        windows, before = self._limit.windows, _NEVER
        if self.newest is not None:
            latest = min(int(times.max()), self._high)
            before, last = (windows.number(max(time - self.delay, self._low)) for time in (self.newest, latest))
            if last <= self._limit.last(before):  # which only grows
                return np.zeros(times.shape, dtype=bool)
        numbers = windows.number(np.maximum(np.clip(times, self._low, self._high) - self.delay, self._low))
        newest = np.maximum.accumulate(np.append(before, np.where(moves, numbers, before)))
        ahead: NDArray[np.bool_] = numbers > self._limit.reach(newest[:-1])
        if (ahead & moves).any():  # one that is too far ahead moves nothing, so each depends on those before it
            reach = self._limit.last(None if before == _NEVER else before)
            for place, number in enumerate(numbers.tolist()):
                ahead[place] = number > reach
                if moves[place] and not ahead[place] and number > before:
                    before = number
                    reach = self._limit.last(before)
        return ahead
