"""The event-time clock of a log, which decides which events are late."""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, short
from streamsketch.errors import InvalidInputError
from streamsketch.intake.calendar import EventWindows
from streamsketch.intake.windows import LARGEST_TIME

ClockKind: TypeAlias = Literal["events", "heartbeats"]


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

    Raises
    ------
    InvalidInputError
        For another kind.

    Examples
    --------
    Windows of 10 µs, and a delay of 5 µs: at time 16 the watermark is 11, and the first window is over.

    >>> import numpy as np
    >>> from streamsketch.intake import Tumbling
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
    ) -> None:
        if kind not in get_args(ClockKind):
            raise InvalidInputError(f"clock must be one of {', '.join(get_args(ClockKind))}, got {short(kind)}")
        self.delay, self.kind, self.newest = delay, kind, newest
        self._low, self._high = span

    @property
    def watermark(self) -> int | None:
        """``newest`` less the delay: windows that end by then are over. None before any row advanced the clock."""
        return None if self.newest is None else self.newest - self.delay

    def newest_before(self, times: Ints, heartbeats: NDArray[np.bool_] | None = None) -> Ints:
        """Return the newest time before each row, and after the last one: int64, (n + 1,).

        Until a row has advanced the clock it is the start of the span, at which nothing is late.
        """
        moves = (self._low <= times) & (times <= self._high)
        if self.kind == "heartbeats":
            moves &= False if heartbeats is None else heartbeats
        before = self._low if self.newest is None else self.newest
        found: Ints = np.maximum.accumulate(np.append(before, np.where(moves, times, before)))
        return found

    def late(
        self, times: Ints, windows: EventWindows, heartbeats: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_]:
        """Return which of some consecutive rows are late, without advancing the clock: bool, (n,)."""
        within = np.clip(times, self._low, self._high)
        over = windows.end_of(within) <= self.newest_before(times, heartbeats)[:-1] - self.delay
        late: NDArray[np.bool_] = over | (within != times)
        return late

    def advance(self, times: Ints, heartbeats: NDArray[np.bool_] | None = None) -> None:
        """Advance the clock past rows."""
        newest = int(self.newest_before(times, heartbeats)[-1])
        if self.newest is not None or newest > self._low:
            self.newest = newest
