"""Dead letters of a stream on one machine: rows that it dropped, in secret files for the operator."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streamsketch.core import write_whole
from streamsketch.errors import InvalidInputError

_FILE_BYTES = 1 << 22  # size of rows at which they are written, before the state is
_MOST_FILES = 10_000
_NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<stream>[0-9a-f]+)-(?P<first>\d+)\.parquet", re.ASCII)


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

    def __init__(self, folder: Path, most_bytes: int = 1 << 30) -> None:
        if not folder.is_dir():
            raise InvalidInputError(f"dead letters need an existing folder, got {folder}")
        self._folder, self._most = folder, most_bytes
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
            found = _NAME.fullmatch(path.name)
            if found and found["stream"] == stream and int(found["first"]) >= before.get(found["kind"], 0):
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
            if sum(batch.nbytes for batch in self._waiting[kind]) > _FILE_BYTES:
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
        table, sink = pa.Table.from_batches(rows), pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue().to_pybytes()
        sizes = [path.stat().st_size for path in self._folder.glob("*.parquet")]
        if len(sizes) < _MOST_FILES and sum(sizes) + len(content) <= self._most:
            name = f"{kind}-{self._stream}-{self._next[kind]:012d}.parquet"
            write_whole(self._folder / name, content, secret=True)
        else:
            self.lost += table.num_rows
        self._next[kind] += table.num_rows
        self._waiting[kind] = []
