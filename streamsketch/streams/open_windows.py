"""Open windows of an unbounded stream, and which rows come too late for them."""

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows
from streamsketch.core.concealed import concealed
from streamsketch.core.numbers import Ints
from streamsketch.data.calendar import check_times_of_day
from streamsketch.data.columns import key_column
from streamsketch.data.windows import LARGEST_TIME, micros_in, not_a_time, readable_times
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.intake.clock import Clock
from streamsketch.intake.columns import BadRowsError, missing, salvage, without_views
from streamsketch.intake.rows import Intake, blank, chosen, rows_from
from streamsketch.once.counts import RowCounts
from streamsketch.once.keys import StateSecret, number_bytes
from streamsketch.sketching.bounding.admission import Admission
from streamsketch.sketching.bounding.contributions import NO_KEY
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import UnitBounds
from streamsketch.sketching.table import SketchTable
from streamsketch.streams.clocks import Clocks
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.state import Content
from streamsketch.streams.window_contents import SumsWindow, UnitsWindow

Flags: TypeAlias = NDArray[np.bool_]


@concealed
class TimedRows(NamedTuple):
    """Rows that have a time, with what they tell by themselves.

    Parameters
    ----------
    batch, places
        The rows, and their numbers.
    untimed
        How many others had no time.
    times, numbers
        Times in microseconds, and the numbers of their windows: int64, (n,).
    beats, lacking
        Which rows are heartbeats, and which are these or lack a column that is needed: bool, (n,).
    """

    batch: pa.RecordBatch
    places: Rows
    untimed: int
    times: Ints
    numbers: Ints
    beats: Flags
    lacking: Flags


@concealed
class ReadRows(NamedTuple):
    """Rows that were read before those ahead of them in the log were added, so that processes can read beside it.

    Parameters
    ----------
    timed
        The rows.
    parts
        What windows read of them, by the numbers of the windows, ascending.
    """

    timed: TimedRows
    parts: "dict[int, Part]"


@concealed
class Part(NamedTuple):
    """What a window read of some rows: how many they are, what is to be added to it, and the counts."""

    rows: int
    content: Any
    counts: BoundingSummary


@concealed
class Closed(NamedTuple):
    """What a window held that is over.

    Parameters
    ----------
    table
        The exact sketches.
    summary
        A summary of their bounding.
    admission
        Which units may be in the window after it; None if all may.
    """

    table: SketchTable
    summary: BoundingSummary
    admission: Admission | None


@concealed
@dataclasses.dataclass
class Counts:
    """Counts of rows that were read and dropped, for the operator only."""

    rows_late: int = 0
    rows_before_start: int = 0
    rows_after_end: int = 0
    rows_ahead: int = 0
    """The malformed rows of ``bounding`` that were too far ahead, since the stream began or was last resumed."""
    bounding: BoundingSummary = dataclasses.field(default_factory=BoundingSummary)

    def note(self, bounding: BoundingSummary, *, early: Flags, after: Flags, late: Flags, ahead: Flags) -> None:
        """Count rows of a batch by what they are: bool, (n,) each."""
        self.rows_before_start += int(early.sum())
        self.rows_after_end += int(after.sum())
        self.rows_late += int(late.sum())
        self.rows_ahead += int(ahead.sum())
        self.bounding.merge(bounding)


@concealed
class WindowsOf(NamedTuple):
    """The windows of a stream, none of which has rows: what another process needs for `Windows.read`. **Secret**."""

    agreement: Agreement
    job: Job
    secret: bytes
    strict: bool

    def windows(self) -> "Windows":
        """Return the windows."""
        return Windows(StreamPolicy(self.agreement, self.job), self.secret, strict=self.strict)


class Windows:
    """The open windows of a stream, and its watermark.

    Parameters
    ----------
    policy
        The agreement and the job of the stream.
    secret
        32 bytes, from which the secret of each window is derived.
    strict
        Whether a row that cannot be added raises an error even if heartbeats move the watermark.
    """

    def __init__(self, policy: StreamPolicy, secret: bytes | StateSecret, *, strict: bool = False) -> None:
        agreement = policy.agreement
        self._policy, self._agreement, self._secret = policy, agreement, StateSecret.of(secret)
        self.of = WindowsOf(agreement, policy.job, self._secret.value, strict)
        """Windows of the same stream, without rows, for other processes."""
        self.time = policy.time
        """The column of times."""
        beats_alone = policy.clock == "heartbeats"
        self._tolerant = beats_alone and not strict
        self._intake = Intake(agreement, on_bad="drop" if self._tolerant else "refuse")
        self._drops = beats_alone or agreement.missing == "drop"
        self.public = policy.public_keys
        keys = [NO_KEY] if self.public is None else self.public
        self._bounds = (
            UnitBounds(
                agreement.projection,
                policy.neighbours,
                clip=agreement.clip_of(),
                public_keys=keys,
                rows=agreement.rows_rule,
            )
            if policy.is_enforced
            else None
        )
        self._public_column = None if self.public is None else key_column(self.public, "key")
        self._agreed = [name for name in agreement.names if name != policy.time]
        self._needed = set(self._intake.needed)
        self.clocks = Clocks(lambda: Clock(policy.delay_micros, policy.clock, limit=policy.limit))
        self.next = policy.first
        """The number of the first window that was not closed."""
        self.end = policy.end
        """The number of the first window after the last, or after the horizon of a schedule; None without an end."""
        self.admission = None if self._bounds is None else Admission.of(agreement.layout)
        """Which units may be in the next window; None if all may, or if it is asserted that each is in few windows."""
        self.open: dict[int, UnitsWindow | SumsWindow] = {}
        self.counts = Counts()
        self.by_window: dict[int, RowCounts] | None = None
        """Rows by the window of their time, from the first window on, for a dry run; None to count none by windows."""
        self.on_dropped: Callable[[dict[str, pa.RecordBatch]], None] | None = None
        """Called with rows that are dropped, by kind: ``"late"``, ``"ahead"`` and ``"malformed"``."""

    @property
    def is_over(self) -> bool:
        """Whether the next window to close is over."""
        return self.over(1)

    def over(self, count: int) -> bool:
        """Return whether so many windows, from the next one on, are over."""
        watermark, end = self.clocks.watermark, self.next + count
        is_within = self.end is None or end <= self.end
        return is_within and watermark is not None and self._policy.windows.start(end) <= watermark

    @property
    def is_finished(self) -> bool:
        """Whether all windows of the agreement were closed."""
        return self.end is not None and self.next >= self.end

    def read(self, batch: pa.RecordBatch, first: int | Rows) -> ReadRows:
        """Return what `add` makes of rows before it knows which are late; raise `InvalidInputError` as it does.

        It depends on nothing that was added.
        """
        timed, spelt = self._timed(without_views(batch), rows_from(first, batch))
        kept = ~(timed.lacking if self._drops else timed.beats)
        cast, places = self._cast(timed, spelt, kept)
        return ReadRows(timed, self._parts(cast, places, timed.numbers[kept]))

    def add(
        self, batch: pa.RecordBatch, first: int | Rows, source: str | None = None, read: ReadRows | None = None
    ) -> int:
        """Add rows in the order of the log, and return how many are in windows; after an error, nothing has changed.

        ``first`` is the number of the first row, or has those of all rows, ascending, by which errors name them.

        A row is late if its window was closed, or was over before the row by the clock of its source. So batches of any
        size lead to the same windows. If heartbeats move the watermark, rows of units raise no error: each row that
        cannot be read is dropped and counted by itself. Otherwise the error states each row that cannot be added
        (`BadRowsError`), unless a column is at fault.

        ``read`` is what `read` of such a stream returns for these rows; it changes only the time that this takes.
        """
        self.clocks.of(source)
        batch, rows = without_views(batch), rows_from(first, batch)
        try:
            return self._add(batch, rows, source, read=read)
        except InvalidInputError as error:
            if not self._tolerant:
                bad = self._bad_rows(batch, rows, source)
                if not bad:
                    raise
                raise BadRowsError(str(error), bad) from None
        readable = self._readable(batch)
        good = batch.filter(pa.array(readable))
        return self._add(good, chosen(rows, readable), source, batch.filter(pa.array(~readable)))

    def _add(
        self,
        batch: pa.RecordBatch,
        places: Rows,
        source: str | None,
        bad: pa.RecordBatch | None = None,
        read: ReadRows | None = None,
    ) -> int:
        """Add rows whose numbers are ``places``; ``bad`` are those that cannot be read."""
        policy, windows, clock = self._policy, self._policy.windows, self.clocks.of(source)
        timed, spelt = self._timed(batch, places) if read is None else (read.timed, None)
        batch, places, untimed, times, numbers, beats, lacking = timed
        kept = ~lacking if self._drops else ~beats
        timely = ~clock.late(times, windows, beats) & (numbers >= self.next)
        after = np.zeros_like(timely) if self.end is None else numbers >= self.end
        ahead = clock.ahead(times, beats)
        if (ahead & (beats | (not self._tolerant))).any():
            raise InvalidInputError(self._too_far_ahead)
        far = kept & ahead
        kept &= ~ahead
        is_read = read is not None and not far.any()
        cast, places = _some(batch, places, kept) if is_read else self._cast(timed, spelt, kept)
        blanks = ~kept & ~beats & ~far
        lost = untimed + int(blanks.sum())
        of_blanks = numbers[blanks & ~after & ~ahead]
        numbers, after, timely = numbers[kept], after[kept], (timely & ~after)[kept]
        malformed = int(far.sum()) + (0 if bad is None else bad.num_rows)
        summary = BoundingSummary(rows_read=lost + malformed, rows_blank=lost, rows_malformed=malformed)
        counts = _counts(numbers[timely])
        ahead_parts = read.parts if read is not None and is_read else {}
        parts = {n: p for n, p in ahead_parts.items() if p.rows == counts.get(n)}  # of others, some are late
        if len(parts) < len(counts):
            unread = timely & ~np.isin(numbers, list(parts)) if parts else timely
            its_rows, its_places = _some(cast, places, unread)
            its_rows = self._cast_all(its_rows, its_places) if is_read else its_rows
            parts |= self._parts(its_rows, its_places, numbers[unread])
        adding, dropped_by_window = list[tuple[UnitsWindow | SumsWindow, int, Any]](), dict[int, RowCounts]()
        for number, part in parts.items():
            summary.merge(part.counts)
            its = part.counts
            dropped_by_window[number] = RowCounts(other_keys=its.rows_of_other_keys, blank=its.rows_blank)
            adding.append((self.open.get(number) or self._empty(), number, part.content))
        early = numbers < policy.first
        late = ~timely & ~after & ~early
        if self.on_dropped is not None:
            rows, _ = _some(batch, timed.places, kept)
            dropped = {"late": rows.filter(pa.array(late)), "ahead": batch.filter(pa.array(far))}
            self.on_dropped(dropped if bad is None else dropped | {"malformed": bad})
        for window, number, content in adding:  # from here on nothing fails
            window.add(content)
            self.open[number] = window
        self._count_by_window(numbers[timely], numbers[late], of_blanks, dropped_by_window)
        self.counts.note(summary, early=early, after=after, late=late, ahead=far)
        before = clock.newest
        clock.advance(times, beats)
        if source is not None and clock.newest != before:  # only what moves the clock, as some rows of units must not
            self.clocks.idle.discard(source)
        return int(timely.sum())

    def _count_by_window(self, timely: Ints, late: Ints, blanks: Ints, dropped: Mapping[int, RowCounts]) -> None:
        """Count rows by the numbers of their windows, if that is wanted."""
        if (counted := self.by_window) is None:
            return
        for kind, numbers in (("read", timely), ("late", late), ("blank", blanks[blanks >= self._policy.first])):
            for number, count in zip(*map(np.ndarray.tolist, np.unique(numbers, return_counts=True)), strict=True):
                more = RowCounts(**{"read": count, kind: count})
                counted[number] = counted.get(number, RowCounts()).plus(more)
        for number, counts in dropped.items():
            counted[number] = counted[number].plus(counts)

    @property
    def clock(self) -> Clock:
        """The clock of a stream with one log."""
        return self.clocks.of(None)

    def _readable(self, batch: pa.RecordBatch) -> Flags:
        """Return which rows to keep, bool of shape (n,): all but rows of units that cannot be read.

        Each row is judged by itself. A column of the wrong type raises an error, because no single row is at fault.
        """
        untimed = missing(batch.column(self._policy.time))
        beats, lacking, _ = self._kinds(batch)
        readable = ~untimed
        times = np.flatnonzero(~beats & readable)
        readable[times[~self._with_times(batch.take(pa.array(times)))]] = False
        places, bad = np.flatnonzero(~lacking & readable), list[int]()
        Intake(self._agreement, on_bad=lambda place, _: bad.append(place)).cast(batch.take(pa.array(places)), 0)
        readable[places[bad]] = False
        return readable | untimed

    def _bad_rows(self, batch: pa.RecordBatch, numbers: Rows, source: str | None) -> dict[int, str]:
        """Return why rows cannot be added, by their places, each judged by itself; none if a column is at fault."""
        policy, reasons = self._policy, dict[int, str]()
        time = batch.column(policy.time)
        untimed = missing(time)
        if not self._drops:
            reasons |= {place: blank(policy.time, numbers[place]) for place in np.flatnonzero(untimed).tolist()}
        try:
            timed = np.flatnonzero(~untimed)
            readable = self._with_times(batch.take(pa.array(timed)))
            reasons |= dict.fromkeys(timed[~readable].tolist(), not_a_time(policy.time, policy.time_format))
            judged = timed[readable]
            rows = batch.take(pa.array(judged))
            times, (beats, lacking, _) = self._times(rows), self._kinds(rows)
            ahead = self.clocks.of(source).ahead(times, beats)
            reasons |= dict.fromkeys(judged[ahead].tolist(), self._too_far_ahead)
            kept = ~ahead & ~(lacking if self._drops else beats)
            places = judged[kept]
            why: dict[int, str] = {}
            its = np.asarray(numbers)[places]
            Intake(self._agreement, on_bad=why.__setitem__).cast_rows(rows.filter(pa.array(kept)), its)
            for number, reason in why.items():
                place = int(places[np.searchsorted(its, number)])
                if not self._times_limit_casts or not self._is_castable(batch.slice(place, 1)):
                    reasons[place] = reason
        except InvalidInputError:
            return {}
        return reasons

    @property
    def _times_limit_casts(self) -> bool:
        """Whether rows that are cast one by one may have other times than rows that are cast together."""
        return any(column.type == "timestamp" for column in self._agreement.columns)

    def _is_castable(self, row: pa.RecordBatch) -> bool:
        try:
            self._intake.cast(row)
        except InvalidInputError:
            return False
        return True

    def _with_times(self, batch: pa.RecordBatch) -> Flags:
        """Return which rows have a time that can be read, each judged by itself: bool, (n,)."""
        readable = readable_times(batch.column(self._policy.time), self._policy.time_format)
        places = np.flatnonzero(readable)

        def drop(place: int, _: Exception) -> None:
            readable[places[place]] = False

        deque(salvage(lambda start, stop: self._times(batch.take(pa.array(places[start:stop]))), places.size, drop), 0)
        return readable

    @property
    def _too_far_ahead(self) -> str:
        most = self._policy.limit.most
        return (
            f"the column {self._policy.time} has a time that is more than {most:,} window{'' if most == 1 else 's'} "
            f"(max_ahead) after the rows before it; correct the time, or set a larger max_ahead"
        )

    def _times(self, batch: pa.RecordBatch) -> Ints:
        named = batch.column(self._policy.time), self._policy.time, self._policy.time_format
        check_times_of_day(self._policy.windows, *named)
        return micros_in(*named)

    def _kinds(self, batch: pa.RecordBatch) -> tuple[Flags, Flags, dict[str, pa.Array]]:
        """Return which rows are heartbeats, with only a time, and which are these or lack a column that is needed.

        What is blank in the agreed spelling is lacking, but makes no heartbeat: whoever wrote it is a unit. The columns
        that are agreed on are returned in that spelling.
        """
        columns = {name: batch.column(name) for name in self._agreed}
        empty = {name: missing(column) for name, column in columns.items()}
        beats = np.logical_and.reduce([*empty.values()]) if empty else np.zeros(batch.num_rows, dtype=bool)
        spelt = self._intake.spelt(columns)
        lacking = [
            empty[name]  # as no cell changed
            if spelt[name] is column and not self._intake.keeps_blanks(name)
            else self._intake.lacking(spelt[name], name)
            for name, column in columns.items()
            if name in self._needed
        ]
        return beats, np.logical_or.reduce([beats, *lacking]), spelt

    def _timed(self, batch: pa.RecordBatch, places: Rows) -> tuple[TimedRows, dict[str, pa.Array]]:
        """Return the rows that have a time, and their columns in the agreed spelling."""
        untimed = missing(batch.column(self._policy.time))
        if untimed.any():
            if not self._drops:
                raise InvalidInputError(blank(self._policy.time, places[int(untimed.argmax())]))
            batch, places = batch.filter(pa.array(~untimed)), chosen(places, ~untimed)
        times = self._times(batch)
        beats, lacking, spelt = self._kinds(batch)
        if self.time in self._agreement.names:
            spelt |= self._intake.spelt({self.time: batch.column(self.time)})
        numbers = self._policy.windows.number(times)
        return TimedRows(batch, places, int(untimed.sum()), times, numbers, beats, lacking), spelt

    def _cast(self, timed: TimedRows, spelt: dict[str, pa.Array] | None, kept: Flags) -> tuple[pa.RecordBatch, Rows]:
        """Return rows with a flag, cast to the agreed types, and their numbers; ``spelt`` are those of `_timed`."""
        if spelt is None or (timed.lacking & kept).any():
            rows, places = _some(timed.batch, timed.places, kept)
            return self._cast_all(rows, places), places
        rows, places = _some(pa.RecordBatch.from_pydict(spelt), timed.places, kept)
        return self._cast_all(rows, places, is_whole=True), places

    def _cast_all(self, rows: pa.RecordBatch, places: Rows, *, is_whole: bool = False) -> pa.RecordBatch:
        """Return rows cast to the agreed types; raise `InvalidInputError` if one does not fit."""
        cast = self._intake.cast_rows(rows, places, is_whole=is_whole)[0]
        if cast.num_rows < rows.num_rows:
            raise InvalidInputError("some rows do not fit the agreement")  # `add` finds them
        return cast

    def _parts(self, rows: pa.RecordBatch, places: Rows, numbers: Ints) -> dict[int, Part]:
        """Return what windows read of rows that were cast, by their numbers, ascending.

        Raises the error of the first window, by number, that has one.
        """
        order = _in_order(numbers)
        if order is not None:
            rows, numbers = rows.take(pa.array(order)), numbers[order]
            places = order + places.start if isinstance(places, range) else np.asarray(places)[order]
        ends = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, numbers.size)[: numbers.size]
        names, many = numbers[ends - 1].tolist(), np.diff(ends, prepend=0).tolist()
        secrets, window = list(map(self._secret_of_units, names)), self._empty()
        runs: list[Any] | None = None
        if len(names) > 1:
            with contextlib.suppress(InvalidInputError):  # the error of a window may name its rows
                runs = window.read_runs(rows, places, ends, secrets)
        if runs is None:
            runs = []
            for end, count, secret in zip(ends.tolist(), many, secrets, strict=True):
                counts, start = BoundingSummary(), end - count
                runs.append((window.read(rows.slice(start, count), places[start:end], secret, counts), counts))
        return {name: Part(count, *part) for name, count, part in zip(names, many, runs, strict=True)}

    def _empty(self) -> UnitsWindow | SumsWindow:
        if self._bounds is None:
            return SumsWindow(self._agreement, self._public_column, tolerant=self._tolerant)
        return UnitsWindow(self._agreement, self._bounds)

    def restore(self, windows: dict[int, Content], drawn: Iterable[int], admitted: Mapping[int, bytes]) -> None:
        """Restore the windows of a state, after its counts, ``next`` and ``newest``.

        ``drawn`` has the windows that were drawn, all before these. ``admitted`` is `Admission.windows`, if each unit
        is kept to a few windows.

        Raises
        ------
        WireFormatError
            If a window is not valid, or cannot be in a stream at this time.
        """
        first, last = self._policy.first, self._policy.windows.number(LARGEST_TIME)
        end = last + 1 if self.end is None else min(self.end, last + 1)
        if not first <= self.next <= end:
            raise WireFormatError("header.next", "is before the first window, or after the last")
        if not all(self.next <= number < end for number in windows):
            raise WireFormatError("windows", "are over, or after the last")
        if not all(first <= number < self.next for number in drawn):
            raise WireFormatError("waiting", "are before the first window, or not over")
        if self.admission is not None:
            self.admission = self.admission.restored(admitted, self.next - first)
        elif admitted:
            raise WireFormatError("units", "are kept to no windows")
        self.open = {number: self.restored(content) for number, content in windows.items()}

    def restored(self, content: Content) -> UnitsWindow | SumsWindow:
        """Return a window from its content."""
        if self._bounds is None:
            return SumsWindow.from_content(content, self._agreement, self._public_column, tolerant=self._tolerant)
        return UnitsWindow.from_content(content, self._agreement, self._bounds)

    def secret_of(self, number: int) -> bytes:
        """Return the secret by which the units of a window are digested, chosen and clipped."""
        return self._secret.derive("win", number_bytes(number))

    def _secret_of_units(self, number: int) -> bytes:
        """Return the secret by which the units of a window are digested: one for all windows, if units are admitted."""
        return self.secret_of(number) if self.admission is None else self._secret.derive("win", b"units")

    @property
    def size(self) -> int:
        """How many events the next window holds."""
        return 0 if (window := self.open.get(self.next)) is None else len(window)

    def closing(self) -> Closed:
        """Return what the next window holds in the end; do not close it yet, and change nothing."""
        summary = BoundingSummary()
        window, place = self.open.get(self.next) or self._empty(), self.next - self._policy.first
        table, admission = window.closed(self.secret_of(self.next), summary, self.admission, place)
        return Closed(table, summary, admission)

    def advance(self, closed: Closed) -> None:
        """Close the next window, with what `closing` returned, and go on to the one after it."""
        self.open.pop(self.next, None)
        self.admission = closed.admission
        self.counts.bounding.merge(closed.summary)
        self.next += 1


def _counts(numbers: Ints) -> dict[int, int]:
    """Return how often numbers occur: most batches have rows of one window."""
    if numbers.size and numbers.min() == numbers.max():
        return {int(numbers[0]): numbers.size}
    return dict(zip(*map(np.ndarray.tolist, np.unique(numbers, return_counts=True)), strict=True))


def _in_order(numbers: Ints) -> Ints | None:
    """Return a stable order in which numbers ascend: int64, (n,); None if they do."""
    if (numbers[1:] >= numbers[:-1]).all():
        return None
    few = numbers - numbers.min()
    return np.argsort(few.astype(np.uint16) if few.max() < 1 << 16 else few, kind="stable")  # 16 bits are counted


def _some(rows: pa.RecordBatch, places: Rows, flags: Flags) -> tuple[pa.RecordBatch, Rows]:
    """Return the rows with a flag, and their numbers."""
    return (rows, places) if flags.all() else (rows.filter(pa.array(flags)), chosen(places, flags))
