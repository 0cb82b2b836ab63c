"""From a Spark data frame to one exact sketch per key."""

import dataclasses
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import check_int, short
from streamsketch.data import data_ids
from streamsketch.data.canonical import key_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import intake_of
from streamsketch.intake.rows import Intake
from streamsketch.once.counts import RowCounts
from streamsketch.privacy.bounds import NO_DATA, Bounds
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.projections.base import Projection
from streamsketch.sketching.bounding.units import SECRET_BYTES, UnitBounds
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.in_windows import windows_in, windows_of
from streamsketch.sketching.keyed import public_names
from streamsketch.sketching.partials import decode_partial
from streamsketch.sketching.table import SketchTable
from streamsketch.spark.windows import IntakeOfWindows, in_order, named
from streamsketch.spark.workers import SHARDS, SKETCHES, clipping, counts_of, merging, sharding, sketching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_OURS = re.compile(r"streamsketch\.errors\.\w+: (.*)")


def sketch_per_key(
    df: "DataFrame",
    agreement: Agreement,
    *,
    neighbours: Neighbours | None = None,
    max_keys: int | None = None,
    clip: Clip | None = None,
    public_keys: Iterable[TableKey] | None = None,
    shards: int = 64,
) -> "KeyedSketches":
    """Return the exact, secret sketch of each key of a data frame, lazily: no job runs before they are released.

    Tasks sketch their rows in Arrow batches, and the partial sketches of a key are merged exactly. So the result does
    not depend on partitions, on retried tasks, or on tasks that run twice (``spark.speculation``). It has the same bits
    as `streamsketch.sketch` of the same rows.

    If the agreement has a unit column, rows are first grouped by a keyed digest of their unit, and each unit is clipped
    to its bounds, with the same bits as `streamsketch.bound` under the same secret. The driver draws the secret and
    sends it to the tasks. Malformed rows are then dropped. Without a unit column, a malformed row ends the job with an
    error.

    Parameters
    ----------
    df
        A Spark data frame that is not streaming; for streams, use `ReleaseBatches`. If its rows may differ when they
        are recomputed, as in a sample without a seed, write them to a table first.
    agreement
        The agreement: the columns, and the types to which they are cast. It needs a key column.
    neighbours
        What one unit may contribute: `L1`, `L2` or `SketchL2`; by default the agreement's neighbours.
    max_keys, clip
        As in `streamsketch.bounding.bound_units`; ``clip`` is by default as agreed, else ``"scale"``.
    public_keys
        The public keys. Rows of other keys are dropped before a unit's keys are chosen.
    shards
        Number of groups over which units are spread, 1 to 65536. The events of one group must fit into a worker's
        memory, at 48 bytes each.

    Returns
    -------
    KeyedSketches
        The sketches, for `release`.

    Raises
    ------
    InvalidInputError
        If the agreement has no key column, the data frame lacks a column or is streaming, there are units without
        bounds or bounds without units, or a bound is out of range.

    Examples
    --------
    >>> import pytest
    >>> sql = pytest.importorskip("pyspark.sql", reason="Spark has an environment of its own (make test-spark)")
    >>> from streamsketch import L1, SJLT, Agreement
    >>> columns = {"key": "shop", "index": "item", "value": "sold", "unit": "buyer"}
    >>> five = L1(5, unit="buyer", max_keys=2)
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, neighbours=five)
    >>> spark = sql.SparkSession.builder.master("local[2]").getOrCreate()
    >>> rows = [("Ann", "north", "tea", 3), ("Ann", "north", "tea", 900), ("Bob", "south", "jam", 1)]
    >>> sales = spark.createDataFrame(rows, ["buyer", "shop", "item", "sold"])
    >>> table = sketch_per_key(sales, agreement).table()
    >>> {key: table[key].mass for key in table}
    {'north': 5, 'south': 1}
    """
    work = Work(agreement, neighbours=neighbours, max_keys=max_keys, clip=clip, public_keys=public_keys, shards=shards)
    return work.sketches(df, os.urandom(SECRET_BYTES))


class Work:
    """How the rows of data frames become sketches by key; parameters and errors as `sketch_per_key`.

    With ``by_windows`` they become those of each window that the agreement releases, for `KeyedSketches.windows`.
    """

    def __init__(
        self,
        agreement: Agreement,
        *,
        neighbours: Neighbours | None = None,
        max_keys: int | None = None,
        clip: Clip | None = None,
        public_keys: Iterable[TableKey] | None = None,
        shards: int = 64,
        by_windows: bool = False,
    ) -> None:
        Intake(agreement)  # which checks the type
        if agreement.key is None:
            raise InvalidInputError(
                "sketch_per_key makes a sketch for each key, but the agreement has no key column; make one with key=…"
            )
        self.agreement, self._shards = agreement, check_int(shards, "shards", 1, 1 << 16)
        self._numbers = windows_of(agreement) if by_windows else None
        self.public_keys = None if public_keys is None else public_names(agreement.keys_of(public_keys))
        if by_windows and self.public_keys is not None:
            self.public_keys = named(windows_of(agreement), self.public_keys)
        read = IntakeOfWindows if by_windows else intake_of
        self._intake = read(agreement)
        relation = agreement.neighbours if neighbours is None else neighbours
        self._bounds: UnitBounds | None = None
        if agreement.unit is None:
            if (neighbours, max_keys, clip) != (None, None, None):
                raise InvalidInputError(
                    "the agreement has no unit column, so rows cannot be clipped; leave out neighbours, max_keys and "
                    "clip, or make an agreement with a unit column (unit='customer')"
                )
            return
        if relation is None:
            raise InvalidInputError(
                "the agreement has a unit column but no bound on what one unit contributes; pass neighbours"
            )
        self._intake = read(agreement, on_bad="drop", bounded=True)
        clip = dataclasses.replace(agreement, neighbours=relation).clip_of(clip)
        options: dict[str, Any] = {"max_keys": max_keys, "clip": clip, "public_keys": self.public_keys}
        options["rows"] = agreement.rows_rule
        self._bounds = UnitBounds(agreement.projection, relation, **options)

    @property
    def bounds(self) -> Bounds:
        """The bounds of the sketches of any data frame."""
        return NO_DATA.updated() if self._bounds is None else self._bounds.enforced

    def sketches(self, df: "DataFrame", secret: bytes, bounds: Bounds | None = None) -> "KeyedSketches":
        """Return the sketches of a data frame; ``secret`` decides what is clipped beyond the bounds of a unit."""
        if df.isStreaming:
            raise InvalidInputError(
                "the data frame is an unbounded stream; release its batches with writeStream.foreachBatch(…) and "
                "ReleaseBatches"
            )
        names = self._intake.names
        if wrong := [name for name in names if df.columns.count(name) != 1]:
            raise InvalidInputError(
                f"rows must have the column {wrong[0]} exactly once; the data frame has {short(df.columns)}"
            )
        rows = df.select(*("`" + name.replace("`", "``") + "`" for name in names))
        if self._bounds is None:
            public = None if self.public_keys is None else frozenset(self.public_keys)
            parts = rows.mapInArrow(sketching(self._intake, public), SKETCHES)
        else:
            by_windows = self._numbers is not None
            shard = sharding(self._intake, self._bounds, secret, self._shards, by_windows=by_windows)
            shards = rows.mapInArrow(shard, SHARDS)
            grouped = shards.repartition("shard").sortWithinPartitions("shard")
            parts = grouped.mapInArrow(clipping(self.agreement.projection, self._bounds, secret), SKETCHES)
        merged = parts.repartition("key").sortWithinPartitions("key").mapInArrow(merging, SKETCHES)
        return KeyedSketches(merged, self.agreement, bounds or self.bounds, self.public_keys, self._numbers)


class KeyedSketches:
    """The exact sketches of the keys of a data frame, from `sketch_per_key`: **secret**.

    Parameters
    ----------
    frame
        A lazy data frame of the bytes of each key and its sketch, for `release` only. Its layout may change.
    agreement
        The agreement of the rows.
    bounds
        What was enforced on units, as in `SketchTable.bounds`.
    public_keys
        The keys whose rows were kept, None for all.
    numbers
        The windows, if each has sketches of its own; the frame's keys then are those of `spark.windows`.
    """

    def __init__(
        self,
        frame: "DataFrame",
        agreement: Agreement,
        bounds: Bounds,
        public_keys: list[TableKey] | None,
        numbers: range | None = None,
    ) -> None:
        self._frame, self._agreement, self._bounds = frame, agreement, bounds
        self._public_keys, self._numbers = public_keys, numbers
        self._tables: tuple[dict[int | None, SketchTable], RowCounts] | None = None

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._agreement.projection

    @property
    def agreement(self) -> Agreement:
        """The agreement that all rows followed."""
        return self._agreement

    @property
    def bounds(self) -> Bounds:
        """What was enforced on units."""
        return self._bounds

    @property
    def public_keys(self) -> list[TableKey] | None:
        """The keys whose rows were kept, None for all."""
        return None if self._public_keys is None else list(self._public_keys)

    def table(self) -> SketchTable:
        """Run one Spark job and return the exact sketches on the driver, with 8·k bytes per key: **secret**.

        The job runs once, and later calls return copies of the same table.

        Raises
        ------
        InvalidInputError
            If rows are malformed, or cannot be cast to the agreed types.
        """
        return self._result[0][None].copy()

    def windows(self) -> dict[str, SketchTable]:
        """Run one Spark job and return the exact table of each window, by its name: **secret**; errors as `table`."""
        of_times = windows_in(self._agreement).of_times
        return {of_times.name(number): table for number, table in self._result[0].items() if number is not None}

    @property
    def row_counts(self) -> RowCounts:
        """How many rows were read and dropped, each kind in its unit: **secret**. It runs the job as `table` does.

        Each row counts once, whatever tasks ran again. No row is late here. A row that lacks a value or is malformed is
        dropped if units are bounded; otherwise it ends the job, unless the agreement drops rows that lack a value.
        """
        return self._result[1]

    @property
    def _result(self) -> tuple[dict[int | None, SketchTable], RowCounts]:
        if self._tables is None:
            self._tables = self._collected()
        return self._tables

    def _collected(self) -> tuple[dict[int | None, SketchTable], RowCounts]:
        try:
            rows = self._frame.toArrow()
        except Exception as error:
            if match := _OURS.search(str(error)):  # of a worker, whose traceback is in the error that caused this one
                raise InvalidInputError(match[1]) from error
            raise
        is_counts = pc.is_null(rows["key"])
        counts, rows = counts_of(rows.filter(is_counts)["sketch"].to_pylist()), rows.filter(pc.invert(is_counts))
        keys = rows["key"].to_pylist()
        if self._numbers is None:
            return {None: self._table(rows, [key_of(key) for key in keys])}, counts
        tables: dict[int | None, SketchTable] = {}
        for number, placed in in_order([key_of(key) for key in keys], self._numbers):
            places = pa.array([place for place, _ in placed], pa.int64())
            tables[number] = self._table(rows.take(places), [key for _, key in placed])
        return tables, counts

    def _table(self, rows: "pa.Table", keys: list[TableKey]) -> SketchTable:
        """Return the table of some of the sketches, by their keys."""
        sums, masses = ExactSums(len(rows), self.projection.sketch_dim), np.empty(len(rows), dtype=np.int64)
        for place, encoded in enumerate(rows["sketch"]):
            sketch = decode_partial(encoded.as_py())
            sums.add(sketch.sums(), np.array([place]))
            masses[place] = sketch.mass
        return SketchTable.from_state(
            self.projection,
            keys,
            sums,
            masses,
            largest=max(rows["largest"].to_pylist(), default=0),
            ids=data_ids.new(),
            agreement=self._agreement,
            bounds=self._bounds,
        )

    def __repr__(self) -> str:
        return f"<KeyedSketches, secret, of a data frame, {self.projection!r}>"
