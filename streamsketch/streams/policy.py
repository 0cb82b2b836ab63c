"""Policies: an agreement and a job together, as engines of unbounded streams follow them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import keys_text
from streamsketch.core.documents import TableKey
from streamsketch.data.calendar import Calendar, EventWindows
from streamsketch.data.windows import Tumbling, microseconds, seconds_text
from streamsketch.errors import InvalidInputError
from streamsketch.intake.clock import AheadLimit, ClockKind
from streamsketch.privacy.assertions import with_conditions
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.release.additive_noise import AdditiveNoise, CalibratedNoise
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.in_windows import window_guarantee
from streamsketch.streams.job import Job


class _Pair(NamedTuple):
    agreement: Agreement
    job: Job


class StreamPolicy(_Pair):
    """What is released of an unbounded stream, by its agreement, and how one operator runs it, by a job.

    Windows follow each other without gaps from the first of the agreement on, up to the last if there is one, and no
    further than the horizon of a schedule. The watermark is the newest time in the log less the job's delay; no clock
    is read. A window is over once the watermark is past its end. An event is late, and is dropped, if its window was
    over before the event in the log. So the content of a window is a function of the log.

    Parameters
    ----------
    agreement
        With terms of noise, windows that are releases from a first one on, and, with a key column, listed keys.
    job
        As in `Job`.

    Raises
    ------
    InvalidInputError
        If no stream can follow the agreement; the sentence says what can.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement, Terms, Windows
    >>> columns = {"index": "item", "neighbours": L1(1, unit="sale"), "terms": Terms(epsilon=1)}
    >>> windows = Windows(time="at", every="1 hour", first="2026-11-22")
    >>> agreement = Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, windows=windows)
    >>> policy = StreamPolicy(agreement, Job(folder="releases", delay="5 min"))
    >>> policy.windows.name(policy.first + 13)
    '2026-11-22T1300Z'
    """

    def __new__(cls, agreement: Agreement, job: Job) -> Self:
        """Return the pair, after checks that a stream can follow it."""
        policy = super().__new__(cls, agreement, job)
        _check(policy)
        if job.dry_run:
            raise InvalidInputError("the job is for a dry run: leave out dry_run, or use DryStream")
        return policy

    # --- of the agreement -----------------------------------------------------------------------------------

    @property
    def windows(self) -> EventWindows:
        """The windows that times are in."""
        windows: EventWindows = self._agreed.of_times
        return windows

    @property
    def first(self) -> int:
        """The number of the first window, as `windows` counts."""
        return int(self._agreed.first_number)

    @property
    def end(self) -> int | None:
        """The number of the first window that is not released; None without an end."""
        end: int | None = self._agreed.end_of(self.agreement.layout)
        return end

    @property
    def has_last(self) -> bool:
        """Whether the agreement states a last window. A schedule ends the stream besides."""
        return self._agreed.last_number is not None

    @property
    def stop_micros(self) -> int | None:
        """The time from which on no window is released, in microseconds since 1970; None without an end."""
        return None if self.end is None else int(self.windows.start(self.end))

    @property
    def _agreed(self) -> Any:
        return self.agreement.windows

    @property
    def time(self) -> str:
        """The column of event times."""
        return str(self._agreed.time.name)

    @property
    def time_format(self) -> str | None:
        """The format of times in text; None for ISO 8601."""
        form: str | None = self._agreed.format
        return form

    @property
    def by_rows(self) -> bool:
        """Whether rows of a schedule are published, and not each window by itself."""
        return self.agreement.layout.by_rows

    @property
    def public_keys(self) -> list[TableKey] | None:
        """The keys to release, of the agreed type; None without a key column."""
        return None if self.agreement.key is None else list(self.agreement.keys)

    @property
    def neighbours(self) -> Neighbours:
        """How much one unit may add to one window."""
        neighbours: Any = self.agreement.neighbours
        return neighbours  # type: ignore[no-any-return]

    @property
    def is_enforced(self) -> bool:
        """Whether units are clipped to the bound, as the agreement names them. Otherwise the bound is asserted."""
        return self.agreement.unit is not None

    @property
    def period_micros(self) -> int:
        """The period in which a unit is kept to some windows, in microseconds; 0 without one."""
        return int(self._agreed.period_micros)

    @property
    def max_windows(self) -> int:
        """In how many windows of a period a unit may be."""
        return int(self._agreed.max_windows or 1)

    # --- of the job -----------------------------------------------------------------------------------------

    @property
    def clock(self) -> ClockKind:
        """What moves the watermark."""
        return self.job.clock

    @property
    def delay_micros(self) -> int:
        """How far the watermark is behind the newest time."""
        return self.job.delay_micros

    @property
    def limit(self) -> AheadLimit:
        """How far a row may be ahead of the watermark."""
        ahead = self.job.max_ahead
        length = None if ahead is None else microseconds(ahead, "max_ahead")
        return AheadLimit.of_length(self.windows, length, self.first)

    # --- engines --------------------------------------------------------------------------------------------

    def check_one_machine(self, *, is_named: bool = False) -> None:
        """Raise `InvalidInputError` for what only clusters follow, or, if ``is_named``, without a stream name."""
        self.job.check_one_machine(is_named=is_named)
        rows = self.agreement.rows_rule
        if rows is not None and rows.of_one_time:
            raise InvalidInputError(
                f"the agreement keeps the {rows.which} rows of a unit, and a stream on one machine keeps sums, without "
                "times: follow it on a cluster (`streamsketch stream beam`), release a table by "
                "agreement.release(rows), or agree on rows_of_unit='mean'"
            )
        if self.period_micros:
            raise InvalidInputError(
                "the agreement keeps a unit to some windows of each period, which `streamsketch stream beam` does on a "
                "cluster; on one machine, use a schedule with max_windows"
            )

    def check_cluster(self) -> None:
        """Raise `InvalidInputError` for what only one machine follows."""
        windows, schedule = self.of_one_length, self.agreement.schedule  # which refuses the calendar
        if self.agreement.key is None:
            raise InvalidInputError(
                "a job on a cluster releases keys, but the agreement has no key column; make one with a key column, or "
                "follow this one by `streamsketch stream file` on one machine"
            )
        if self.job.stream is None:
            raise InvalidInputError('the job of a cluster must name its stream; set "stream": "NAME"')
        if self.time_format is not None:
            raise InvalidInputError(
                "the windows have a format of times, but messages have Arrow times; leave it out, or follow the "
                "agreement by `streamsketch stream file` on one machine"
            )
        if self.period_micros % windows.size or (self.period_micros and not self.is_enforced):
            raise InvalidInputError(
                "a period keeps units to some windows, and the agreement names no units: also agree on unit, or leave "
                "out period"
            )
        if self.job.comparisons == "mean" and not self.agreement.layout.is_counted:
            raise InvalidInputError(
                'averages need the number of units; make an agreement with counts, or set "comparisons": "distance"'
            )
        if schedule is None:
            return
        if self.job.comparisons is not None:
            raise InvalidInputError(
                "a job compares releases of windows, but rows of a schedule are weighted sums of windows; leave out "
                "comparisons, and compare ranges with streamsketch.continual.History"
            )
        if self.is_enforced and schedule.gap > 1:
            raise InvalidInputError(
                f"a job on a cluster does not keep a unit's windows apart, but the schedule has gap={schedule.gap}; "
                "use gap=1, or follow the agreement by `streamsketch stream file` on one machine"
            )

    @property
    def of_one_length(self) -> Tumbling:
        """The windows, for a job on a cluster; raise `InvalidInputError` for those of the calendar."""
        if isinstance(self.windows, Calendar):
            raise InvalidInputError(
                f"a job on a cluster needs windows of one length, such as '1 day', but the agreement has a "
                f"{self.windows.period} of the calendar; follow it by `streamsketch stream file` on one machine"
            )
        return self.windows

    # --- guarantee ------------------------------------------------------------------------------------------

    @property
    def noise(self) -> AdditiveNoise:
        """The noise of a window's release, or of a row, for the agreed unit: what a data set is charged for."""
        publisher: Any = publisher_of(self.agreement)
        return publisher  # type: ignore[no-any-return]

    def publisher(self, conditions: Sequence[str] = ()) -> CalibratedNoise:
        """Return the calibrated mechanism of a window's release or row, as `window_guarantee` has it.

        ``conditions`` are those of how the log is read, which the guarantee states with its own; the clock of events
        adds one.
        """
        noise: Any = window_guarantee(self.agreement, conditions)
        if self.clock == "heartbeats":
            return noise  # type: ignore[no-any-return]
        condition = (
            f"no event follows another in the log that is more than {seconds_text(self.delay_micros)} s newer, and the "
            f"time of the newest event is public"
        )
        return noise.with_guarantee(with_conditions(noise.guarantee, condition))  # type: ignore[no-any-return]


def _check(policy: StreamPolicy) -> None:
    """Raise `InvalidInputError` if no stream can follow a policy."""
    agreement, job = policy
    if not isinstance(agreement, Agreement) or not isinstance(job, Job):
        raise TypeError(
            f"a stream follows an Agreement and a Job, got {type(agreement).__name__}, {type(job).__name__}"
        )
    windows = agreement.windows
    if windows is None or windows.first is None or windows.are != "releases":
        stated = "none" if windows is None else windows
        raise InvalidInputError(
            f"a stream is released window by window, and the agreement has the windows {stated}: agree on windows that "
            "are releases, with a first one; windows that are keys are released by agreement.release(rows)"
        )
    if agreement.terms is None or not agreement.terms.is_noise:
        stated = "does not say what a release spends" if agreement.terms is None else f"publishes by {agreement.terms}"
        raise InvalidInputError(
            f"the agreement {stated}, and a stream publishes with noise: agree on epsilon (and delta) and noise; signs "
            "are published by agreement.release(rows)"
        )
    if agreement.key is not None and not isinstance(agreement.keys, tuple):
        raise InvalidInputError(
            f"a stream publishes the same keys in each window, and the agreement has {keys_text(agreement.keys)}: list "
            "the keys; others are published by agreement.release(rows)"
        )
    if agreement.key is None and policy.neighbours.max_keys != 1 and not policy.neighbours.any_keys:
        raise InvalidInputError(
            f"a stream without a key column needs max_keys=1, got {policy.neighbours.max_keys}; set max_keys to 1"
        )
    policy.limit  # noqa: B018 - which checks max_ahead by the windows
