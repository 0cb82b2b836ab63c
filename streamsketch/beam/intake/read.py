"""Files as Arrow record batches: the fast way into `SketchPerKey`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.run.steps import Each, Listed
from streamsketch.data.readers.delimited import csv_dialect
from streamsketch.data.readers.formats import batches, parts_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake.files import RowReader
from streamsketch.intake.rows import Intake

Split: TypeAlias = tuple[str, int]
"""A file and one of its parts."""
_SPLITS = beam.typehints.KV[tuple[str, int], None]


class ReadColumns(beam.PTransform):
    """Read columns of Parquet, CSV, JSON, Avro and text files: ``→ PCollection[pyarrow.RecordBatch]``.

    Parquet files are split by row group; the others are read whole, one worker a file. Text is UTF-8, with or without a
    byte order mark.

    A fault in a file ends the job, with an error that quotes nothing from the file: a line of text that is not UTF-8, a
    CSV line with more or fewer cells, or a cell that is not a number in a column of numbers. A line of CSV is one row:
    a line break within quotes is a fault, too, unless ``multiline`` allows it.

    Parameters
    ----------
    patterns
        File names or globs, on any file system Beam knows. Names that end in ``.csv`` are read as CSV with a header
        line, in ``.jsonl`` or ``.ndjson`` as lines of JSON objects, in ``.txt`` or ``.log`` as lines of text (each also
        with ``.gz``, ``.bz2`` or ``.zst`` behind), in ``.avro`` as Avro records, others as Parquet.
    columns
        An `Agreement`, whose columns are read and cast to its types; an error then names the row, counted within a
        Parquet file's row group, or within another file. Or names of columns, which are read without a cast. Files of
        lines have two columns: ``line``, without its line end, and ``file``, the file's name.
    text
        Columns of CSV and JSON files to read as text, so that 007 stays 007. The others are read as exact decimals of
        up to 12 places. Nothing is guessed, so every file is read alike. With an agreement, leave it out.
    time
        With an agreement, another column of times, or of times as text, for `TumblingWindows`.
    delimiter
        The delimiter of CSV files, one ASCII character.
    encoding
        The encoding of files of CSV, JSON lines and text, such as ``"cp1252"``; by default UTF-8.
    decimal
        The decimal point of numbers in CSV files, ``"."`` or ``","``. Without an agreement, columns of ``text`` stay as
        they are.
    thousands
        The mark between groups of three digits in numbers in CSV files: ``","``, ``"."``, ``" "``, ``"'"``, ``"_"``, or
        None. Without an agreement, columns of ``text`` stay as they are.
    null_values
        Cells of CSV that are missing values, such as ``["NA", "-"]``.
    multiline
        Whether CSV cells in double quotes may hold line breaks. By default, they may if an agreement without a column
        of units is given. Where units are bounded, it is refused: if quotes in people's own text are not doubled, one
        person's text can hide other people's rows. Convert such files to Parquet, or use ``streamsketch sketch --set
        multiline=yes``, whose guarantee states that condition. So leave it out, too, if you name columns and bound
        units later.

    Raises
    ------
    InvalidInputError
        If ``multiline`` is True and the agreement names a column of units. In the workers, if a pattern matches no
        file, or a file lacks a column or is not valid.

    Examples
    --------
    >>> import apache_beam as beam
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> path = getfixture("tmp_path") / "sales.parquet"
    >>> pq.write_table(pa.table({"shop": ["north", "south"], "item": ["tea", "jam"]}), path)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     batches = pipeline | ReadColumns([str(path)], ["shop", "item"])
    """

    def __init__(  # noqa: PLR0913 - what CSV leaves open
        self,
        patterns: Sequence[str],
        columns: Sequence[str] | Agreement,
        *,
        text: Sequence[str] = (),
        time: str | None = None,
        delimiter: str = ",",
        encoding: str | None = None,
        decimal: str = ".",
        thousands: str | None = None,
        null_values: Sequence[str] = (),
        multiline: bool | None = None,
    ) -> None:
        super().__init__()
        if isinstance(patterns, str) or not patterns:
            raise InvalidInputError(f"patterns must be a list of at least one file name or glob, got {patterns!r}")
        self._patterns = list(patterns)
        written: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
        written |= {"thousands": thousands, "null_values": null_values}
        self._reads = _Reads.of(columns, text, time, written, multiline=multiline)

    def expand(self, start: Any) -> beam.PCollection:
        """Apply the transform to a pipeline."""
        patterns = start | "Patterns" >> beam.Impulse()
        if len(self._patterns) > 1:
            named = [(pattern, None) for pattern in self._patterns]
            each = beam.ParDo(Listed(named)).with_output_types(beam.typehints.KV[str, None])
            patterns = patterns | "Each pattern" >> each | "Spread patterns" >> beam.GroupByKey()
        read = Each(_read_split, self._reads)
        return (
            patterns
            | "Split files" >> beam.ParDo(Each(_named_splits, self._patterns[0])).with_output_types(_SPLITS)
            # each split is a key of its own: Reshuffle would be four steps more
            | "Spread splits" >> beam.GroupByKey()
            | "Read batches" >> beam.ParDo(read).with_output_types(pa.RecordBatch)
        )

    def display_data(self) -> dict[str, Any]:
        """Show what is read."""
        return {"patterns": ", ".join(self._patterns), "columns": ", ".join(self._reads.options["columns"])}


def read_batches(  # noqa: PLR0913 - as `ReadColumns`
    patterns: Sequence[str],
    columns: Sequence[str] | Agreement,
    *,
    text: Sequence[str] = (),
    time: str | None = None,
    delimiter: str = ",",
    encoding: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    null_values: Sequence[str] = (),
    multiline: bool | None = None,
) -> Iterator[pa.RecordBatch]:
    r"""Yield the batches of `ReadColumns` in this process. Parameters and errors are the same.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "sales.csv"
    >>> _ = path.write_text("shop,item,sold\nnorth,007,3\n")
    >>> [batch.to_pydict() for batch in read_batches([str(path)], ["shop", "item"], text=["shop", "item"])]
    [{'shop': ['north'], 'item': ['007']}]
    """
    written: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
    written |= {"thousands": thousands, "null_values": null_values}
    reads = _Reads.of(columns, text, time, written, multiline=multiline)
    for pattern in patterns:
        for split in _splits(pattern):
            yield from reads.batches(split)


class _Reads(NamedTuple):
    """How the columns of files are read, and by what their rows are cast."""

    options: dict[str, Any]
    intake: Intake | None

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | Agreement,
        text: Sequence[str],
        time: str | None,
        written: dict[str, Any],
        *,
        multiline: bool | None,
    ) -> "_Reads":
        dialect = csv_dialect(**written)
        if isinstance(columns, Agreement):
            intake = Intake(columns, bounded=columns.unit is not None, time=time)
            if multiline and columns.unit is not None:
                raise InvalidInputError(
                    f"units are bounded, the column {columns.unit.name}, so CSV cells cannot hold line breaks here: "
                    "leave out multiline, and convert files with such cells to Parquet; or read them by `streamsketch "
                    "sketch --set multiline=yes`"
                )
            return cls(RowReader(columns, time, multiline=multiline, **written).options, intake)
        names = list(dict.fromkeys(columns))
        return cls({"columns": names, "text": list(text), "dialect": dialect, "multiline": bool(multiline)}, None)

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        path, part = split
        with FileSystems.open(path, compression_type="uncompressed") as file:
            first = 1
            for batch in batches(file, path, part, **self.options):
                try:
                    yield batch if self.intake is None else self.intake.cast(batch, first)
                except InvalidInputError as error:
                    raise InvalidInputError(f"{path}{f', row group {part + 1}' if part else ''}: {error}") from None
                first += batch.num_rows


def _named_splits(element: bytes | tuple[str, Iterable[None]], only: str) -> Iterator[tuple[Split, None]]:
    """Yield the splits of a pattern; an impulse, which is bytes, means the only pattern."""
    pattern, times = (only, [None]) if isinstance(element, bytes) else element
    for _ in times:
        for split in _splits(pattern):
            yield split, None


def _read_split(group: tuple[Split, Iterable[None]], reads: _Reads) -> Iterator[pa.RecordBatch]:
    split, times = group
    for _ in times:  # a file that is named twice is read twice
        yield from reads.batches(split)


def _splits(pattern: str) -> Iterator[Split]:
    paths = [metadata.path for match in FileSystems.match([pattern]) for metadata in match.metadata_list]
    if not paths:
        raise InvalidInputError(f"no file matches {pattern!r}")
    for path in paths:
        with FileSystems.open(path, compression_type="uncompressed") as file:
            parts = parts_of(file, path)
        yield from ((path, part) for part in range(parts))
