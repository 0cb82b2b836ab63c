"""Sinks that fill each slot of a stream once, however often and by whichever worker it is written."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import IntervalWindow

from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.run.claims import create_once, is_local, local_path
from streamsketch.beam.run.known import versions_of
from streamsketch.beam.run.runs import has_stream
from streamsketch.beam.streams.slots import slot_of
from streamsketch.errors import InvalidInputError
from streamsketch.once.publishing import put_slot
from streamsketch.once.sinks import DatabaseSink, FileSink, NamedObjects, Sink
from streamsketch.once.versions import Version, claimed, other_version, version_slot
from streamsketch.release.published import Published

ALARMS = "alarms"
_MOST_CLAIMS = 4096  # windows of which a worker remembers whose they are
_LOG = logging.getLogger(__name__)


class WriteOnce(beam.PTransform):
    """Write each release to its slot, which is filled once: ``KV[key, PrivateSketch] → (held, alarms)``.

    The first output has the releases that are in their slots. Compute everything else that you publish from it: a
    release that was refused is not public, and a comparison with it would reveal it.

    A second write of the same bytes changes nothing. A second write of other bytes changes nothing either, but raises
    an alarm: an element of the second output, an error in the log, and an increment of the counter ``alarms``. An alarm
    means that a window was computed twice, from different data or in two epochs, and that the second release was not
    published.

    All releases of a stream's window are of one version of its rows: before its first slot, the window is claimed for
    the sums of all its keys, in a slot of kind ``version``. A launch with other sums publishes none of the window, and
    each of its slots has an alarm. So a stream's releases must come directly from `ReleasePerKey`. Results that are
    computed from releases that are held need no claim: they are put one by one, as releases of other pipelines are.

    Parameters
    ----------
    sink
        The sink that holds the slots. Workers receive pickled copies, which they open.
    stream
        Name of the stream.
    result
        Name of this kind of result in alarms; by default the sink's. Results other than releases, such as dictionaries,
        are written as one line of JSON.
    epoch
        Epoch of the job, for alarms and the log.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import TumblingWindows
    >>> from streamsketch.streams import FileSink
    >>> release = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch().release(epsilon=1.0, neighbours=L1(1))
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> releases = pipeline | beam.Create([("north", release)]) | TumblingWindows(3600)
    >>> held, alarms = releases | WriteOnce(FileSink("releases"), "sales", epoch=1)
    """

    def __init__(self, sink: Sink, stream: str, *, result: str | None = None, epoch: int | None = None) -> None:
        super().__init__()
        self._how = stream, sink, result or sink.result, epoch

    def expand(self, releases: beam.PCollection) -> Any:
        """Apply the transform."""
        versioned = versions_of(releases)
        self._check(releases, versioned)
        write = _Write(*self._how, versioned=versioned is not None)
        step = beam.ParDo(write).with_output_types(releases.element_type)
        outputs = (releases if versioned is None else versioned) | "Write once" >> step.with_outputs(
            ALARMS, main="held"
        )
        return outputs.held, outputs[ALARMS]

    @staticmethod
    def _check(releases: beam.PCollection, versioned: beam.PCollection | None) -> None:
        """Raise `InvalidInputError` for a stream's releases whose version is not known."""
        if versioned is None and has_stream(releases.pipeline) and _are_releases(releases.element_type):
            raise InvalidInputError(
                "a stream publishes one version of a window, and a step after ReleasePerKey lost which one these "
                "releases are of; apply the sink directly to the output of ReleasePerKey"
            )


class WriteFilesOnce(WriteOnce):
    """Write each release to a file that is created once: ``KV[key, PrivateSketch] → (held, alarms)``.

    The file of a key in a window is ``FOLDER/STREAM/2013-01-01T05-00-00Z/KEY.sketch``. Outputs are those of
    `WriteOnce`.

    Parameters
    ----------
    folder
        A folder that all workers share, on a local or mounted file system, gs:// or s3://.
    stream
        Name of the stream.
    suffix
        Suffix of file names, and ``result`` of `WriteOnce`.
    epoch
        As in `WriteOnce`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import ReleasePerKey, RowsToBatches, SketchPerKey, TumblingWindows
    >>> from streamsketch.beam.streams import WriteFilesOnce
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", value="flights")
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=L1(1))
    >>> folder = getfixture("tmp_path")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     held, alarms = (
    ...         pipeline
    ...         | beam.Create([TimestampedValue(("AA", 17, 1), 3600)])
    ...         | TumblingWindows(3600)
    ...         | RowsToBatches(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(noise, public_keys=["AA"], public_windows=(0, 7200))
    ...         | WriteFilesOnce(str(folder), "flights")
    ...     )
    >>> sorted(path.parent.name for path in folder.rglob("*.sketch"))
    ['1970-01-01T00-00-00Z', '1970-01-01T01-00-00Z']
    """

    def __init__(self, folder: str, stream: str, *, suffix: str = "sketch", epoch: int | None = None) -> None:
        super().__init__(_files(folder, suffix), stream, epoch=epoch)


class WriteRowsOnce(WriteOnce):
    """Insert each release into an SQL table unless its row is there: ``KV[key, PrivateSketch] → (held, alarms)``.

    The database is SQLite or PostgreSQL, and rows are written with ``INSERT … ON CONFLICT DO NOTHING``. The table is
    created if it does not exist::

        stream TEXT, window_start BIGINT (microseconds), kind TEXT, key TEXT, release BLOB or BYTEA,
        PRIMARY KEY (stream, window_start, kind, key)

    Outputs are those of `WriteOnce`.

    Parameters
    ----------
    connect
        Function without arguments that opens a DB-API 2 connection. Workers call it, so let it read the password there.
    stream
        Name of the stream.
    table
        Name of the table.
    epoch
        As in `WriteOnce`.

    Raises
    ------
    InvalidInputError
        If the table's name has characters other than letters, digits and ``_``.

    Examples
    --------
    >>> import contextlib, sqlite3
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import TumblingWindows
    >>> path = str(getfixture("tmp_path") / "releases.sqlite")
    >>> release = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch().release(epsilon=1.0, neighbours=L1(1))
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     keyed = pipeline | beam.Create([("north", release)])
    ...     releases = keyed | beam.Map(lambda one: TimestampedValue(one, 0)) | TumblingWindows(3600)
    ...     held, alarms = releases | WriteRowsOnce(lambda: sqlite3.connect(path), "sales")
    >>> with contextlib.closing(sqlite3.connect(path)) as connection:
    ...     connection.execute("SELECT stream, window_start, key FROM releases").fetchall()
    [('sales', 0, 'north')]
    """

    def __init__(
        self, connect: Callable[[], Any], stream: str, *, table: str = "releases", epoch: int | None = None
    ) -> None:
        super().__init__(_Rows(connect, table), stream, epoch=epoch)


class _Write(beam.DoFn):
    def __init__(self, stream: str, sink: Sink, result: str, epoch: int | None, *, versioned: bool) -> None:
        self._stream, self._sink, self._result, self._epoch = stream, sink, result, epoch
        self._versioned = versioned
        self._claimed: dict[Version, bool] = {}

    def setup(self) -> None:
        self._sink.open()

    def teardown(self) -> None:
        self._sink.close()

    def process(self, keyed: tuple[Any, Any], window: IntervalWindow = beam.DoFn.WindowParam) -> Iterator[Any]:
        key, release = keyed
        slot = slot_of(self._stream, key, window)
        if self._versioned:
            release, digest = release
            if not self._is_claimed(Version(version_slot(slot.stream, slot.start), digest)):
                Metrics.counter(METRICS, ALARMS).inc()
                (other,) = other_version(self._sink, [slot], self._epoch, self._result)
                yield beam.pvalue.TaggedOutput(ALARMS, other)
                return
        alarm = put_slot(self._sink, slot, _content(release), self._epoch, self._result)
        if alarm is None:
            Metrics.counter(METRICS, "held").inc()
            yield key, release
        else:
            Metrics.counter(METRICS, ALARMS).inc()
            yield beam.pvalue.TaggedOutput(ALARMS, alarm)

    def _is_claimed(self, version: Version) -> bool:
        """Claim a window before its first slot, unless this worker knows whose it is: a claim never changes."""
        if version not in self._claimed:
            if len(self._claimed) >= _MOST_CLAIMS:
                self._claimed.clear()
            self._claimed[version] = claimed(self._sink, version)
        return self._claimed[version]


def _are_releases(element: Any) -> bool:
    """Return whether the values of a collection are known to be releases."""
    types: tuple[Any, ...] = getattr(element, "tuple_types", ())
    return len(types) == 2 and isinstance(types[1], type) and issubclass(types[1], Published)


def _content(result: Any) -> bytes:
    """Return a release in the exchange format, or other results as one line of JSON."""
    if isinstance(result, Published):
        return result.to_bytes()
    return json.dumps(result, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def _files(folder: str, suffix: str) -> Sink:
    return FileSink(local_path(folder), suffix) if is_local(folder) else _Objects(folder, suffix)


class _Objects(NamedObjects):
    """Files of gs:// and s3://, through Beam's file systems."""

    def create(self, name: str, content: bytes) -> bool:
        return create_once(name, content, mode=0o644)

    def read(self, name: str) -> bytes | None:
        if not FileSystems.exists(name):
            return None
        with FileSystems.open(name, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            return bytes(file.read())


class _Rows(DatabaseSink):
    """A `DatabaseSink` with Beam's pickler, which accepts functions that pickle refuses."""

    _dumps, _loads = staticmethod(pickler.dumps), staticmethod(pickler.loads)
