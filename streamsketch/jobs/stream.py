"""An unbounded job that releases each public key once in every window of event time, through failures and restarts."""

import dataclasses
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.utils.timestamp import Timestamp

from streamsketch.accounting.ledger import Ledger
from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.compare.results import comparison_schema
from streamsketch.beam.intake.bound import BoundContributions
from streamsketch.beam.intake.sketch import SketchPerKey
from streamsketch.beam.intake.windows import TumblingWindows
from streamsketch.beam.release.release import ReleasePerKey
from streamsketch.beam.streams.alarms import WriteAlarms, refused_alarm
from streamsketch.beam.streams.bound import BoundAcrossWindows
from streamsketch.beam.streams.changes import ChangesBetweenWindows, WindowChange, WindowDistances
from streamsketch.beam.streams.dead_letters import WriteDeadLetters
from streamsketch.beam.streams.folder import ReadGrowingFolder
from streamsketch.beam.streams.messages import DecodeMessages
from streamsketch.beam.streams.secret import configure_stream
from streamsketch.beam.streams.sinks import WriteFilesOnce, WriteRowsOnce
from streamsketch.beam.streams.topic import ReadTopic
from streamsketch.errors import InvalidInputError, StreamsketchError
from streamsketch.jobs.logs import LogForm, causes_of, logs
from streamsketch.jobs.run import beam_options
from streamsketch.once.databases import connection
from streamsketch.once.dead_letters import MOST_BYTES
from streamsketch.once.logs import log_event
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy

_LOG = logging.getLogger(__name__)


class Source(Protocol):
    """The log of a job; your own class needs the same two members."""

    @property
    def format(self) -> Literal["arrow", "json"]:
        """Format of messages, as in `streamsketch.beam.streams.DecodeMessages`."""

    def read(self, pipeline: beam.Pipeline, policy: StreamPolicy) -> beam.PCollection:
        """Return the messages, each with the watermark of its partition before it, a function of the log."""


class Topic(NamedTuple):
    """A Kafka topic.

    The fields are the brokers' addresses, the topic's name, the address of Beam's expansion service, the format of
    messages, and the name of a file of connection settings on every machine, as in `client_settings`.
    """

    servers: str
    topic: str
    expansion: str
    format: Literal["arrow", "json"] = "arrow"
    client_settings: str | None = None

    def read(self, pipeline: beam.Pipeline, policy: StreamPolicy) -> beam.PCollection:
        """Return the topic's messages."""
        reached: dict[str, Any] = {
            "group": f"streamsketch-{policy.job.stream}",
            "client_settings": self.client_settings,
        }
        read = ReadTopic(self.servers, self.topic, expansion=self.expansion, **reached, **_timing(policy))
        return pipeline | "Topic" >> read


class GrowingFolder(NamedTuple):
    """A folder in which Parquet files appear, each with a later name than the files before it.

    The fields are the folder, and the format of messages, which is always ``"arrow"``.
    """

    folder: str
    format: Literal["arrow"] = "arrow"

    def read(self, pipeline: beam.Pipeline, policy: StreamPolicy) -> beam.PCollection:
        """Return the rows of the files, as messages."""
        columns = list(dict.fromkeys([*policy.agreement.names, policy.time]))
        return pipeline | "Folder" >> ReadGrowingFolder(self.folder, columns, time=policy.time, **_timing(policy))


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamJob:
    """Sketch a log and release its windows, by an agreement and a job: a pipeline of Apache Beam that never ends.

    It also publishes comparisons: of each key with itself in the window before, and between the keys of a window.
    Releases are files ``STREAM/WINDOW/KEY.sketch`` in the job's folder, or rows of a database; ``KEY.change`` and
    ``pairs.json`` beside them hold the comparisons. A second release of a window and key with other bytes is refused
    and raises an alarm. With a schedule, releases are its rows, which `streamsketch.continual.History` reads, and there
    are no comparisons.

    Parameters
    ----------
    agreement
        What is released: windows that are releases, listed keys, and terms of noise.
    job
        How it is run. It must name the stream, the key of the workers (``root_key``) and their folder (``claims``).
        Rows that are late or too far ahead, and messages that cannot be read, are counted and dropped; its
        ``dead_letters`` keep them. The counts are in ``STREAM.counts`` in the claims' folder, if that is on a mounted
        file system.
    source
        The log to read, such as a `Topic` or a `GrowingFolder`.
    epoch
        Epoch of a job to restore; None for a new launch, which claims the next epoch.
    stop
        Time in microseconds since 1970: windows that start at it or later are not released, though the agreement
        releases them. For a job that computes a log once more.

    Raises
    ------
    InvalidInputError
        If no job on a cluster can follow the agreement; the sentence says what can.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement, Terms, Windows
    >>> from streamsketch.jobs import Topic
    >>> from streamsketch.streams.job import Job
    >>> columns = {"key": "carrier", "index": "route", "unit": "aircraft", "neighbours": L1(12, unit="aircraft")}
    >>> published = {"terms": Terms(epsilon=1), "keys": ["AA", "UA"]}
    >>> published |= {"windows": Windows(time="time", every="1 hour", first="2013-01-01")}
    >>> job = StreamJob(
    ...     agreement=Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, **published),
    ...     job=Job(
    ...         folder="/shared/out",
    ...         delay="1 min",
    ...         stream="flights",
    ...         root_key="/run/secrets/key",
    ...         claims="/shared/claims",
    ...     ),
    ...     source=Topic("broker:9092", "flights", expansion="127.0.0.1:8097"),
    ... )
    >>> job.stream, job.public_keys, job.counts
    ('flights', ['AA', 'UA'], '/shared/claims/flights.counts')

    ``job.run(["--runner=PortableRunner", …])`` then runs until the job ends.
    """

    agreement: Agreement
    job: Job
    source: Source
    epoch: int | None = None
    stop: int | None = None

    def __post_init__(self) -> None:
        policy = self.policy
        policy.check_cluster()
        policy.publisher()  # finds mistakes before the job runs
        self.job.need(("root_key", "claims"), "a cluster")
        dead_letters = self.job.dead_letters
        if dead_letters is not None and _is_within(dead_letters, self.job.folder):
            raise InvalidInputError(
                f"dead letters are secret, but their folder {dead_letters} is in the folder of published "
                f"results, {self.job.folder}; use another folder"
            )

    @property
    def policy(self) -> StreamPolicy:
        """The agreement and the job together."""
        return StreamPolicy(self.agreement, self.job)

    @property
    def counts(self) -> str | None:
        """Folder of the workers' counts, for the operator only; None if claims are not on a file system."""
        folder = str(FileSystems.join(self._claims, f"{self.stream}.counts"))
        return folder if FileSystems.get_scheme(folder) is None else None

    @property
    def _claims(self) -> str:
        return str(self.job.claims)

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return str(self.job.stream)

    @property
    def public_keys(self) -> list[Any]:
        """The keys to release, of the agreed type."""
        return self.policy.public_keys or []

    def run(self, options: Sequence[str] = (), *, log: LogForm = "text") -> int:
        """Run until the job ends, with options of Beam such as ``--runner=FlinkRunner``; return the exit status.

        Events and errors go to standard error, as lines of JSON without private values, or as text for the operator
        only. Status 2 means a mistake that the log explains, and 1 any other failure.
        """
        with logs(log, stream=self.stream) as always:
            runs = False
            try:
                pipeline = beam.Pipeline(options=beam_options(options, streaming=True))
                self._launch(pipeline, always)
                runs = True
                result = pipeline.run()
                if job := getattr(result, "_job_id", None):
                    log_event(_LOG, logging.INFO, "submitted", job=job)
                log_event(_LOG, logging.INFO, "ended", state=str(result.wait_until_finish()))
            except Exception as error:
                ours = isinstance(error, StreamsketchError)
                # once it runs, even our own errors may show where in the data something is wrong
                text = str(error) if ours and (log == "text" or not runs) else None
                log_event(_LOG, logging.ERROR, "failed", error=type(error).__name__, cause=causes_of(error), text=text)
                if log == "text" and not ours:
                    raise
                return 2 if ours else 1
        return 0

    def _launch(self, pipeline: beam.Pipeline, always: dict[str, Any]) -> None:
        self._check_ledger()
        epoch = self.configure(pipeline)
        always["epoch"] = epoch  # needed for a restore
        self.build(self.source.read(pipeline, self.policy), epoch)
        restored = self.epoch is not None
        log_event(_LOG, logging.INFO, "launched", runner=type(pipeline.runner).__name__, restored=restored)

    def configure(self, pipeline: beam.Pipeline) -> int:
        """Configure a pipeline's secrets; return the epoch, which a new launch claims."""
        return configure_stream(
            pipeline,
            stream=self.stream,
            root_key=Path(str(self.job.root_key)),
            claims=self._claims,
            epoch=self.epoch,
            clock=self.job.clock,
        )

    def _check_ledger(self) -> None:
        """Fail before the job runs if the ledger would refuse every window."""
        if self.job.ledger is None:
            return
        unit, dataset = self._charged_unit, self.job.dataset
        units = {entry.name: entry.unit for entry in Ledger(self.job.ledger).datasets}
        if units.get(str(dataset)) != unit:
            held = f"is for one {units[str(dataset)]}" if dataset in units else "is not in it"
            raise InvalidInputError(
                f"the job charges the ledger for one {unit}, but the data set {dataset!r} {held}; use another data "
                "set, or add one with streamsketch ledger init"
            )

    @property
    def _charged_unit(self) -> str:
        """The unit for which the ledger is charged: the agreed unit, or the unit in a schedule's windows."""
        policy = self.policy
        unit = policy.neighbours.unit
        if policy.is_enforced or not self.agreement.layout.limits_windows:
            return unit
        return str(policy.publisher().guarantee.neighbours.unit)

    def build(
        self, log: beam.PCollection, epoch: int | None = None, *, again: bool = False
    ) -> dict[str, beam.PCollection]:
        """Add the steps from messages to releases and comparisons, each written once; return the outputs by name.

        If a log is read ``again``, dropped rows are neither counted nor kept.
        """
        agreement, policy, windows = self.agreement, self.policy, _windows(self.policy)
        counts = None if again else self.counts
        decode = DecodeMessages(
            agreement,
            time=policy.time,
            format=self.source.format,
            count_private_data=self.job.count_private_data,
            delay=policy.delay_micros / 10**6,
            limit=policy.limit,
            counts=counts,
            first=policy.windows.start(policy.first),
            public_keys=policy.public_keys,
            **windows,
        )
        batches, late, malformed = log | "Decode" >> decode
        if self.job.dead_letters is not None and not again:
            keep = WriteDeadLetters(
                self.job.dead_letters, most_bytes=self.job.dead_letters_bytes or MOST_BYTES, counts=counts
            )
            (late, malformed) | "Dead letters" >> keep
        events = batches | "Windows" >> TumblingWindows(**windows, column=policy.time)
        if policy.is_enforced:
            events |= "Bound" >> self._bounds()
        sketches = events | "Sketch" >> SketchPerKey(agreement)
        ends = [end for end in (policy.stop_micros, self.stop) if end is not None]
        # the steps of a schedule know its horizon
        is_whole = policy.by_rows and not policy.has_last and self.stop is None
        stop = None if not ends or is_whole else min(ends) / 10**6
        release = ReleasePerKey(
            policy.noise,
            public_keys=self.public_keys,
            public_windows=(policy.windows.start(policy.first) / 10**6, stop),
            projection=agreement.projection,
            ledger=self.job.ledger,
            dataset=self.job.dataset,
        )
        refused: list[beam.PCollection] = []
        if self.job.ledger is None:
            releases = sketches | "Release" >> release
        else:
            releases, keys = sketches | "Release" >> release.with_refused()
            refused = [keys | "As alarms" >> beam.Map(refused_alarm, self.stream, epoch)]
        held, alarms = releases | "Write releases" >> self._sink(epoch)
        files: dict[str, Any] = {"folder": self.job.folder, "stream": self.stream, "epoch": epoch}
        outputs = {"batches": batches, "sketches": sketches, "releases": releases, "held": held}
        outputs |= {"late": late, "malformed": malformed}
        all_alarms = [alarms, *refused]
        if not policy.by_rows:  # rows are no streams to compare
            outputs["distances"], compared = self._compared(held, files)
            all_alarms += compared
        outputs["alarms"] = all_alarms | "All alarms" >> beam.Flatten()
        outputs["alarms"] | "Write alarms" >> WriteAlarms(FileSystems.join(self._claims, f"{self.stream}.alarms"))
        return outputs

    def _compared(
        self, held: beam.PCollection, files: dict[str, Any]
    ) -> tuple[beam.PCollection, list[beam.PCollection]]:
        """Write comparisons with the window before and between the keys of a window; return them, and alarms."""
        by = self.job.comparisons or "distance"
        changes = (
            held  # without releases that the sink refused: a comparison with them would publish them
            | "Changes" >> ChangesBetweenWindows(by=by)
            | "As rows" >> beam.Map(_change, comparison_schema(pa.string(), by=by).names[2])
        )
        pairs = (
            held
            | "Pairs" >> WindowDistances(len(self.public_keys), by=by)
            | "Name them" >> beam.Map(lambda rows: ("pairs", rows))
        )
        changed, change_alarms = changes | "Write changes" >> WriteFilesOnce(**files, suffix="change")
        paired, pair_alarms = pairs | "Write pairs" >> WriteFilesOnce(**files, suffix="json")
        return (changed, paired) | "All distances" >> beam.Flatten(), [change_alarms, pair_alarms]

    def _bounds(self) -> beam.PTransform:
        policy = self.policy
        options: dict[str, Any] = {"clip": self.agreement.clip_of(), "public_keys": self.public_keys}
        schedule = self.agreement.schedule
        if schedule is not None and schedule.limits_windows:
            first = Timestamp(micros=policy.windows.start(policy.first))
            period = schedule.horizon * policy.of_one_length.size / 10**6
            options |= {"max_windows": schedule.most, "period": period, "first": first}
            return BoundAcrossWindows(self.agreement, **options)
        if not policy.period_micros:
            return BoundContributions(self.agreement, **options)
        period = policy.period_micros / 10**6
        return BoundAcrossWindows(self.agreement, **options, max_windows=policy.max_windows, period=period)

    def _sink(self, epoch: int | None) -> beam.PTransform:
        if self.job.database is None:
            return WriteFilesOnce(self.job.folder, self.stream, epoch=epoch)
        return WriteRowsOnce(connection(self.job.database), self.stream, epoch=epoch)


def _is_within(folder: str, published: str) -> bool:
    """Return whether a folder is another one, or lies in it."""
    inner, outer = (Path(path.removeprefix("file://")).resolve() for path in (folder, published))
    return inner.is_relative_to(outer)


def _windows(policy: StreamPolicy) -> dict[str, Any]:
    """Return length and offset of windows in seconds, as Beam takes them."""
    size, offset = policy.of_one_length
    return {"size": size / 10**6, "offset": offset / 10**6}


def _timing(policy: StreamPolicy) -> dict[str, Any]:
    return {"delay": policy.delay_micros / 10**6, "clock": policy.clock, "limit": policy.limit, **_windows(policy)}


def _change(keyed: tuple[Any, WindowChange], name: str) -> tuple[Any, dict[str, Any]]:
    """Return a change as JSON values, with only those digits of its p-value that every worker computes."""
    key, (estimate, p_value) = keyed[0], (keyed[1].estimate, keyed[1].p_value)
    low, high = estimate.interval(0.95)
    row = {name: estimate.value, "standard_error": estimate.standard_error, "low_95": low, "high_95": high}
    finite = {column: number if math.isfinite(number) else None for column, number in row.items()}
    return key, finite | {"p_value": None if p_value is None else float(f"{p_value:.3g}")}
