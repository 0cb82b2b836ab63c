"""Policies: what is released of an unbounded stream, window by window, and under which guarantee."""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa

from streamsketch.agreement import Agreement
from streamsketch.core import check_int, check_text, current_limits, json_fields, read_bounded, short
from streamsketch.data import keys_named
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.intake import (
    AheadLimit,
    Calendar,
    Clock,
    ClockKind,
    EventWindows,
    Tumbling,
    check_times_of_day,
    event_windows,
    micros_in,
    microseconds,
    seconds_text,
)
from streamsketch.once import check_stream
from streamsketch.privacy import Budget, Clip, Neighbours, with_conditions
from streamsketch.release import AdditiveNoise, CalibratedNoise, check_terms, keys_for
from streamsketch.schedules import Schedule, schedule_of
from streamsketch.sketching import check_clip

WITHIN = "none"
"""The ``clip`` of rows that are asserted to keep to the bounds."""

VERSION = 1
_PLACES = ("folder", "ledger", "dataset", "max_dropped")  # may change when a state is continued
_OF_JOBS = ("stream", "stop", "comparisons", "period", "max_windows")
_LATER = (
    "zone",
    "schedule",
    "max_ahead",
    "max_dropped",
)  # left out of the JSON of policies without them, because earlier states hold such JSON

Comparisons: TypeAlias = Literal["distance", "cosine", "mean"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamPolicy:
    """What to release of an unbounded stream: every public key in each window of event time.

    ``streamsketch sketch --policy`` follows it on one machine, ``streamsketch job stream`` on a cluster.

    Windows follow each other without gaps from ``start`` on. The watermark is the newest time in the log less
    ``delay``; no clock is read. A window is over once the watermark is past its end. An event is late, and is dropped,
    if its window was over before the event in the log. So the content of a window is a function of the log.

    Parameters
    ----------
    time, time_format
        Column of event times, and the format of text in it, as for ``strptime``; by default ISO 8601. Times without a
        zone are in UTC.
    window, offset
        Length of a window, in seconds or as ``"1 hour"``, and the offset of window starts from 1970-01-01T00:00Z. Or,
        for windows of the calendar, ``"day"``, ``"week"`` (from Monday on) or ``"month"``.
    zone
        The time zone of the calendar, such as ``"Europe/Berlin"``; by default UTC. Not for jobs on a cluster.
    start
        Start of the first window, in ISO 8601. For windows of the calendar, its first local date: ``"2026-11-22"``, or
        ``"2026-11"`` for a month. It must not depend on the data.
    delay
        How far events may be out of order, in seconds or as ``"5 min"``.
    clock
        What moves the watermark. With ``"events"``, every row does. One unit's events can then make others' late, so
        the guarantee states a condition: no event is ahead of those that follow by more than the delay. With
        ``"heartbeats"``, only rows whose agreed columns are all empty do, which the log's writer inserts. A unit then
        cannot change which events are late or which windows are over, and no condition on times is needed. How the log
        is read may need others (`Stream.require`). A row cannot end the stream either: rows that cannot be read, or are
        further ahead of the heartbeats than ``max_ahead``, are dropped and counted.
    max_ahead
        How far a row may be ahead of the newest time in the log, in seconds or as ``"1 hour"``, rounded up to whole
        windows; by default 10,000 windows. A row that is further ahead is dropped with an alarm and does not move the
        watermark. Otherwise one wrong clock would end all windows up to its time. After a longer gap in the log, its
        writer inserts heartbeats, each within ``max_ahead`` of the one before.
    max_dropped
        The share of rows that may be late or malformed before the operator gets an alarm, from 0 to 1; by default 0.01.
    epsilon, delta, mechanism
        As in `Sketch.release`, for each window's table as a whole.
    neighbours
        How much one unit adds to one window, if the agreement does not state it.
    clip
        As in `bound`, if the agreement has a unit column and a bound; by default the agreed way, else ``"scale"``.
        ``"none"`` asserts that rows keep to the bound.
    public_keys
        The keys to release, if the agreement has a key column.
    folder
        Folder for releases. For a stream with a name, it may be the URL of a place in an object store.
    ledger, dataset
        A ledger to which each window is charged, and the data set in it. The charge is for ``neighbours`` as agreed: a
        unit in several windows pays for each. All windows of a schedule are charged at once, before the first.
    stream
        Name of the stream, which a job needs. On one machine, each key is then released by itself, as in a job. The
        fields below are for jobs only.
    stop
        Time in ISO 8601. Windows that start at this time or later are not released. By default there is no end.
    comparisons
        What a job publishes besides releases: comparisons of each key with itself in the window before, and of the keys
        of a window with each other. They are by squared ``"distance"``, the default; by ``"cosine"``; or by ``"mean"``,
        the distance of averages, if units are counted.
    period, max_windows
        Bounds a unit in each period, in seconds or as ``"1 day"``, instead of in each window. The unit may contribute
        in ``max_windows`` windows of a period, by default 1, and the guarantee is for a period.
    schedule
        A `Schedule`, or its JSON object, to read any range of windows at about the noise of one. Its horizon is the
        number of windows from ``start`` on; after the last one nothing is released. ``epsilon`` and ``delta`` are then
        for all windows together, for a unit in as many of them as the schedule allows. ``neighbours`` still bound what
        it adds to each. If units are clipped, they are also kept to that many windows. A job on a cluster does not keep
        these apart, so it accepts no ``gap``.

    Raises
    ------
    InvalidInputError
        If a value is out of range, or a length is not a whole number of microseconds.

    Examples
    --------
    >>> policy = StreamPolicy(
    ...     time="at", window="1 hour", start="2026-11-22", delay="5 min", epsilon=1.0, folder="releases"
    ... )
    >>> policy.windows.name(policy.first + 13)
    '2026-11-22T1300Z'
    """

    time: str
    window: float | str
    start: str
    delay: float | str
    epsilon: float
    folder: str
    time_format: str | None = None
    offset: float | str = 0
    zone: str | None = None
    clock: ClockKind = "events"
    max_ahead: float | str | None = None
    max_dropped: float | None = None
    delta: float = 0.0
    mechanism: str = "auto"
    neighbours: Neighbours | None = None
    clip: str | None = None
    public_keys: Sequence[Any] | None = None
    ledger: str | None = None
    dataset: str | None = None
    stream: str | None = None
    stop: str | None = None
    comparisons: Comparisons | None = None
    period: float | str | None = None
    max_windows: int | None = None
    schedule: Schedule | None = None
    windows: EventWindows = dataclasses.field(init=False)
    """The windows, which follow from ``window``, ``offset`` and ``zone``."""
    first: int = dataclasses.field(init=False)
    """The number of the first window: they are counted from ``offset``."""

    def __post_init__(self) -> None:
        for name in ("time", "start", "folder", "mechanism", "clip", "time_format", "ledger", "dataset", "stream"):
            if (value := getattr(self, name)) is not None or name in _NEEDED:
                check_text(f"the {name} of a policy", value)
        Clock(0, self.clock)  # which knows the kinds
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidInputError("ledger and dataset go together; set both or neither")
        if self.clip not in (None, WITHIN):
            check_clip(self.clip)
        if self.public_keys is not None:
            keys = tuple(keys_named(self.public_keys, "public_keys"))
            if not keys:
                raise InvalidInputError("public_keys is empty; list at least one key to release")
            object.__setattr__(self, "public_keys", keys)
        Budget(self.epsilon, self.delta)
        object.__setattr__(self, "schedule", _schedule(self.schedule))
        self._check_limits()
        windows = self._windows()
        if isinstance(windows, Calendar):
            first = windows.number_named(self.start)
            if first is None:
                raise InvalidInputError(
                    f"start must be the first date of a {windows.period}, such as {windows.name(0)}, got "
                    f"{short(self.start)}"
                )
            start = windows.start(first)
        else:
            (start,) = micros_in(pa.array([self.start]), "start").tolist()
            first = windows.number(start)
            if windows.start(first) != start:
                raise InvalidInputError(
                    f"start must be the start of a window, such as {windows.name(first)}, got {short(self.start)}"
                )
        object.__setattr__(self, "windows", windows)
        object.__setattr__(self, "first", first)
        self._check_job(start)

    def _check_limits(self) -> None:
        microseconds(self.delay, "delay", least=0)
        if self.max_ahead is not None:
            microseconds(self.max_ahead, "max_ahead")
        if self.max_dropped is not None and not 0 <= self.max_dropped <= 1:
            raise InvalidInputError(f"max_dropped is a share of rows from 0 to 1, got {self.max_dropped!r}")

    def _windows(self) -> EventWindows:
        windows, offset = event_windows(self.window, self.zone), microseconds(self.offset, "offset", least=0)
        if isinstance(windows, Calendar):
            if offset:
                raise InvalidInputError(
                    f"windows of the calendar ({windows.period}) have no offset; leave it out, got {short(self.offset)}"
                )
            check_times_of_day(windows, pa.array([], pa.string()), self.time, self.time_format)
            return windows
        if offset >= windows.size:
            raise InvalidInputError(
                f"offset must be shorter than a window, got {short(self.offset)} and {short(self.window)}"
            )
        return Tumbling(windows.size, offset)

    def _check_job(self, start: int) -> None:
        if self.comparisons not in (None, *(known := get_args(Comparisons))):
            raise InvalidInputError(f"comparisons must be one of {', '.join(known)}, got {short(self.comparisons)}")
        if self.stop_micros is not None and self.stop_micros <= start:
            raise InvalidInputError(f"stop must be after start, got {short(self.stop)} and {short(self.start)}")
        if self.period is not None and microseconds(self.period, "period") % self.of_one_length.size:
            raise InvalidInputError(
                f"period must be a multiple of the window, got {short(self.period)} and {short(self.window)}"
            )
        if self.max_windows is not None:
            check_int(self.max_windows, "max_windows", 1, (1 << 20) - 1)
            if self.period is None:
                raise InvalidInputError("max_windows needs a period; set period, or leave out max_windows")

    def check_one_machine(self, *, is_named: bool = False) -> None:
        """Raise `InvalidInputError` for a field that only jobs follow, or, if ``is_named``, without a stream name."""
        if is_named:
            check_stream(self.stream)
        fields = [name for name in _OF_JOBS if not (is_named and name == "stream")]
        if given := [name for name in fields if getattr(self, name) is not None]:
            raise InvalidInputError(
                f"the policy has {', '.join(given)}, for `streamsketch job stream` only; leave this out on one machine"
            )

    def check_job(self) -> None:
        """Raise `InvalidInputError` if the policy has a field that only one machine follows."""
        windows, schedule = self.of_one_length, self.schedule  # which refuses the calendar
        if schedule is None:
            return
        if self.period is not None:
            raise InvalidInputError(
                "the policy has a schedule, which already sets in how many windows a unit may be; leave out period "
                "and max_windows"
            )
        if self.comparisons is not None:
            raise InvalidInputError(
                "a job compares releases of windows, but rows of a schedule are weighted sums of windows; leave out "
                "comparisons, and compare ranges with streamsketch.continual.History"
            )
        if self.is_enforced and schedule.gap > 1:
            raise InvalidInputError(
                f"a job on a cluster does not keep a unit's windows apart, but the schedule has gap={schedule.gap}; "
                "use gap=1, or follow the policy by `streamsketch sketch --policy` on one machine"
            )
        if self.stop_micros is not None and self.stop_micros > windows.start(self.first + schedule.horizon):
            raise InvalidInputError(
                f"stop must not be after the {schedule.horizon} windows of the schedule, got {short(self.stop)}; leave "
                "it out"
            )

    @property
    def of_one_length(self) -> Tumbling:
        """The windows, for a job on a cluster; raise `InvalidInputError` for those of the calendar."""
        if isinstance(self.windows, Calendar):
            raise InvalidInputError(
                f"a job on a cluster needs windows of one length, such as '1 day', but the policy has a "
                f"{self.windows.period} of the calendar; follow it by `streamsketch sketch --policy` on one machine"
            )
        return self.windows

    @property
    def delay_micros(self) -> int:
        """How far the watermark is behind the newest time."""
        return microseconds(self.delay, "delay", least=0)

    @property
    def limit(self) -> AheadLimit:
        """How far a row may be ahead of the watermark."""
        length = None if self.max_ahead is None else microseconds(self.max_ahead, "max_ahead")
        return AheadLimit.of_length(self.windows, length, self.first)

    @property
    def stop_micros(self) -> int | None:
        """The time from which on no window is released, in microseconds since 1970."""
        return None if self.stop is None else int(micros_in(pa.array([self.stop]), "stop")[0])

    # --- guarantee ------------------------------------------------------------------------------------------

    def bounds_in(self, agreement: Agreement) -> Neighbours:
        """Return how much one unit may add to one window.

        Raises
        ------
        InvalidInputError
            If neither the agreement nor the policy states it, or the way to clip does not fit it.
        """
        if (self.neighbours is None) == (agreement.neighbours is None):
            both = self.neighbours is not None
            raise InvalidInputError(
                f"{'both' if both else 'neither'} the agreement {'and' if both else 'nor'} the policy "
                f"{'state' if both else 'states'} how much one unit adds; set neighbours in one of the two"
            )
        if self.is_enforced:
            if agreement.unit is None or agreement.neighbours is None:
                raise InvalidInputError(
                    f"rows cannot be clipped, because the agreement has no unit column or no bound; make one with "
                    f'both, or set "clip": "{WITHIN}", which asserts that the rows keep to the bound'
                )
            self.clip_in(agreement)
        if (agreement.key is None) != (self.public_keys is None):
            columns = "has no key column, so leave out" if agreement.key is None else "has a key column, so list"
            raise InvalidInputError(f"the agreement {columns} public_keys")
        found: Neighbours = agreement.neighbours or self.neighbours  # type: ignore[assignment]
        if agreement.key is None and found.max_keys != 1 and not found.any_keys:
            raise InvalidInputError(
                f"a stream without a key column needs max_keys=1, got {found.max_keys}; set max_keys to 1"
            )
        return found

    def clip_in(self, agreement: Agreement) -> Clip:
        """Return how units are clipped, by agreement or policy. Raises the same errors as `Agreement.clip_of`."""
        return agreement.clip_of(cast("Clip | None", self.clip))

    @property
    def is_enforced(self) -> bool:
        """Whether units are clipped to the bound. Otherwise it is asserted that rows keep to it."""
        return self.clip != WITHIN

    def noise(self, agreement: Agreement) -> AdditiveNoise:
        """Return the noise of a window's release, for the unit and bound of `bounds_in`, with the same errors.

        Units are counted as agreed, if they are clipped. With a schedule, it is the noise of a row: a bound on a unit's
        sketches is then on those of all of its windows together, √m times that in each (Theory 11.2).
        """
        neighbours, schedule = self.bounds_in(agreement), self.schedule
        if schedule is not None:
            neighbours = neighbours.over_rows(schedule.most)
        neighbours.check_delta(self.delta, self.mechanism)
        counting = agreement.counting if self.is_enforced else None
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "mechanism": self.mechanism}
        return AdditiveNoise(**budget, neighbours=neighbours, counting=counting, schedule=schedule)

    def publisher(self, agreement: Agreement, conditions: Sequence[str] = ()) -> CalibratedNoise:
        """Return the calibrated mechanism of a window's release or row; errors as `bounds_in` and `AdditiveNoise`.

        It is refused with `IncompatibleAgreementsError` if the agreement says that a release spends something else, or
        publishes other keys.

        ``conditions`` are those of how the log is read, which the guarantee states with its own.
        """
        noise, one, schedule = self.noise(agreement), self.windows.words, self.schedule
        unit = noise.neighbours.unit
        unit = f"{unit} in {one}" if schedule is None else schedule.unit_text(unit, one.removeprefix("one window of "))
        within = dataclasses.replace(noise.neighbours, unit=unit)
        check_terms(agreement, noise.calibrated(agreement.projection).guarantee, agreement.projection)
        if agreement.key is not None:
            keys_for(agreement, self.public_keys, keys_are_public=False, in_windows=True)
        found = dataclasses.replace(noise, neighbours=within).calibrated(agreement.projection)
        basis = "enforced" if self.is_enforced else "asserted"
        found = found.with_guarantee(found.guarantee.on(basis, conditions))
        if self.clock == "heartbeats":
            return found
        condition = (
            f"no event follows another in the log that is more than {seconds_text(self.delay_micros)} s newer, and the "
            f"time of the newest event is public"
        )
        return found.with_guarantee(with_conditions(found.guarantee, condition))

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as a dict that JSON can hold."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        keys = None if self.public_keys is None else list(self.public_keys)
        neighbours = None if self.neighbours is None else self.neighbours.to_dict()
        schedule = None if self.schedule is None else self.schedule.to_dict()
        found = {"policy": VERSION, **fields, "public_keys": keys, "neighbours": neighbours, "schedule": schedule}
        return {name: value for name, value in found.items() if name not in _LATER or value is not None}

    def changed(self, before: dict[str, Any]) -> list[str]:
        """Return the fields that differ from an earlier `to_dict`, except for the places of files."""
        now: dict[str, Any] = json.loads(json.dumps(self.to_dict()))
        # if the agreement does not state how units are clipped, null means "scale", as earlier versions wrote
        one, other = ({**policy, "clip": policy.get("clip") or "scale"} for policy in (now, before))
        names = {"policy", *_FIELDS} - {*_PLACES}
        return sorted(name for name in names if one.get(name) != other.get(name))

    @staticmethod
    def from_json(text: str | bytes) -> "StreamPolicy":
        """Return the policy in JSON: one object with the fields of `StreamPolicy`, and ``"policy": 1``.

        Raises
        ------
        InvalidInputError
            For fields that are unknown, missing, repeated or of another type.
        """
        fields = json_fields(text, "a policy", {"public_keys", "neighbours", "schedule"})
        known = {"policy", *_FIELDS}
        if wrong := sorted(fields.keys() - known):
            raise InvalidInputError(
                f"the policy has an unknown field {short(wrong[0])}; its fields are {', '.join(_FIELDS)}"
            )
        if gone := sorted({"policy", *_NEEDED} - fields.keys()):
            raise InvalidInputError(f"a policy needs the field {gone[0]}")
        if type(fields["policy"]) is not int or fields.pop("policy") != VERSION:
            raise InvalidInputError(f'only policies of version {VERSION} can be read; set "policy": {VERSION}')
        for name, value in fields.items():
            if not isinstance(value, _FIELDS[name]) or isinstance(value, bool):
                raise InvalidInputError(f"the {name} of a policy must be {_WORDS[_FIELDS[name]]}, got {short(value)}")
        if fields.get("neighbours") is not None:
            fields["neighbours"] = Neighbours.from_dict(fields["neighbours"])
        return StreamPolicy(**fields)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "StreamPolicy":
        """Return the policy in a file. Relative paths in it start from the file's folder. Errors name the file."""
        try:
            found = StreamPolicy.from_json(read_bounded(path, current_limits().max_json_bytes, "max_json_bytes"))
        except (InvalidInputError, WireFormatError) as error:
            raise InvalidInputError(f"{Path(path)} is not a policy: {error}") from None
        home = Path(path).parent
        ledger = None if found.ledger is None else _from(home, found.ledger)
        return dataclasses.replace(found, folder=_from(home, found.folder), ledger=ledger)


_FIELDS: dict[str, Any] = {
    "time": str,
    "window": int | float | str,
    "start": str,
    "delay": int | float | str,
    "epsilon": int | float,
    "folder": str,
    "time_format": str | None,
    "offset": int | float | str,
    "zone": str | None,
    "clock": str,
    "max_ahead": int | float | str | None,
    "max_dropped": int | float | None,
    "delta": int | float,
    "mechanism": str,
    "neighbours": dict | None,
    "clip": str | None,
    "public_keys": list | None,
    "ledger": str | None,
    "dataset": str | None,
    "stream": str | None,
    "stop": str | None,
    "comparisons": str | None,
    "period": int | float | str | None,
    "max_windows": int | None,
    "schedule": object,
}
_NEEDED = tuple(_FIELDS)[:6]
_WORDS: dict[Any, str] = {
    object: "a schedule, as JSON has it",
    str: "text",
    str | None: "text or null",
    int | float: "a number",
    int | float | str: "seconds, or text such as '1 hour'",
    int | float | str | None: "seconds, or text such as '1 day', or null",
    int | float | None: "a number, or null",
    int | None: "an integer, or null",
    dict | None: "an object of relation, bound, unit and max_keys, or null",
    list | None: "a list of keys, or null",
}


def _schedule(given: Any) -> Schedule | None:
    return given if given is None or isinstance(given, Schedule) else schedule_of(given)


def _from(home: Path, place: str) -> str:
    """Return a place relative to a folder; one with a scheme stays as it is."""
    return place if "://" in place else str(home / place)
