"""Files as Arrow record batches: the fast way into `SketchPerKey`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from streamsketch.agreement import Agreement
from streamsketch.beam.run.steps import Each
from streamsketch.data import batches, check_delimiter, parts_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Intake

Split: TypeAlias = tuple[str, int]
"""A file and one of its parts."""
_SPLITS = beam.typehints.KV[tuple[str, int], None]


class ReadColumns(beam.PTransform):
    """Read columns of Parquet, CSV, JSON, Avro and text files: ``→ PCollection[pyarrow.RecordBatch]``.

    Parquet files are split by row group; the others are read whole, one worker a file. Text is UTF-8, with or without a
    byte order mark.

    What is wrong with a file ends the job, without a word of the file: a line of text that is not UTF-8, a CSV line
    with more or fewer cells, a cell that is not a number in a column of numbers. A CSV cell in double quotes may hold
    commas and line ends, so a quote that is never closed takes in the lines up to the next quote, which nobody notices
    if the number of cells agrees. Where people's own text is in quotes, those within must be doubled, or one person's
    text can hide other people's rows.

    Parameters
    ----------
    patterns
        File names or globs, on any file system Beam knows. Names that end in ``.csv`` are read as CSV with a header
        line, in ``.jsonl`` or ``.ndjson`` as lines of JSON objects, in ``.txt`` or ``.log`` as lines of text (each also
        with ``.gz``, ``.bz2`` or ``.zst`` behind), in ``.avro`` as Avro records, others as Parquet.
    columns
        The columns to read, or an `Agreement`, whose columns are read and cast to its types: an error then names the
        row, counted within a Parquet file's row group, else within the file. Files of lines have two columns:
        ``line``, without its end, and ``file``, the name.
    time
        A column of times that is read beside those of an agreement, and stays as it is.
    text
        Columns of CSV and JSON files to read as text: keys and indices, so that 007 stays 007. The others are read as
        exact decimals of up to 12 places. Nothing is guessed, so every file is read alike.
    delimiter
        What is between the cells of CSV files, one ASCII character.

    Raises
    ------
    InvalidInputError
        In the workers: if a pattern matches no file, or a file lacks a column or is not valid.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        columns: Sequence[str] | Agreement,
        *,
        time: str | None = None,
        text: Sequence[str] = (),
        delimiter: str = ",",
    ) -> None:
        super().__init__()
        if isinstance(patterns, str) or not patterns:
            raise InvalidInputError(f"patterns must be a list of at least one file name or glob, got {patterns!r}")
        self._patterns = list(patterns)
        self._columns = columns if isinstance(columns, Agreement) else list(dict.fromkeys(columns))
        self._how = (time, list(text), check_delimiter(delimiter))

    def expand(self, start: Any) -> beam.PCollection:
        """Apply the transform to a pipeline."""
        patterns = start | "Patterns" >> beam.Impulse()
        if len(self._patterns) > 1:
            each = beam.ParDo(Each(_named, self._patterns)).with_output_types(beam.typehints.KV[str, None])
            patterns = patterns | "Each pattern" >> each | "Spread patterns" >> beam.GroupByKey()
        read = Each(_read_split, self._columns, *self._how)
        return (
            patterns
            | "Split files" >> beam.ParDo(Each(_named_splits, self._patterns[0])).with_output_types(_SPLITS)
            # each split is a key of its own: Reshuffle would be four steps more
            | "Spread splits" >> beam.GroupByKey()
            | "Read batches" >> beam.ParDo(read).with_output_types(pa.RecordBatch)
        )

    def display_data(self) -> dict[str, Any]:
        """Show what is read."""
        return {"patterns": ", ".join(self._patterns), "columns": ", ".join(_names(self._columns))}


def read_batches(
    patterns: Sequence[str],
    columns: Sequence[str] | Agreement,
    *,
    time: str | None = None,
    text: Sequence[str] = (),
    delimiter: str = ",",
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `ReadColumns` would, in this process; parameters and errors as there."""
    for pattern in patterns:
        for split in _splits(pattern):
            yield from _batches(split, columns, time, list(text), delimiter)


def _names(columns: Sequence[str] | Agreement) -> list[str]:
    return columns.names if isinstance(columns, Agreement) else list(columns)


def _named(_: bytes, patterns: list[str]) -> Iterator[tuple[str, None]]:
    for pattern in patterns:
        yield pattern, None


def _named_splits(given: bytes | tuple[str, Iterable[None]], only: str) -> Iterator[tuple[Split, None]]:
    """Yield the splits of a pattern; an impulse, which is bytes, stands for the only one."""
    pattern, times = (only, [None]) if isinstance(given, bytes) else given
    for _ in times:
        for split in _splits(pattern):
            yield split, None


def _read_split(group: tuple[Split, Iterable[None]], *how: Any) -> Iterator[pa.RecordBatch]:
    split, times = group
    for _ in times:  # a file that is named twice is read twice
        yield from _batches(split, *how)


def _splits(pattern: str) -> Iterator[Split]:
    paths = [metadata.path for match in FileSystems.match([pattern]) for metadata in match.metadata_list]
    if not paths:
        raise InvalidInputError(f"no file matches {pattern!r}")
    for path in paths:
        with FileSystems.open(path, compression_type="uncompressed") as file:
            parts = parts_of(file, path)
        yield from ((path, part) for part in range(parts))


def _batches(
    split: Split, columns: Sequence[str] | Agreement, time: str | None, text: list[str], delimiter: str
) -> Iterator[pa.RecordBatch]:
    path, part = split
    names = list(dict.fromkeys([*_names(columns), *([] if time is None else [time])]))
    with FileSystems.open(path, compression_type="uncompressed") as file:
        if not isinstance(columns, Agreement):
            yield from batches(file, path, part, names, text, delimiter=delimiter)
            return
        intake, first = Intake(columns, time=time), 1
        keeps = columns.missing == "keep"  # then values are read as numbers, and text as it stands
        text = [name for name in names if not (keeps and name == columns.value)]
        for batch in batches(file, path, part, names, text, delimiter=delimiter, any_text=not keeps):
            try:
                yield intake.cast(batch, first)
            except InvalidInputError as error:
                raise InvalidInputError(f"{path}{f', row group {part + 1}' if part else ''}: {error}") from None
            first += batch.num_rows
