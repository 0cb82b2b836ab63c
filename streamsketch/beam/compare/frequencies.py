"""How often the items of a dictionary occur in each release of a collection."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import apache_beam as beam
import pyarrow as pa

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.compare.results import key_column
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.core.numbers import check_int
from streamsketch.data.columns import plain_key
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.intervals import miss_of
from streamsketch.estimation.items import item_table
from streamsketch.estimation.largest import top
from streamsketch.estimation.points import PointEstimator, check_point_estimator, frequency
from streamsketch.release.private_sketch import PrivateSketch

Rows: TypeAlias = Literal["rows", "columns"]

_TILE = 1 << 16  # items that a worker estimates at a time
_PLACED = beam.typehints.KV[int, tuple[Any, PrivateSketch]]
_NAMED = beam.typehints.KV[bytes, tuple[Any, PrivateSketch]]
_TILES = beam.typehints.KV[bytes, pa.Table]
_NUMBERS = ("estimate", "error", "low", "high")


class Frequencies(beam.PTransform):
    """Estimate how often items occur in each stream: ``KV[key, PrivateSketch] → PCollection[row]``.

    Each row has ``key``, ``item``, ``estimate``, ``error``, ``low`` and ``high``, the numbers of
    `streamsketch.frequency` in data units. Rows come in any order. No further budget is spent. Each release is read by
    itself, so releases may be in windows, and a key may appear again in another window; rows keep the window of their
    release.

    A dictionary in memory is sent with the step, once, and works in unbounded streams, too. Pass a dictionary of more
    than a few megabytes as a collection, which workers read as a side input. Workers share the tiles of 65,536 items
    into which either is cut, so all of them take part in estimating a single release.

    Parameters
    ----------
    dictionary
        The items: a column, a tuple of columns or a table, as in `streamsketch.frequency`; or a collection of Arrow
        tables or batches with a column for each part of the index, such as `ReadColumns` yields. It must not depend on
        the data of the streams.
    agreement
        The agreement that the streams followed, whose types items are cast to. Releases under an agreement need it.
    estimator
        ``"mean"``, ``"median"`` or ``"auto"``.
    confidence
        Probability with which the interval of a row contains the true count; with ``n``, all intervals of a key
        together.
    n
        Return only the n largest estimates of each key, largest first within a batch, with the intervals of
        `streamsketch.top`, which allow for the selection. One worker then estimates each key.
    results
        ``"rows"``: one dictionary per row, for sinks that take rows. ``"columns"``: Arrow tables of `frequency_schema`,
        each with at most 65,536 rows of one key, the form for large dictionaries.

    Raises
    ------
    InvalidInputError
        If the dictionary has no items, ``results`` or ``estimator`` is unknown, n < 1, or ``confidence`` is outside (0,
        1). In the workers, as in `streamsketch.frequency`, or with ``n`` as in `streamsketch.top`, and if a key is not
        text, bytes or an integer.
    IncompatibleAgreementsError
        In the workers, if a release followed another agreement than ``agreement``, or an agreement while none is
        passed.
    TypeError
        In the workers, if an element is not a `PrivateSketch`, such as a raw sketch.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(sketch_dim=320, sparsity=5, seed=7).sketch() for _ in range(2))
    >>> x.update(["tea", "jam"], [300, 40])
    >>> sketches = [(key, sketch.release(epsilon=1.0, neighbours=L1(1))) for key, sketch in (("x", x), ("y", y))]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create(sketches) | Frequencies(["tea", "jam", "salt"])
    """

    def __init__(
        self,
        dictionary: Any,
        *,
        agreement: Agreement | None = None,
        estimator: PointEstimator = "auto",
        confidence: float = 0.95,
        n: int | None = None,
        results: Rows = "rows",
    ) -> None:
        super().__init__()
        if results not in get_args(Rows):
            raise InvalidInputError(f"results must be 'rows' or 'columns', got {results!r}")
        check_point_estimator(estimator)
        miss_of(confidence)  # checks it
        if n is not None:
            check_int(n, "n", 1)
        if not isinstance(dictionary, beam.PCollection):
            dictionary = item_table(dictionary, agreement)
            if not dictionary.num_rows:
                raise InvalidInputError("the dictionary has no items; list those that may occur")
        self._dictionary = dictionary
        self._query = _Query(agreement, estimator, confidence, n, results)

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        query = self._query
        if isinstance(self._dictionary, beam.PCollection):
            tiles = self._dictionary | "Cut tiles" >> beam.FlatMap(_tiles).with_output_types(_TILES)
            if query.n is not None:
                return releases | "Find the largest" >> beam.FlatMap(_largest_of, query, beam.pvalue.AsList(tiles))
            names = beam.pvalue.AsList(tiles | "Names of tiles" >> beam.Keys())
            return (
                releases
                | "For each tile" >> beam.FlatMap(_for_each, names).with_output_types(_NAMED)
                | "Spread tiles" >> beam.Reshuffle()
                | "Estimate" >> beam.FlatMap(_estimates_of, query, beam.pvalue.AsMultiMap(tiles))
            )
        if query.n is not None:
            return releases | "Find the largest" >> beam.FlatMap(_largest, query, self._dictionary)
        starts = list(range(0, self._dictionary.num_rows, _TILE))
        placed = releases | "For each tile" >> beam.FlatMap(_for_each, starts).with_output_types(_PLACED)
        if len(starts) > 1:
            placed |= "Spread tiles" >> beam.Reshuffle()
        return placed | "Estimate" >> beam.FlatMap(_estimates_at, query, self._dictionary)


def frequency_schema(keys: pa.DataType, items: pa.DataType) -> pa.Schema:
    """Return the schema of `Frequencies` with ``results="columns"``, for sinks that need it in advance.

    Parameters
    ----------
    keys
        Arrow type of the keys: ``pa.string()``, ``pa.binary()`` or ``pa.int64()``.
    items
        Arrow type of the dictionary's column; if it has several columns, a struct of their types.

    Examples
    --------
    >>> frequency_schema(pa.string(), pa.int64()).names
    ['key', 'item', 'estimate', 'error', 'low', 'high']
    """
    return pa.schema([("key", keys), ("item", items), *((name, pa.float64()) for name in _NUMBERS)])


class _Query(NamedTuple):
    """What is asked of each release."""

    agreement: Agreement | None
    estimator: PointEstimator
    confidence: float
    n: int | None
    results: Rows

    def estimates(self, keyed: tuple[Any, PrivateSketch], items: pa.Table) -> Iterator[Any]:
        """Yield the rows of a release for some items."""
        key, release = _checked(keyed)
        options: dict[str, Any] = {"estimator": self.estimator, "confidence": self.confidence}
        if self.n is None:
            table = frequency(release, items, agreement=self.agreement, **options)
        else:
            table = top(release, items, self.n, agreement=self.agreement, **options).table
        if self.results == "rows":
            yield from ({"key": key} | row for row in table.to_pylist())
            return
        (name,) = key_column([key])
        for start in range(0, table.num_rows, _TILE):
            part = table.slice(start, _TILE)
            yield part.add_column(0, "key", pa.repeat(name, part.num_rows))


def _checked(keyed: tuple[Any, PrivateSketch]) -> tuple[Any, PrivateSketch]:
    key, release = keyed
    if not isinstance(release, PrivateSketch):
        raise TypeError(f"frequencies need PrivateSketch values, got a {type(release).__name__}; release first")
    return plain_key(key, "keys"), release


def _for_each(keyed: tuple[Any, PrivateSketch], places: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield a release for each different tile."""
    for place in sorted(set(places)):
        yield place, _checked(keyed)


def _estimates_at(placed: tuple[int, Any], query: _Query, dictionary: pa.Table) -> Iterator[Any]:
    return query.estimates(placed[1], dictionary.slice(placed[0], _TILE))


def _estimates_of(named: tuple[bytes, Any], query: _Query, tiles: Mapping[bytes, Iterable[pa.Table]]) -> Iterator[Any]:
    for tile in tiles[named[0]]:  # several, if the dictionary holds the same rows again
        yield from query.estimates(named[1], tile)


def _largest(keyed: tuple[Any, Any], query: _Query, dictionary: pa.Table) -> Iterator[Any]:
    return query.estimates(keyed, dictionary)


def _largest_of(keyed: tuple[Any, Any], query: _Query, tiles: list[tuple[bytes, pa.Table]]) -> Iterator[Any]:
    ordered = sorted(tiles, key=lambda tile: tile[0])  # so that ties fall alike on every runner
    if not ordered:
        raise InvalidInputError("the dictionary has no items; list those that may occur")
    return query.estimates(keyed, pa.concat_tables([tile for _, tile in ordered]))


def _tiles(items: Any) -> Iterator[tuple[bytes, pa.Table]]:
    """Yield the tiles of a table or batch, each with a name that its bytes decide."""
    if not isinstance(items, pa.Table | pa.RecordBatch):
        raise TypeError(
            f"the dictionary's elements must be Arrow tables or record batches, got a {type(items).__name__}"
        )
    table = pa.table(items)
    for start in range(0, table.num_rows, _TILE):
        tile = table.slice(start, _TILE).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, tile.schema) as writer:
            writer.write_table(tile)
        image = sink.getvalue()
        yield hashlib.blake2b(image, digest_size=16).digest(), pa.ipc.open_stream(image).read_all()
