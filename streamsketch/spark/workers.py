"""Steps of Spark's Python workers: rows become partial sketches, or parts of shards, and these become sums.

All values here are **secret** and exact. They are functions of the input and of the secret that the driver drew. So a
task may be run again, or twice at the same time. So are the counts of dropped rows, which travel to the driver as rows
of their own: Spark's accumulators would count the rows of a repeated task twice.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsketch.core.documents import TableKey
from streamsketch.data.canonical import canonical_bytes
from streamsketch.intake.rows import Intake
from streamsketch.once.counts import RowCounts
from streamsketch.projections.base import Projection
from streamsketch.sketching.bounding.shards import by_shard, decoded
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import UnitBounds
from streamsketch.sketching.keyed import codes_of, table_keys
from streamsketch.sketching.partials import PartialSketches, decode_partial, encode_partial
from streamsketch.sketching.sketch import Sketch
from streamsketch.spark.windows import apart

if TYPE_CHECKING:
    from streamsketch.sketching.bounding.contributions import Contributions

Batches: TypeAlias = Iterator[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Batches]
_Row: TypeAlias = tuple[bytes | None, bytes, int]
"""A key, its encoded sketch and the largest value in it; or no key, and counts of rows."""

SHARDS = "shard int, part binary"
SKETCHES = "key binary, sketch binary, largest bigint"

_TABLE_BYTES = 1 << 26  # size of a task's sketches up to which they are a table
_FLUSH_BYTES = 1 << 27  # size of a task's partial sketches at which they are emitted
_CHUNK_ROWS = 1 << 20  # number of a task's rows, 40 bytes each, at which they are sent to their shards
_BATCH_ROWS = 1 << 17  # rows that enter at once: Spark's batches have 10,000, and each batch has a fixed cost
_SENT_BYTES = 1 << 24  # size of sketches that are sent to Spark at a time
_COUNTED = -1  # in place of a shard: the part holds counts of rows
_SHARDS = pa.schema([("shard", pa.int32()), ("part", pa.binary())])
_SKETCHES = pa.schema([("key", pa.binary()), ("sketch", pa.binary()), ("largest", pa.int64())])


def sketching(intake: Intake, public: frozenset[TableKey] | None) -> Work:
    """Return a step from rows to partial sketches by key, of ``public`` keys if there are any, and counts of rows."""

    def work(batches: Batches) -> Batches:
        sketches, first, counts = _partials(intake.agreement.projection), 1, RowCounts()
        for batch in _gathered(batches):
            rows = intake.read(batch, first)
            first += batch.num_rows
            other = 0
            if public is not None:
                keys, codes = codes_of(table_keys(rows.keys))
                other = int((~_among(public, keys)[codes]).sum())
            counts = counts.plus(_counts(rows.rows, rows.blank, rows.malformed, other))
            events = rows.one_by_one()
            keys, codes = codes_of(table_keys(events.keys))
            indices, steps = events.indices, events.steps
            if public is not None:
                kept = _among(public, keys)[codes]
                codes, indices, steps = codes[kept], indices[kept], steps[kept]
            sketches.add(keys, codes, indices, steps)
            if sketches.nbytes > _FLUSH_BYTES:
                yield from _sent(sketches.take())
        yield from _sent(sketches.take())
        yield from _batches([(None, _encoded(counts), 0)])

    return work


def sharding(intake: Intake, bounds: UnitBounds, secret: bytes, shards: int, *, by_windows: bool) -> Work:
    """Return a step from rows to parts of shards, with all rows of a unit in one shard, and counts of rows.

    With ``by_windows`` a unit in each window is clipped by itself.
    """

    def work(batches: Batches) -> Batches:
        parts: list[Contributions] = []
        events = (intake.read(batch) for batch in _gathered(batches))
        summary = BoundingSummary()
        for part in bounds.read(events, secret, summary):
            parts.append((apart(part) if by_windows else part).one_by_one())
            if sum(map(len, parts)) > _CHUNK_ROWS:
                yield from _sharded(by_shard(parts, shards))
                parts = []
        yield from _sharded(by_shard(parts, shards))
        counts = _counts(summary.rows_read, summary.rows_blank, summary.rows_malformed, summary.rows_of_other_keys)
        yield from _sharded([(_COUNTED, _encoded(counts))])

    return work


def clipping(projection: Projection, bounds: UnitBounds, secret: bytes) -> Work:
    """Return a step from all parts of shards, in their order, to partial sketches of the clipped contributions."""

    def work(batches: Batches) -> Batches:
        sketches, counts = _partials(projection), RowCounts()
        for shard, parts in _runs(batches):
            if shard == _COUNTED:
                counts = counts_of(parts)
                continue
            for left in bounds.clipped_parts(decoded(parts), secret, totals=False):
                keys = [key for key, _ in left.slots]
                if bounds.enforced.counted:
                    sketches.count(keys, left.counts)
                sketches.add(keys, left.codes, left.indices, left.steps, in_cells=left.in_cells)
                if sketches.nbytes > _FLUSH_BYTES:
                    yield from _sent(sketches.take())
        yield from _sent(sketches.take())
        yield from _batches([(None, _encoded(counts), 0)])

    return work


def counts_of(encoded: Iterable[bytes]) -> RowCounts:
    """Return the sum of counts that workers sent: to the driver, in rows of sketches without a key."""
    total = RowCounts()
    for text in encoded:
        total = total.plus(RowCounts(**json.loads(text)))
    return total


def merging(batches: Batches) -> Batches:
    """Yield the sum of each key's partial sketches, which come in the order of keys, and that of the counts."""
    yield from _batches(_merged(batches))


def _merged(batches: Batches) -> Iterator[_Row]:
    key, total, most = b"", None, 0
    counts: list[bytes] = []
    for batch in batches:
        for name, encoded, largest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if name is None:
                counts.append(encoded)
                continue
            sketch = decode_partial(encoded)
            if total is not None and name == key:
                total.merge(sketch)
                most = max(most, largest)
                continue
            if total is not None:
                yield key, encode_partial(total), most
            key, total, most = name, sketch, largest
    if total is not None:
        yield key, encode_partial(total), most
    yield None, _encoded(counts_of(counts)), 0


def _gathered(batches: Batches) -> Batches:
    """Yield the same rows in larger batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _BATCH_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _partials(projection: Projection) -> PartialSketches:
    return PartialSketches(projection, max(1, _TABLE_BYTES // (8 * projection.sketch_dim)))


def _among(public: frozenset[TableKey], keys: list[TableKey]) -> NDArray[np.bool_]:
    return np.array([key in public for key in keys], dtype=bool)


def _counts(read: int, blank: int, malformed: int, other_keys: int) -> RowCounts:
    return RowCounts(read=read, blank=blank, malformed=malformed, other_keys=other_keys)


def _encoded(counts: RowCounts) -> bytes:
    return json.dumps(counts._asdict()).encode()


def _sharded(parts: Iterable[tuple[int, bytes]]) -> Batches:
    for shard, part in parts:
        yield pa.RecordBatch.from_arrays([pa.array([shard], pa.int32()), pa.array([part], pa.binary())], schema=_SHARDS)


def _runs(batches: Batches) -> Iterator[tuple[int, list[bytes]]]:
    """Yield each shard and its parts; rows come in the order of shards."""
    shard = _COUNTED
    parts: list[bytes] = []
    for batch in batches:
        for number, part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if number != shard and parts:
                yield shard, parts
                parts = []
            shard = number
            parts.append(part)
    if parts:
        yield shard, parts


def _sent(keyed: Iterable[tuple[Any, Sketch]]) -> Batches:
    yield from _batches((canonical_bytes(key), encode_partial(sketch), sketch.largest) for key, sketch in keyed)


def _batches(rows: Iterable[_Row]) -> Batches:
    """Yield rows of sketches and counts as batches of some 16 MiB."""
    waiting: list[_Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[1])
        if size > _SENT_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SKETCHES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SKETCHES)
