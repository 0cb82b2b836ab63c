"""Dead letters: rows that a stream dropped, in secret files for the operator, in a folder that does not overflow."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streamsketch.core.files import write_whole
from streamsketch.errors import InvalidInputError

FILE_BYTES = 1 << 22
"""Size of rows at which they are written, before a state or a bundle is complete."""
MOST_BYTES = 1 << 30
"""Limit on the size of a folder, unless another one is stated."""
_MOST_FILES = 10_000
_NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<stream>[0-9a-f]+)-(?P<first>\d+)\.parquet", re.ASCII)


def has_room(sizes: Iterable[int], content: bytes, most_bytes: int) -> bool:
    """Return whether a folder with files of these sizes may hold one more.

    Otherwise its rows are counted, but not kept.
    """
    used = list(sizes)
    return len(used) < _MOST_FILES and sum(used) + len(content) <= most_bytes


def letter_of(batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None) -> tuple[int, bytes]:
    """Return how many rows there are, and a file of them: Parquet, with the columns as read."""
    table, sink = pa.Table.from_batches(batches, schema), pa.BufferOutputStream()
    pq.write_table(table, sink)
    return table.num_rows, sink.getvalue().to_pybytes()


class DeadLetters:
    """Files of rows that a stream dropped: ``KIND-STREAM-NUMBER.parquet``, mode 0600, with the columns as read.

    The number is the count of dropped rows in the last state, plus rows of this kind in files since then. So after an
    interruption, files with rows that are not in the state are recognised and written again: no row is missing, and no
    row is there twice.

    Parameters
    ----------
    folder
        A folder that is not published.
    most_bytes
        Limit on the size of all files together. Beyond it, or beyond 10,000 files, rows are counted, but not kept.
    file_bytes
        Size of rows at which a file is written before the state is.

    Raises
    ------
    InvalidInputError
        If ``folder`` is not a folder.

    Examples
    --------
    >>> import pyarrow as pa
    >>> folder = getfixture("tmp_path")
    >>> letters = DeadLetters(folder)
    >>> letters.begin("0a1b2c3d", {"late": 5})  # a stream that had dropped 5 late rows
    >>> letters.add({"late": pa.RecordBatch.from_pydict({"shop": ["north"]})})
    >>> letters.flush()
    >>> [path.name for path in folder.iterdir()]
    ['late-0a1b2c3d-000000000005.parquet']
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES, *, file_bytes: int = FILE_BYTES) -> None:
        if not folder.is_dir():
            raise InvalidInputError(f"dead letters need an existing folder, got {folder}")
        self._folder, self._most, self._file_bytes = folder, most_bytes, file_bytes
        self._stream = ""
        self._next: dict[str, int] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self.lost = 0
        """How many rows had no room."""

    def begin(self, stream: str, before: dict[str, int]) -> None:
        """Continue a stream of this name, after its state has counted these numbers of dropped rows by kind."""
        self._stream, self._next = stream, dict(before)
        self._waiting = {kind: [] for kind in before}
        for path in self._folder.glob("*.parquet"):
            match = _NAME.fullmatch(path.name)
            if match and match["stream"] == stream and int(match["first"]) >= before.get(match["kind"], 0):
                path.unlink()  # its rows are read again

    def saved(self, before: dict[str, int]) -> None:
        """Go on after the state was saved, with all rows that were added and these numbers of dropped rows by kind."""
        self._next = dict(before)

    def add(self, dropped: dict[str, pa.RecordBatch]) -> None:
        """Keep rows that were dropped, by kind.

        Raises
        ------
        OSError
            If earlier rows cannot be written. None of the new rows is kept then.
        """
        dropped = {kind: rows for kind, rows in dropped.items() if rows.num_rows}
        for kind in dropped:
            if sum(batch.nbytes for batch in self._waiting[kind]) > self._file_bytes:
                self._write(kind)
        for kind, rows in dropped.items():
            self._waiting[kind].append(rows)

    def flush(self) -> None:
        """Write all rows that were added; call it before the state is written.

        Raises
        ------
        OSError
            If a file cannot be written.
        """
        for kind in self._waiting:
            self._write(kind)

    def _write(self, kind: str) -> None:
        rows = self._waiting[kind]
        if not rows:
            return
        count, content = letter_of(rows)
        if has_room((path.stat().st_size for path in self._folder.glob("*.parquet")), content, self._most):
            name = f"{kind}-{self._stream}-{self._next[kind]:012d}.parquet"
            write_whole(self._folder / name, content, secret=True)
        else:
            self.lost += count
        self._next[kind] += count
        self._waiting[kind] = []
