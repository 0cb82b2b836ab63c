"""Files as Arrow record batches: the fast way into `SketchPerKey`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from streamsketch.errors import InvalidInputError

_BATCH_ROWS = 1 << 17
_NUMBER = pa.decimal128(38, 12)
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}

Split: TypeAlias = tuple[str, int]
"""A file and one of its row groups, or -1 for the whole file."""


class ReadColumns(beam.PTransform):
    """Read columns of Parquet and CSV files: ``→ PCollection[pyarrow.RecordBatch]``, split by row group.

    Parameters
    ----------
    patterns
        File names or globs, on any file system Beam knows. Names that end in ``.csv`` (also with ``.gz``, ``.bz2`` or
        ``.zst`` behind) are read as CSV with a header line, others as Parquet.
    columns
        The columns to read.
    text
        Columns of CSV files to read as text: keys and indices, so that 007 stays 007. The others are read as exact
        decimals of up to 12 places. Nothing is guessed, so every file is read alike.

    Raises
    ------
    InvalidInputError
        In the workers: if a pattern matches no file, or a file lacks a column.
    """

    def __init__(self, patterns: Sequence[str], columns: Sequence[str], *, text: Sequence[str] = ()) -> None:
        super().__init__()
        if isinstance(patterns, str) or not patterns:
            raise InvalidInputError(f"patterns must be a list of at least one file name or glob, got {patterns!r}")
        self._patterns = list(patterns)
        self._columns = list(dict.fromkeys(columns))
        self._text = list(text)

    def expand(self, start: Any) -> beam.PCollection:
        """Apply the transform to a pipeline."""
        return (
            start
            | "Patterns" >> beam.Create(self._patterns)
            | "Split files" >> beam.FlatMap(_splits).with_output_types(tuple[str, int])
            | "Spread splits" >> beam.Reshuffle()
            | "Read batches" >> beam.FlatMap(_batches, self._columns, self._text).with_output_types(pa.RecordBatch)
        )

    def display_data(self) -> dict[str, Any]:
        """Show what is read."""
        return {"patterns": ", ".join(self._patterns), "columns": ", ".join(self._columns)}


def read_batches(
    patterns: Sequence[str], columns: Sequence[str], *, text: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `ReadColumns` would, in this process; parameters and errors as there."""
    for pattern in patterns:
        for split in _splits(pattern):
            yield from _batches(split, list(columns), list(text))


def _is_csv(path: str) -> bool:
    return re.search(r"\.csv(\.(gz|bz2|zst))?$", path.lower()) is not None


def _splits(pattern: str) -> Iterator[Split]:
    paths = [metadata.path for match in FileSystems.match([pattern]) for metadata in match.metadata_list]
    if not paths:
        raise InvalidInputError(f"no file matches {pattern!r}")
    for path in paths:
        if _is_csv(path):
            yield path, -1
            continue
        with FileSystems.open(path, compression_type="uncompressed") as file:
            try:
                groups = pq.ParquetFile(file).num_row_groups
            except pa.ArrowInvalid as error:
                raise InvalidInputError(f"{path} is not a Parquet file (nor named .csv): {error}") from None
        for group in range(groups):
            yield path, group


def _batches(split: Split, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    path, group = split
    with FileSystems.open(path, compression_type="uncompressed") as file:
        if group >= 0:
            yield from _parquet_batches(file, path, group, columns)
            return
        codec = _CODECS.get(path.lower().rsplit(".", 1)[-1])
        try:
            stream = pa.PythonFile(file, mode="r")
            yield from _csv_batches(pa.CompressedInputStream(stream, codec) if codec else stream, columns, text)
        except pa.ArrowException as error:
            # Arrow's own text may quote the file, which is private
            raise InvalidInputError(
                f"{path} cannot be read as CSV ({type(error).__name__}). It needs a header line with the columns "
                f"{', '.join(columns)}, as many cells in every line, and plain decimal numbers for values"
            ) from None


def _csv_batches(file: Any, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.string() if name in text else _NUMBER for name in columns}
    options = pa_csv.ConvertOptions(include_columns=columns, column_types=types, strings_can_be_null=False)
    parsing = pa_csv.ParseOptions(newlines_in_values=True)
    yield from pa_csv.open_csv(file, parse_options=parsing, convert_options=options)


def _parquet_batches(file: Any, path: str, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    schema = pq.read_schema(file)
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InvalidInputError(f"{path} has no column {', '.join(missing)}, only {', '.join(schema.names)}")
    # text comes as the file's own dictionaries: each distinct key is hashed once
    texts = [name for name in columns if _is_text(schema.field(name).type)]
    parquet = pq.ParquetFile(file, read_dictionary=texts)
    yield from parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))
