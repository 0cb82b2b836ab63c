"""A data frame that has of Spark's what sketches use, and runs it in this process: each task twice, in pieces."""

import dataclasses
import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

FIELDS = {"int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}


@dataclasses.dataclass(frozen=True)
class LocalFrame:
    """Lazy partitions of rows; ``pieces`` rows a batch."""

    partitions: Callable[[], list[pa.Table]]
    columns: list[str]
    pieces: int = 40
    isStreaming: bool = False  # noqa: N815 - as Spark calls it

    @classmethod
    def of(cls, rows: pa.Table, partitions: int) -> Self:
        return cls(lambda: _dealt(rows, partitions), rows.column_names)

    def _of(self, partitions: Callable[[], list[pa.Table]], columns: list[str] | None = None) -> Self:
        return dataclasses.replace(self, partitions=partitions, columns=columns or self.columns)

    def select(self, *names: str) -> Self:
        wanted = [name.removeprefix("`").removesuffix("`").replace("``", "`") for name in names]
        return self._of(lambda: [part.select(wanted) for part in self.partitions()], wanted)

    def mapInArrow(self, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Self:  # noqa: N802
        fields = [field.split(" ") for field in schema.split(", ")]
        returned = pa.schema([(name, FIELDS[kind]) for name, kind in fields])

        def run(part: pa.Table) -> pa.Table:
            # the first attempt dies half-way, and a copy on another machine does the work
            first = work(iter(part[: len(part) // 2].to_batches(max_chunksize=self.pieces)))
            next(first, None)
            again = work(iter(part.to_batches(max_chunksize=self.pieces)))
            return pa.Table.from_batches(again, returned)

        return self._of(lambda: [run(part) for part in self.partitions()], returned.names)

    def repartition(self, name: str) -> Self:
        def shuffled() -> list[pa.Table]:
            rows = pa.concat_tables(self.partitions())
            place = pa.array([zlib.crc32(pickle.dumps(value)) % 3 for value in rows[name].to_pylist()], pa.int64())
            return [rows.filter(pc.equal(place, number)) for number in range(3)]

        return self._of(shuffled)

    def sortWithinPartitions(self, name: str) -> Self:  # noqa: N802
        return self._of(lambda: [part.sort_by(name) for part in self.partitions()])

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.concat_tables(self.partitions())


def _dealt(rows: pa.Table, partitions: int) -> list[pa.Table]:
    return [rows.take(pa.array(range(place, len(rows), partitions), pa.int64())) for place in range(partitions)]
