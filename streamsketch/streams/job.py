"""Jobs: how one operator runs an unbounded stream whose agreement says what is published."""

import dataclasses
import ipaddress
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.core.limits import current_limits, json_fields, read_bounded
from streamsketch.core.numbers import number_hint, short
from streamsketch.core.text import check_text
from streamsketch.data.windows import microseconds
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.intake.clock import Clock, ClockKind
from streamsketch.once.counts import RowLimits
from streamsketch.once.slots import check_stream

VERSION = 1
_SHARES = {
    "max_dropped": "dropped",
    "max_blank": "blank",
    "max_early": "early",
    "max_other_keys": "other_keys",
    "max_undecodable": "undecodable",
    "min_volume": "volume",
}  # and the limits that they are (`RowLimits`)
Comparisons: TypeAlias = Literal["distance", "cosine", "mean"]
RowForm: TypeAlias = Literal["csv", "jsonl", "messages", "arrow", "json", "avro", "debezium"]
LogForm: TypeAlias = Literal["text", "json"]

_OF_STATES = ("delay", "clock", "max_ahead", "stream", "comparisons")  # which a state keeps: the windows hang on them
_OF_POLICIES = ("window", "start", "epsilon", "public_keys", "neighbours", "clip", "schedule", "time")
_MOST_PORT = 65_535
_MOST_PROCESSES = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What one operator decides of an unbounded stream: places, the log and its clock, sinks, and alarms.

    The agreement says all that is published, so two operators with one agreement and different jobs publish windows of
    one meaning. Where a clock or an idle partition makes the guarantee conditional, the releases state the condition.
    All commands ``streamsketch stream …`` read one job, each the fields that concern it.

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
    max_blank, max_early, max_other_keys
        The shares of rows that may lack a value that is needed, by default 0.1, may be before the first window, 0.1, or
        may be of keys that are not listed, 0.4, before the operator gets an alarm.
    max_undecodable
        The share of messages that may not be decoded, by default 0.01.
    min_volume
        The share of the usual number of rows of a window, below which the operator gets an alarm, by default 0.1.
    ledger, dataset
        A ledger to which each window is charged, and the data set in it. The charge is for the neighbours as agreed: a
        unit in several windows pays for each. All windows of a schedule are charged at once, before the first.
    stream
        Name of the stream, which a cluster needs. On one machine, each key is then released by itself, as on a cluster.
    comparisons
        What a cluster publishes besides releases: comparisons of each key with itself in the window before, and of the
        keys of a window with each other. They are by squared ``"distance"``, the default; by ``"cosine"``; or by
        ``"mean"``, the distance of averages, if units are counted.
    database
        A database for releases instead of files: ``"sqlite:PATH"``, or ``"postgresql"``, which takes its address from
        ``PGHOST`` and the like.
    format
        What the rows are written as. A log: ``"csv"`` or ``"jsonl"``, by default as its name says. A pipe: one of them,
        or ``"messages"``, which is what ``kcat -J`` prints. A topic: ``"arrow"``, the default, or ``"json"``; on one
        machine also ``"avro"``, with a registry, or ``"debezium"``, changes in JSON of which inserts are counted.
    registry
        Address of the schema registry of Avro messages, ``https://…``.
    decoder
        A function of your own that decodes messages, ``"MODULE:FUNCTION"``, in place of a format
        (`streamsketch.jobs.Decoder`): on one machine.
    delimiter, encoding, decimal, thousands, null_values
        Of lines, as in `intake.files.RowReader`. The cells that are missing values are one text with commas between,
        ``"NA,-"``.
    bad_lines
        What becomes of lines that cannot be read: ``"stop"``, the default with ``clock="events"``; ``"skip"``; or the
        name of a file that keeps them.
    follow
        Whether to wait for lines that are appended to a log, and to continue with the next file after a rotation.
    accept_loss
        Whether to continue with what is there if lines or records of the log were lost.
    servers, topic
        The addresses of Kafka's brokers, and the topic whose rows are read. A topic that is the ARN of a data stream of
        Kinesis has no servers: ``stream kafka`` reads it (`jobs.ShardStream`).
    client_settings
        File of settings for the connection to the brokers, such as TLS and SASL (`jobs.client_settings`).
    token
        A function of your own that returns a token with which clients log in, ``"MODULE:FUNCTION"``
        (`jobs.with_token`).
    group
        Consumer group to which offsets are committed, for monitoring only; by default it is named after the stream.
    idle_after
        Seconds without progress after which a partition that was read to its end no longer holds windows back; by
        default it always does. The guarantee then states a condition.
    processes
        How many processes ``stream kafka`` has, by default 1: one adds rows and publishes, and the others decode and
        read messages ahead of it (`jobs.Readers`). What is published does not depend on their number.
    standby
        Whether ``stream kafka`` waits while another process of this machine has the state, and goes on where that ends.
    expansion
        Beam's expansion service, with the connector of pipelines/flink: ``"HOST:PORT"``.
    incoming
        Growing folder of Parquet files, which a cluster reads instead of a topic.
    releases_topic
        Kafka topic to which ``stream publish`` writes releases.
    root_key, claims
        File on every worker that holds a key of 32 bytes, mode 0600; and a folder that all workers share, for epochs
        and alarms. Both are private, and a cluster needs them.
    count_private_data
        Whether a cluster counts late rows as Beam metrics, for the operator only.
    state
        File of the sums and the position in the log, ``.raw-stream``: secret. By default it is next to the job and has
        its name.
    every
        Seconds between two saves of the state while no window ends; by default 60.
    summary
        File for the counts of rows that were read and dropped, ``.json``: secret.
    dead_letters
        Folder for rows that are late, too far ahead or malformed: secret. By default they are only counted.
    dead_letters_bytes
        On a cluster, the largest size of that folder; by default 2^30.
    malformed
        File for messages with rows that cannot be read: secret.
    counts
        Folder for counts of rows, which ``stream kafka`` writes and ``stream watch`` reads: secret.
    dry_run
        Whether ``stream file``, ``stream pipe`` and ``stream kafka`` only show what they would drop (`DryStream`).
    log
        The lines of a job on standard error: ``"text"``, for the operator only, or ``"json"``, without private values.
    address, port
        IP address and port for metrics and health; by default 127.0.0.1 and 9100. Port 0 takes any free port. On an
        address that other machines reach, such as ``"0.0.0.0"``, only public facts are served.
    health
        File to which the line of health is written.
    alarms
        Folder of alarms for the operator, **secret**, which the watch counts. One machine writes its alarms there, a
        cluster to ``CLAIMS/STREAM.alarms``.
    stale_after, silent_after
        Seconds without a release after which the stream counts as stale, by default three windows; and without a record
        after which a partition counts as silent, by default one window.
    check_every
        Seconds between two checks of ``stream watch``, by default 5, and ``stream publish``, by default 1.
    flink, flink_job
        Flink's REST interface, ``"http://HOST:PORT"``, and the id of the job there; by default, the only one that runs.

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
    max_blank: float | None = None
    max_early: float | None = None
    max_other_keys: float | None = None
    max_undecodable: float | None = None
    min_volume: float | None = None
    ledger: str | None = None
    dataset: str | None = None
    stream: str | None = None
    comparisons: Comparisons | None = None
    database: str | None = None
    format: RowForm | None = None
    registry: str | None = None
    decoder: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    null_values: str | None = None
    bad_lines: str | None = None
    follow: bool = False
    accept_loss: bool = False
    servers: str | None = None
    topic: str | None = None
    client_settings: str | None = None
    token: str | None = None
    group: str | None = None
    idle_after: float | None = None
    processes: int = 1
    standby: bool = False
    expansion: str | None = None
    incoming: str | None = None
    releases_topic: str | None = None
    root_key: str | None = None
    claims: str | None = None
    count_private_data: bool = False
    state: str | None = None
    every: float = 60.0
    summary: str | None = None
    dead_letters: str | None = None
    dead_letters_bytes: int | None = None
    malformed: str | None = None
    counts: str | None = None
    dry_run: bool = False
    log: LogForm = "text"
    address: str = "127.0.0.1"
    port: int = 9100
    health: str | None = None
    alarms: str | None = None
    stale_after: float | None = None
    silent_after: float | None = None
    check_every: float | None = None
    flink: str | None = None
    flink_job: str | None = None

    def __post_init__(self) -> None:
        self._check_texts()
        Clock(0, self.clock)  # which knows the kinds
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidInputError("ledger and dataset go together; set both or neither")
        microseconds(self.delay, "delay", least=0)
        if self.max_ahead is not None:
            microseconds(self.max_ahead, "max_ahead")
        for name in _SHARES:
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise InvalidInputError(f"{name} is a share of rows from 0 to 1, got {share!r}")
        self._check_numbers()

    def _check_texts(self) -> None:
        for name, kind in _FIELDS.items():
            value = getattr(self, name)
            if kind.is_text and name not in _MARKS and (value is not None or name == "folder"):
                check_text(f"the {name} of a job", value)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in (None, *choices):
                raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {short(getattr(self, name))}")

    def _check_numbers(self) -> None:
        for name in _SECONDS:
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < math.inf:
                raise InvalidInputError(f"{name} must be a number of seconds > 0, got {seconds:g}")
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            raise InvalidInputError(
                f"address must be an IP address of this machine, such as 127.0.0.1, ::1 or 0.0.0.0, got "
                f"{short(self.address)}"
            ) from None
        if not 0 <= self.port <= _MOST_PORT:
            raise InvalidInputError(f"port must be a number from 0 to {_MOST_PORT:,}, got {self.port}")
        if not 1 <= self.processes <= _MOST_PROCESSES:
            raise InvalidInputError(f"processes must be a number from 1 to {_MOST_PROCESSES}, got {self.processes}")
        if self.dead_letters_bytes is not None and self.dead_letters_bytes < 1:
            raise InvalidInputError(f"dead_letters_bytes must be at least 1, got {self.dead_letters_bytes}")

    @property
    def limits(self) -> RowLimits:
        """Which shares of rows and messages may be lost before the operator gets an alarm."""
        stated = {limit: getattr(self, name) for name, limit in _SHARES.items()}
        return RowLimits(**{limit: float(share) for limit, share in stated.items() if share is not None})

    @property
    def delay_micros(self) -> int:
        """How far the watermark is behind the newest time."""
        return microseconds(self.delay, "delay", least=0)

    @property
    def missing_cells(self) -> list[str]:
        """The texts of ``null_values``."""
        return [text for text in (self.null_values or "").split(",") if text]

    def need(self, names: Iterable[str], what: str) -> None:
        """Raise `InvalidInputError` if a field is not set that ``what`` needs, such as "a cluster"."""
        if missing := [name for name in names if getattr(self, name) is None]:
            raise InvalidInputError(
                f"{what} needs {', '.join(missing)} in the job: add "
                + ", ".join(f'"{name}": …' for name in missing)
                + f" to its file, or give --set {missing[0]}=…"
            )

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

    def to_dict(self) -> Json:
        """Return the job as a dict that JSON can hold; what has its default is left out."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {"job": VERSION, **{name: value for name, value in fields.items() if value != defaults[name]}}

    def to_json(self) -> str:
        """Return the job as JSON: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def changed(self, before: Json) -> list[str]:
        """Return the fields that differ from an earlier `to_dict`, of those on which the windows of a state hang."""
        now: dict[str, Any] = json.loads(self.to_json())
        return sorted(name for name in ("job", *_OF_STATES) if now.get(name) != before.get(name))

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
            raise InvalidInputError(_unknown(wrong[0]))
        if gone := [name for name in ("job", "folder", "delay") if name not in fields]:
            raise InvalidInputError(f"a job needs the field {gone[0]}")
        if type(fields["job"]) is not int or fields.pop("job") != VERSION:
            raise InvalidInputError(f'only jobs of version {VERSION} can be read; set "job": {VERSION}')
        for name, value in fields.items():
            if not _FIELDS[name].holds(value):
                raise InvalidInputError(f"the {name} of a job must be {_FIELDS[name].words}, got {short(value)}")
        stated: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        return Job(**stated)

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
        places = {name: getattr(job, name) for name, kind in _FIELDS.items() if kind.is_place}
        moved: dict[str, Any] = {name: _from(home, place) for name, place in places.items() if place is not None}
        if job.bad_lines in ("stop", "skip"):
            moved.pop("bad_lines", None)
        return dataclasses.replace(job, **moved)

    def with_settings(self, settings: Iterable[str]) -> "Job":
        """Return the job with the fields in texts ``NAME=VALUE``, as ``--set`` of the commands takes them.

        Paths in them start from the working folder.

        Raises
        ------
        InvalidInputError
            For a text of another form, an unknown name, a name that is there twice, or a value that does not fit.

        Examples
        --------
        >>> Job(folder="releases", delay=60).with_settings(["topic=sales", "every=5"]).to_dict()
        {'job': 1, 'folder': 'releases', 'delay': 60, 'topic': 'sales', 'every': 5.0}
        """
        stated: dict[str, Any] = {}
        for text in settings:
            name, is_stated, value = text.partition("=")
            name = name.replace("-", "_")
            if not is_stated or not value:
                raise InvalidInputError(f"--set takes NAME=VALUE, with a field of the job, got {short(text)}")
            if name not in _FIELDS:
                raise InvalidInputError(_unknown(name))
            if name in stated:
                raise InvalidInputError(f"--set {name} is stated twice: leave one out")
            stated[name] = _FIELDS[name].read(name, value)
        return dataclasses.replace(self, **stated)


class _Field(NamedTuple):
    """What a field of a job holds."""

    kind: Literal["text", "place", "number", "length", "whole", "yes"]
    may_be_null: bool = True

    @property
    def is_text(self) -> bool:
        return self.kind in ("text", "place")

    @property
    def is_place(self) -> bool:
        """Whether a relative path starts from the job's folder."""
        return self.kind == "place"

    @property
    def words(self) -> str:
        return {
            "text": "text",
            "place": "text",
            "number": "a number",
            "length": "seconds, or text such as '1 hour'",
            "whole": "a whole number",
            "yes": "true or false",
        }[self.kind] + (" or null" if self.may_be_null else "")

    def holds(self, value: object) -> bool:
        """Return whether a value of JSON is of this kind."""
        if value is None:
            return self.may_be_null
        if isinstance(value, bool) or self.kind == "yes":
            return isinstance(value, bool) and self.kind == "yes"
        if self.is_text:
            return isinstance(value, str)
        return isinstance(value, {"whole": int, "number": int | float, "length": int | float | str}[self.kind])

    def read(self, name: str, text: str) -> Any:
        """Return the value that a text of ``--set`` states."""
        try:
            if self.kind == "yes":
                return {"yes": True, "no": False, "true": True, "false": False}[text]
            if self.kind in ("number", "whole"):
                return (int if self.kind == "whole" else float)(text)
        except (KeyError, ValueError):
            takes = {"yes": "yes or no", "whole": "a whole number"}.get(self.kind, "a number")
            raise InvalidInputError(f"--set {name} takes {takes}, got {short(text)}{number_hint(text)}") from None
        if self.kind == "length" and text.replace(".", "", 1).isdecimal():
            return float(text)
        return text


def _unknown(name: str) -> str:
    where = "; the agreement says that now" if name in _OF_POLICIES else ""
    return f"the job has an unknown field {short(name)}; its fields are {', '.join(_FIELDS)}{where}"


_KINDS: dict[str, Any] = {
    "delay": "length",
    "max_ahead": "length",
    **dict.fromkeys(("folder", "ledger", "client_settings", "incoming", "root_key", "claims", "state"), "place"),
    **dict.fromkeys(("summary", "dead_letters", "malformed", "counts", "health", "alarms", "bad_lines"), "place"),
    **dict.fromkeys((*_SHARES, "idle_after", "every", "stale_after", "silent_after", "check_every"), "number"),
    **dict.fromkeys(("port", "processes", "dead_letters_bytes"), "whole"),
    **dict.fromkeys(("follow", "accept_loss", "standby", "count_private_data", "dry_run"), "yes"),
}
_FIELDS = {
    field.name: _Field(_KINDS.get(field.name, "text"), field.name not in ("folder", "delay", "clock"))
    for field in dataclasses.fields(Job)
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "comparisons": get_args(Comparisons),
    "format": get_args(RowForm),
    "log": get_args(LogForm),
}
_MARKS = ("delimiter", "thousands")  # which may be a tab or a blank, and are checked where they are read
_SECONDS = ("idle_after", "every", "stale_after", "silent_after", "check_every")


def _from(home: Path, place: str) -> str:
    """Return a place relative to a folder; one with a scheme stays as it is."""
    return place if "://" in place else str(home / place)
