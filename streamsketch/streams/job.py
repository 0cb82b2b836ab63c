"""Jobs: how one operator runs an unbounded stream whose agreement says what is published."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from streamsketch.core.files import write_whole
from streamsketch.core.limits import current_limits, json_fields, read_bounded
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text
from streamsketch.data.windows import microseconds
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.intake.clock import Clock, ClockKind
from streamsketch.once.slots import check_stream

VERSION = 1
Comparisons: TypeAlias = Literal["distance", "cosine", "mean"]

_PLACES = ("folder", "ledger", "dataset", "max_dropped")  # may change when a state is continued
_OF_POLICIES = ("window", "start", "epsilon", "public_keys", "neighbours", "clip", "schedule", "time")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What one operator decides of an unbounded stream: places, the clock of the log, and alarms.

    The agreement says all that is published, so two operators with one agreement and different jobs publish windows of
    one meaning. Where a clock makes the guarantee conditional, the releases state the condition.
    ``streamsketch stream file`` follows a job on one machine, ``streamsketch stream beam`` on a cluster.

    Parameters
    ----------
    folder
        Folder for releases. For a stream with a name, it may be the URL of a place in an object store.
    delay
        How far events may be out of order, in seconds or as ``"5 min"``. The watermark is the newest time in the log
        less the delay. A window is over once the watermark is past its end, and later events of it are dropped.
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
    ledger, dataset
        A ledger to which each window is charged, and the data set in it. The charge is for the neighbours as agreed: a
        unit in several windows pays for each. All windows of a schedule are charged at once, before the first.
    stream
        Name of the stream, which a cluster needs. On one machine, each key is then released by itself, as on a cluster.
    comparisons
        What a cluster publishes besides releases: comparisons of each key with itself in the window before, and of the
        keys of a window with each other. They are by squared ``"distance"``, the default; by ``"cosine"``; or by
        ``"mean"``, the distance of averages, if units are counted.

    Raises
    ------
    InvalidInputError
        If a value is out of range, or a length is not a whole number of microseconds.

    Examples
    --------
    >>> job = Job(folder="releases", delay="5 min", clock="heartbeats")
    >>> job.to_json()
    '{"clock":"heartbeats","delay":"5 min","folder":"releases","job":1}'
    >>> Job.from_json(job.to_json()) == job
    True
    """

    folder: str
    delay: float | str
    clock: ClockKind = "events"
    max_ahead: float | str | None = None
    max_dropped: float | None = None
    ledger: str | None = None
    dataset: str | None = None
    stream: str | None = None
    comparisons: Comparisons | None = None

    def __post_init__(self) -> None:
        for name in ("folder", "ledger", "dataset", "stream"):
            if (value := getattr(self, name)) is not None or name == "folder":
                check_text(f"the {name} of a job", value)
        Clock(0, self.clock)  # which knows the kinds
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidInputError("ledger and dataset go together; set both or neither")
        microseconds(self.delay, "delay", least=0)
        if self.max_ahead is not None:
            microseconds(self.max_ahead, "max_ahead")
        if self.max_dropped is not None and not 0 <= self.max_dropped <= 1:
            raise InvalidInputError(f"max_dropped is a share of rows from 0 to 1, got {self.max_dropped!r}")
        if self.comparisons not in (None, *(known := get_args(Comparisons))):
            raise InvalidInputError(f"comparisons must be one of {', '.join(known)}, got {short(self.comparisons)}")

    @property
    def delay_micros(self) -> int:
        """How far the watermark is behind the newest time."""
        return microseconds(self.delay, "delay", least=0)

    def check_one_machine(self, *, is_named: bool = False) -> None:
        """Raise `InvalidInputError` for what only clusters follow, or, if ``is_named``, without a stream name."""
        if is_named:
            check_stream(self.stream)
        asked = [name for name in ("stream", "comparisons") if not (is_named and name == "stream")]
        if asked := [name for name in asked if getattr(self, name) is not None]:
            raise InvalidInputError(
                f"the job has {', '.join(asked)}, for `streamsketch stream beam` only; leave this out on one machine"
            )

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the job as a dict that JSON can hold; what is not set is left out."""
        fields = {"job": VERSION, **dataclasses.asdict(self)}
        if self.clock == "events":
            del fields["clock"]
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> str:
        """Return the job as JSON: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def changed(self, before: dict[str, Any]) -> list[str]:
        """Return the fields that differ from an earlier `to_dict`, except for the places of files."""
        now: dict[str, Any] = json.loads(self.to_json())
        return sorted(name for name in {"job", *_FIELDS} - {*_PLACES} if now.get(name) != before.get(name))

    @staticmethod
    def from_json(text: str | bytes) -> "Job":
        """Return the job in JSON: one object with the fields of `Job`, and ``"job": 1``.

        Raises
        ------
        InvalidInputError
            For fields that are unknown, missing, repeated or of another type.
        """
        fields = json_fields(text, "a job", set(_OF_POLICIES))
        if "policy" in fields:
            raise InvalidInputError(
                "it is a policy of an earlier version: what is published is in the agreement now (release, keys, "
                "windows, schedule), and the rest in a job"
            )
        if wrong := sorted(fields.keys() - {"job", *_FIELDS}):
            where = "; the agreement says that now" if wrong[0] in _OF_POLICIES else ""
            raise InvalidInputError(
                f"the job has an unknown field {short(wrong[0])}; its fields are {', '.join(_FIELDS)}{where}"
            )
        if gone := [name for name in ("job", "folder", "delay") if name not in fields]:
            raise InvalidInputError(f"a job needs the field {gone[0]}")
        if type(fields["job"]) is not int or fields.pop("job") != VERSION:
            raise InvalidInputError(f'only jobs of version {VERSION} can be read; set "job": {VERSION}')
        for name, value in fields.items():
            if not isinstance(value, _FIELDS[name]) or isinstance(value, bool):
                raise InvalidInputError(f"the {name} of a job must be {_WORDS[_FIELDS[name]]}, got {short(value)}")
        return Job(**fields)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_json` to a file atomically: all of it or nothing."""
        write_whole(path, self.to_json().encode() + b"\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Job":
        """Return the job in a file. Relative paths in it start from the file's folder. Errors name the file."""
        try:
            job = Job.from_json(read_bounded(path, current_limits().max_json_bytes, "max_json_bytes"))
        except (InvalidInputError, WireFormatError) as error:
            raise InvalidInputError(f"{Path(path)} is not a job: {error}") from None
        home = Path(path).parent
        ledger = None if job.ledger is None else _from(home, job.ledger)
        return dataclasses.replace(job, folder=_from(home, job.folder), ledger=ledger)


_FIELDS: dict[str, Any] = {
    "folder": str,
    "delay": int | float | str,
    "clock": str,
    "max_ahead": int | float | str | None,
    "max_dropped": int | float | None,
    "ledger": str | None,
    "dataset": str | None,
    "stream": str | None,
    "comparisons": str | None,
}
_WORDS: dict[Any, str] = {
    str: "text",
    str | None: "text or null",
    int | float | str: "seconds, or text such as '1 hour'",
    int | float | str | None: "seconds, or text such as '1 day', or null",
    int | float | None: "a number, or null",
}


def _from(home: Path, place: str) -> str:
    """Return a place relative to a folder; one with a scheme stays as it is."""
    return place if "://" in place else str(home / place)
