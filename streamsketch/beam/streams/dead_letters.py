"""Dead letters: rows and messages that a stream dropped, in secret files for the operator."""

import datetime as dt
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.beam.intake.windows import LATE
from streamsketch.beam.run.claims import create_once
from streamsketch.beam.streams.messages import MALFORMED
from streamsketch.beam.streams.stable import publishing_step
from streamsketch.once.counts import RowCounts, Tally
from streamsketch.once.dead_letters import FILE_BYTES, MOST_BYTES, has_room, letter_of

AHEAD = "ahead"
_SECONDS = 30.0  # between two looks at how full the folder is


class WriteDeadLetters(beam.PTransform):
    """Write rows and messages that `DecodeMessages` dropped to files for the operator: ``(late, malformed) → None``.

    ``late-TIME-ID.parquet`` and ``ahead-TIME-ID.parquet`` have the agreed columns and the time.
    ``malformed-TIME-ID.parquet`` has a column ``message`` with the original messages. The files are **secret**; local
    ones have mode 0600. A file's name is drawn before the step that a runner may repeat, and each file is created once,
    so a retry neither repeats nor loses rows.

    Parameters
    ----------
    folder
        A folder that all workers share, on a local or mounted file system, gs:// or s3://, and not where results are
        published.
    most_bytes
        Limit on the size of all files together. Beyond it, or beyond 10,000 files, rows are counted but not kept.
        Workers measure the folder every 30 s, so it may become a little larger.
    counts
        Folder of counts, as in `DecodeMessages`, for the rows that are not kept.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import SJLT, Agreement
    >>> from streamsketch.beam.streams import DecodeMessages
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), key="shop", index="item")
    >>> decode = DecodeMessages(agreement, time="at", format="json", delay=60.0, size=3600.0)
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> batches, late, malformed = pipeline | beam.Create([b"not JSON"]) | decode
    >>> (late, malformed) | WriteDeadLetters("dead-letters")
    """

    def __init__(self, folder: str, *, most_bytes: int = MOST_BYTES, counts: str | None = None) -> None:
        super().__init__()
        self._step = _Write(folder, most_bytes, counts)

    def expand(self, dropped: Any) -> None:
        """Apply the transform."""
        packed = [
            rows | f"Pack {kind}" >> beam.ParDo(_Pack(kind)).with_output_types(tuple[str, int, bytes])
            for kind, rows in zip((LATE, MALFORMED), dropped, strict=True)
        ]
        # without it, the earlier steps would be fused with this one, and would wait for checkpoints as it does
        files = packed | beam.Flatten() | beam.Reshuffle()
        files | "Write" >> publishing_step(files, self._step)


class _Pack(beam.DoFn):
    """Makes files from the elements of a bundle: (name, number of rows, content)."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def start_bundle(self) -> None:
        self._rows: dict[tuple[str, Any], list[pa.RecordBatch]] = defaultdict(list)
        self._bytes = 0

    def process(self, dropped: pa.RecordBatch | bytes) -> Iterator[tuple[str, int, bytes]]:
        if isinstance(dropped, bytes):
            kind, batch = self._kind, pa.RecordBatch.from_pydict({"message": pa.array([dropped], pa.binary())})
        else:
            kind, batch = AHEAD if self._kind == MALFORMED else self._kind, _plain(dropped)
        self._rows[kind, batch.schema].append(batch)
        self._bytes += batch.nbytes
        if self._bytes > FILE_BYTES:
            yield from self._files()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for file in self._files():
            yield WindowedValue(file, MIN_TIMESTAMP, (GlobalWindow(),))

    def _files(self) -> Iterator[tuple[str, int, bytes]]:
        for (kind, schema), batches in self._rows.items():
            yield (
                f"{kind}-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex}.parquet",
                *letter_of(batches, schema),
            )
        self.start_bundle()


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without dictionaries and metadata, so that batches of one agreement have one schema."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class _Write(beam.DoFn):
    def __init__(self, folder: str, most_bytes: int, counts: str | None) -> None:
        self._folder, self._most, self._counts = folder, most_bytes, counts
        self._looked, self._sizes = -_SECONDS, list[int]()

    def process(self, file: tuple[str, int, bytes]) -> None:
        name, rows, content = file
        path = str(FileSystems.join(self._folder, name))
        self._look()
        if not has_room(self._sizes, content, self._most):
            if self._counts is not None and not FileSystems.exists(path):  # it exists if written before a failure
                tally = Tally.of(self._counts)
                tally.add(RowCounts(lost=rows))
                tally.flush(now=True)
            return
        if create_once(path, content):
            self._sizes.append(len(content))

    def _look(self) -> None:
        """Measure the folder, if the last time was long ago."""
        if time.monotonic() - self._looked < _SECONDS:
            return
        (match,) = FileSystems.match([FileSystems.join(self._folder, "*.parquet")])
        self._sizes, self._looked = [metadata.size_in_bytes for metadata in match.metadata_list], time.monotonic()
