"""The output of a job on files: files with fixed names, so that a later run replaces them."""

import contextlib
import hashlib
import io
import tempfile
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from streamsketch.core.text import spreadsheet_text
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.measures import MEASURES, By, pairwise
from streamsketch.release.private_table import PrivateTable
from streamsketch.wire.registry import load

_LONGEST_NAME = 200
_COMPARED: tuple[By, ...] = ("distance", "cosine")
_OF_COUNTED: tuple[By, ...] = ("mean",)
SKETCHES = "sketches.parquet"


def read_releases(folder: str) -> PrivateTable:
    """Return the table of releases in a folder of results."""
    with FileSystems.open(FileSystems.join(folder, SKETCHES)) as file, tempfile.TemporaryDirectory() as local:
        copy = Path(local, SKETCHES)  # the reader maps local files into memory
        copy.write_bytes(file.read())
        releases: PrivateTable = load(copy)
    return releases


def write_results(releases: PrivateTable, folder: str) -> None:
    """Write ``sketches/KEY.sketch``, and all distances and cosines as Parquet and CSV, nearest pair first.

    Where units were counted, ``means`` has the distances of their averages. The Parquet files carry the releases'
    guarantee as metadata. Cosines of a stream below the noise floor are null.
    """
    for key, release in releases.items():
        write(FileSystems.join(folder, "sketches"), f"{_file_name(str(key))}.sketch", release.to_bytes())
    are_counted = all(release.counts is not None for release in releases.values())
    for by in (*_COMPARED, *_OF_COUNTED) if are_counted else _COMPARED:
        table = comparisons(releases, by).replace_schema_metadata({"guarantee": str(releases.guarantee)})
        content, text = io.BytesIO(), io.BytesIO()
        pq.write_table(table, content)
        write(folder, f"{by}s.parquet", content.getvalue())
        for place, end in enumerate(("first", "second")):  # keys come from other parties, and spreadsheets run formulas
            cells = pa.array(map(spreadsheet_text, table.column(end).to_pylist()), pa.string())
            table = table.set_column(place, end, cells)
        pa_csv.write_csv(table, text)
        write(folder, f"{by}s.csv", text.getvalue())


def comparisons(releases: PrivateTable, by: By) -> pa.Table:
    """Return all comparisons of releases by one measure, nearest pair first, and pairs without a value last."""
    table = pairwise(list(releases.values()), by=by).to_arrow([str(key) for key in releases])
    gone = pc.is_nan(table.column("estimate"))
    for place, name in enumerate(table.column_names[2:], 2):
        table = table.set_column(place, name, pc.if_else(gone, None, table.column(name)))
    order = "ascending" if MEASURES[by].sign > 0 else "descending"
    table = table.sort_by([("estimate", order), ("first", "ascending"), ("second", "ascending")])
    return table.rename_columns([*table.column_names[:2], MEASURES[by].column, *table.column_names[3:]])


def clear(folder: str) -> None:
    """Remove the results of an earlier run from the folder, so that old releases are not taken for new ones."""
    names = [
        SKETCHES,
        *(f"{by}s.{kind}" for by in (*_COMPARED, *_OF_COUNTED) for kind in ("parquet", "csv", "png")),
        "sketches/*.sketch",
    ]
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
    """Write one file of results, on any file system that Beam knows."""
    if not FileSystems.exists(folder):
        with contextlib.suppress(OSError):  # another worker may make it at the same time
            FileSystems.mkdirs(folder)
    with FileSystems.create(FileSystems.join(folder, name)) as file:
        file.write(content)


def _file_name(key: str) -> str:
    """Return a key as a file name; the table of releases has the keys themselves."""
    quoted = quote(key, safe="")
    return quoted if len(quoted) <= _LONGEST_NAME else hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
