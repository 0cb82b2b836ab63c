"""A table of releases in one Parquet file, in the order of its keys on any runner."""

import contextlib
import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindows

from streamsketch.beam.compare.results import check_kinds, kinds_of
from streamsketch.beam.run.known import is_one_release
from streamsketch.core.documents import TableKey
from streamsketch.data.columns import key_column, plain_key
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import Projection
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.published_table import PublishedTable, stated_apart
from streamsketch.signs.publishers import SignTable

_PART_ROWS = 256
_KINDS: dict[str, type[PublishedTable[Any]]] = {kind.column: kind for kind in (PrivateTable, SignTable)}


class WriteTable(beam.PTransform):
    """Write releases as one Parquet table, sorted by key: ``KV[key, PrivateSketch] → PCollection[path]``.

    The file is in the format of `PrivateTable.save`, or for signs of `SignTable.save`, so `streamsketch.load` reads it.
    If the releases are not all of one `ReleasePerKey`, and bounds were enforced, they state the condition that no unit
    is in two of their data sets, as in `PrivateTable`.
    Its order and row groups depend on the keys only, not on the order in which releases arrive. It is written under
    another name in the same folder and then renamed, so it appears whole or not at all, and a retried step writes it
    again. One worker writes it, 256 releases at a time. A worker that is killed may leave a file whose name begins with
    ``.`` and the table's name. Without releases the file has no rows, and `streamsketch.load` refuses it.

    Parameters
    ----------
    path
        The file, on any file system that Beam knows. An existing file is replaced if the file system can rename over
        it.
    signs
        Whether the releases are `SignSketch` objects, ``KV[key, SignSketch]``.

    Raises
    ------
    InvalidInputError
        If the collection is in windows. In the workers, if keys are not all of one type out of text, bytes and integers
        of 64 bits, or a key appears twice.
    TypeError, IncompatibleProjectionsError
        In the workers, as in `streamsketch.PrivateTable`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> import streamsketch
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import ReleasePerKey, RowsToBatches, SketchPerKey
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", value="flights")
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=L1(1))
    >>> path = str(getfixture("tmp_path") / "table.parquet")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     written = (
    ...         pipeline
    ...         | beam.Create([("UA", 17, 1), ("AA", 18, 2)])
    ...         | RowsToBatches(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(noise, public_keys=["UA", "DL", "AA"])
    ...         | WriteTable(path)
    ...     )
    >>> list(streamsketch.load(path))
    ['AA', 'DL', 'UA']
    """

    def __init__(self, path: str, *, signs: bool = False) -> None:
        super().__init__()
        self._path, self._column = path, "signs" if signs else "sketch"

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        if not isinstance(releases.windowing.windowfn, GlobalWindows):
            raise InvalidInputError(
                f"a table holds each key once, but the releases are in {type(releases.windowing.windowfn).__name__}. "
                "Put the window into the key, then apply beam.WindowInto(beam.window.GlobalWindows())"
            )
        keys = (
            releases
            | "Keys" >> beam.Keys()
            | "All keys" >> beam.combiners.ToList()
            | "Sort keys" >> beam.Map(_sorted_keys).with_output_types(list[Any])
        )
        make = beam.Map(_table, column=self._column, is_one=is_one_release(releases))
        parts = (
            releases
            | "Assign parts"
            >> beam.Map(_part, self._column, keys=beam.pvalue.AsSingleton(keys)).with_output_types(
                beam.typehints.KV[int, tuple[Any, _KINDS[self._column].row_type]]  # type: ignore[misc]
            )
            | "Gather parts" >> beam.GroupByKey()
            | "Make parts" >> make.with_output_types(beam.typehints.KV[int, pa.Table])
        )
        write = beam.Map(_write, parts=beam.pvalue.AsMultiMap(parts), path=self._path, column=self._column)
        return keys | "Write" >> write.with_output_types(str)


def _sorted_keys(keys: Iterable[TableKey]) -> list[TableKey]:
    plain = [plain_key(key, "keys of a table") for key in keys]
    check_kinds(kinds_of(plain))
    plain.sort()
    if any(key == following for key, following in pairwise(plain)):
        raise InvalidInputError(
            "a key appears twice among the releases of a table; merge its sketches and release it once"
        )
    if plain:
        key_column(plain, "key")  # fails for integers of more than 64 bits, before anything is written
    return plain


def _part(keyed: tuple[Any, Any], column: str, keys: list[TableKey]) -> tuple[int, tuple[Any, Any]]:
    kind = _KINDS[column].row_type
    if not isinstance(keyed[1], kind):
        raise TypeError(f"the table holds {kind.__name__} objects, got a {type(keyed[1]).__name__}; release first")
    return bisect_left(keys, plain_key(keyed[0], "keys of a table")) // _PART_ROWS, keyed


def _table(part: tuple[int, Iterable[tuple[Any, Any]]], column: str, *, is_one: bool) -> tuple[int, pa.Table]:
    plain = {plain_key(key, "keys of a table"): release for key, release in part[1]}
    if not is_one:  # in each part alike, whatever the others hold
        plain = {key: stated_apart(release) for key, release in plain.items()}
    return part[0], _KINDS[column].of_one(plain).to_arrow()


def _write(keys: list[TableKey], parts: Any, path: str, column: str) -> str:
    """Write all parts in order; ``parts`` fetches the tables of a part when asked for it."""
    count = -(-len(keys) // _PART_ROWS)
    schema = _schema_of(keys, next(iter(parts[0])).schema) if count else _empty_schema(column)
    with (
        _renamed_at_the_end(path) as partial,
        FileSystems.create(partial, compression_type=CompressionTypes.UNCOMPRESSED) as file,
        pq.ParquetWriter(file, schema) as writer,
    ):
        for part in range(count):
            (table,) = parts[part]
            _projection(schema).check_same(_projection(table.schema))
            writer.write_table(table.cast(schema))
    return path


def _schema_of(keys: list[TableKey], first: pa.Schema) -> pa.Schema:
    """Return a part's schema with the type that holds the keys of all parts."""
    place = first.get_field_index("key")
    return first.set(place, first.field(place).with_type(key_column(keys, "key").type))


def _projection(schema: pa.Schema) -> Projection:
    return Projection.from_json(schema.metadata[b"streamsketch.projection"])


@contextlib.contextmanager
def _renamed_at_the_end(path: str) -> Iterator[str]:
    """Yield the name of a file beside a path that becomes it if nothing fails."""
    folder, name = FileSystems.split(path)
    if folder and not FileSystems.exists(folder):
        with contextlib.suppress(OSError):  # another step may make it at the same time
            FileSystems.mkdirs(folder)
    partial = str(FileSystems.join(folder, f".{name}.{secrets.token_hex(8)}"))
    try:
        yield partial
        FileSystems.rename([partial], [path])
    except BaseException:
        with contextlib.suppress(OSError):
            FileSystems.delete([partial])
        raise


def _empty_schema(column: str) -> pa.Schema:
    return pa.schema([("key", pa.string()), (column, pa.binary())])
