"""Counts of the rows that a stream read and dropped, in files for the operator: secret."""

import json
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import NamedTuple

from streamsketch.core.files import write_whole

_SECONDS = 1.0  # between two writes of a worker
_SUFFIX = ".json"


class RowCounts(NamedTuple):
    """How many rows were read, and how many of them were dropped. Private data, without noise.

    Parameters
    ----------
    read
        Rows that were read. A message that is set aside counts as one.
    late
        Rows whose window was over.
    ahead
        Rows that were too far ahead of the log's clock.
    malformed
        Rows that could not be read, or messages with such rows.
    lost
        Dropped rows that are not among the dead letters, because their folder is full.

    Examples
    --------
    >>> counts = RowCounts(read=1000, late=30)
    >>> counts.dropped
    30
    >>> counts.complaints(0.01, "in 300 s")
    ['3 % of the rows in 300 s were dropped, more than max_dropped, 1 %: 30 late, 0 too far ahead, 0 malformed']
    """

    read: int = 0
    late: int = 0
    ahead: int = 0
    malformed: int = 0
    lost: int = 0

    @property
    def dropped(self) -> int:
        """Rows that were late, too far ahead or malformed."""
        return self.late + self.ahead + self.malformed

    def plus(self, other: "RowCounts") -> "RowCounts":
        """Return the sums."""
        return RowCounts(*(one + two for one, two in zip(self, other, strict=True)))

    def since(self, before: "RowCounts") -> "RowCounts":
        """Return the differences, at least 0, that is, what was counted after ``before``."""
        return RowCounts(*(max(0, one - two) for one, two in zip(self, before, strict=True)))

    def complaints(self, most: float, words: str) -> list[str]:
        """Return what is wrong with these rows, in sentences.

        Parameters
        ----------
        most
            The largest share of rows that may be dropped.
        words
            When the rows were read, such as ``"in 300 s"``.
        """
        found = []
        if self.dropped > most * self.read:
            share = 100 * self.dropped / max(self.read, self.dropped)
            found.append(
                f"{share:.3g} % of the rows {words} were dropped, more than max_dropped, {100 * most:.3g} %: "
                f"{self.late:,} late, {self.ahead:,} too far ahead, {self.malformed:,} malformed"
            )
        if self.ahead:
            found.append(f"{self.ahead:,} rows {words} were too far ahead (max_ahead); check the producers' clocks")
        if self.lost:
            found.append(f"the folder of dead letters is full, and {self.lost:,} dropped rows {words} are not in it")
        return found


MAX_DROPPED = 0.01
"""The share of rows that may be dropped, unless a job states another."""


class Tally:
    """The counts of this process in a file of its own, replaced at most once a second.

    The file has mode 0600. It counts all work of this process, including work that was repeated after a failure.

    Parameters
    ----------
    folder
        A local or mounted folder, shared by all processes of a stream. It is made if it does not exist.
    seconds
        Between two writes.
    """

    _known: "dict[tuple[str, int], Tally]" = {}  # noqa: RUF012 - one for all steps of a process
    _lock = threading.Lock()

    def __init__(self, folder: str, seconds: float = _SECONDS) -> None:
        self._seconds, self._path = (
            seconds,
            Path(folder) / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}",
        )
        self._counts, self._written, self._at = RowCounts(), RowCounts(), -seconds
        self._timer: threading.Timer | None = None

    @classmethod
    def of(cls, folder: str) -> "Tally":
        """Return the process's tally in a folder."""
        with cls._lock:
            return cls._known.setdefault((folder, os.getpid()), cls(folder))

    def add(self, counts: RowCounts) -> None:
        """Count rows."""
        with self._lock:
            self._counts = self._counts.plus(counts)

    def flush(self, *, now: bool = False) -> None:
        """Write the file if a count has changed, one second after the last time or ``now``."""
        with self._lock:
            wait = self._at + self._seconds - time.monotonic()
            if self._counts == self._written:
                return
            if wait > 0 and not now:
                if self._timer is None:
                    self._timer = threading.Timer(wait, self.flush, kwargs={"now": True})
                    self._timer.daemon = True
                    self._timer.start()
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(self._counts._asdict()).encode() + b"\n", secret=True)
            self._written, self._at = self._counts, time.monotonic()


def counts_in(folder: Path) -> dict[str, RowCounts]:
    """Return the counts of each process, by the name of its file; a folder that is not there has none.

    Raises
    ------
    OSError
        If the folder cannot be read.
    ValueError
        For a file of another kind.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> tally = Tally(str(folder))
    >>> tally.add(RowCounts(read=10, late=1))
    >>> tally.flush(now=True)
    >>> [counts.read for counts in counts_in(folder).values()]
    [10]
    """
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.suffix == _SUFFIX and not path.name.startswith("."):
            fields = json.loads(path.read_bytes())
            counts = RowCounts(*(fields.get(name) for name in RowCounts._fields))
            if not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError(f"{path} does not hold counts of rows, as workers write them")
            found[path.name] = counts
    return found
