"""What a job on files leaves behind: files with fixed names, so that a retried write changes nothing."""

import contextlib
import hashlib
import io
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from streamsketch.beam import WriteTable, comparison_schema
from streamsketch.errors import InvalidInputError
from streamsketch.estimation import Estimate
from streamsketch.release import PrivateSketch, PrivateTable
from streamsketch.wire import load

_LONGEST_NAME = 200
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
SKETCHES = "sketches.parquet"


class WriteReleases(beam.PTransform):
    """Write ``KV[key, PrivateSketch]`` as ``sketches.parquet``, sorted by key, and one ``sketches/KEY.sketch`` each."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        table = releases | "Write the table" >> WriteTable(FileSystems.join(self._folder, SKETCHES))
        files = releases | "Write each" >> beam.Map(_write_release, self._folder).with_output_types(str)
        return (table, files) | beam.Flatten()


class WriteComparisons(beam.PTransform):
    """Write ``KV[(key, key), Estimate]`` as a Parquet and a CSV file, nearest pair first.

    They are called ``distances`` or ``cosines``, by what the estimates are. The Parquet file carries the releases'
    ``guarantee`` as metadata. Cosines of a stream below the noise floor are null.
    """

    def __init__(self, folder: str, guarantee: str, by: Literal["distance", "cosine"]) -> None:
        super().__init__()
        self._folder, self._guarantee, self._by = folder, guarantee, by

    def expand(self, estimates: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        whole = estimates | beam.combiners.ToList()
        return whole | beam.Map(write_comparisons, self._folder, self._guarantee, self._by)


def read_comparisons(folder: str, by: Literal["distance", "cosine"]) -> pa.Table:
    """Return the table that `WriteComparisons` wrote."""
    return _read(folder, f"{by}s.parquet")


def read_releases(folder: str) -> PrivateTable:
    """Return the table that `WriteReleases` wrote."""
    with FileSystems.open(FileSystems.join(folder, SKETCHES)) as file, tempfile.TemporaryDirectory() as local:
        copy = Path(local, SKETCHES)  # the reader maps files of this machine
        copy.write_bytes(file.read())
        found: PrivateTable = load(copy)
    return found


def _read(folder: str, name: str) -> pa.Table:
    with FileSystems.open(FileSystems.join(folder, name)) as file:
        return pq.read_table(pa.BufferReader(file.read()))


def _write_release(keyed: tuple[Any, PrivateSketch], folder: str) -> str:
    name = f"{_file_name(str(keyed[0]))}.sketch"
    write(FileSystems.join(folder, "sketches"), name, keyed[1].to_bytes())
    return name


def write_comparisons(
    estimates: Iterable[tuple[tuple[Any, Any], Estimate]],
    folder: str,
    guarantee: str,
    by: Literal["distance", "cosine"],
) -> None:
    """Write all comparisons, nearest pair first."""
    schema = comparison_schema(pa.string(), by=by)
    name = schema.names[2]
    rows = []
    for (first, second), estimate in estimates:
        numbers = (estimate.value, estimate.standard_error, *estimate.interval(0.95))
        known = not math.isnan(estimate.value)
        rows.append(
            dict(zip(schema.names, (str(first), str(second), *(numbers if known else [None] * 4)), strict=True))
        )
    sign = -1 if by == "cosine" else 1
    rows.sort(key=lambda row: (math.inf if row[name] is None else sign * row[name], row["first"], row["second"]))
    table = pa.Table.from_pylist(rows, schema.with_metadata({"guarantee": guarantee}))
    write(folder, f"{by}s.parquet", _parquet_bytes(table))
    text = io.BytesIO()
    for place, end in enumerate(("first", "second")):  # keys are of other parties, and spreadsheets run formulas
        cells = pa.array(map(spreadsheet_text, table.column(end).to_pylist()), pa.string())
        table = table.set_column(place, end, cells)
    pa_csv.write_csv(table, text)
    write(folder, f"{by}s.csv", text.getvalue())


def _file_name(key: str) -> str:
    """Return a key as a file name; the table of releases has the keys themselves."""
    quoted = quote(key, safe="")
    return quoted if len(quoted) <= _LONGEST_NAME else hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def _parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def spreadsheet_text(text: str) -> str:
    """Return text for a CSV cell, with an apostrophe before anything that a spreadsheet would run as a formula.

    Examples
    --------
    >>> spreadsheet_text("=1+1"), spreadsheet_text("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def clear(folder: str) -> None:
    """Remove what an earlier run of this job left in its folder, so that old releases do not pass for new ones."""
    compared = [f"{by}s.{kind}" for by in ("distance", "cosine") for kind in ("parquet", "csv", "png")]
    names = [SKETCHES, *compared, "sketches/*.sketch"]
    if "://" not in folder and Path(folder).is_file():
        raise InvalidInputError(f"--output names a folder for the results, but {folder} is a file")
    if "://" not in folder:  # Beam would read a folder called out[1] as a pattern, and find out1
        for name in names:
            for path in Path(folder).glob(name):
                path.unlink()
        return
    for match in FileSystems.match([FileSystems.join(folder, name) for name in names]):
        FileSystems.delete([metadata.path for metadata in match.metadata_list])


def write(folder: str, name: str, content: bytes) -> None:
    """Write one file of results, on any file system Beam knows."""
    if not FileSystems.exists(folder):
        with contextlib.suppress(OSError):  # another worker may make it at the same time
            FileSystems.mkdirs(folder)
    with FileSystems.create(FileSystems.join(folder, name)) as file:
        file.write(content)
