"""Counts of the rows that a stream read and dropped, in files for the operator: secret."""

import json
import os
import secrets
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from streamsketch.core.files import write_whole

_SECONDS = 1.0  # between two writes of a worker
_SUFFIX = ".json"


class RowLimits(NamedTuple):
    """Which shares of a stream's rows may be lost before its operator gets an alarm, each from 0 to 1.

    Parameters
    ----------
    dropped
        Of the rows: late, too far ahead or malformed.
    undecodable
        Of the messages: those that cannot be decoded at all.
    blank
        Of the rows: without a value that the agreement needs.
    early
        Of the rows: before the first window.
    other_keys
        Of the rows: of keys that are not listed.
    volume
        The least share of the usual number of rows.
    """

    dropped: float = 0.01
    undecodable: float = 0.01
    blank: float = 0.1
    early: float = 0.1
    other_keys: float = 0.4
    volume: float = 0.1


class RowCounts(NamedTuple):
    """How many rows were read, and how many of them were dropped, each in its own unit. Private data, without noise.

    Parameters
    ----------
    read
        Rows that were read, without those of messages that could not be decoded.
    late
        Rows whose window was over.
    ahead
        Rows that were too far ahead of the log's clock.
    malformed
        Rows that could not be read.
    blank
        Rows without a value that the agreement needs.
    early
        Rows before the first window.
    other_keys
        Rows of keys that are not listed.
    messages
        Messages with content that were read.
    undecodable
        Messages that could not be decoded, so that the number of their rows is not known.
    lost
        Dropped rows that are not among the dead letters, because their folder is full.

    Examples
    --------
    >>> counts = RowCounts(read=1000, late=30, messages=10, undecodable=5)
    >>> counts.dropped
    30
    >>> for code, sentence in counts.complaints(RowLimits(), "in 300 s").items():
    ...     print(f"{code}: {sentence}")
    rows_dropped: 3 % of the rows in 300 s were dropped, ...
    messages_undecodable: 50 % of the messages in 300 s could not be decoded, more than max_undecodable, 1 %
    """

    read: int = 0
    late: int = 0
    ahead: int = 0
    malformed: int = 0
    blank: int = 0
    early: int = 0
    other_keys: int = 0
    messages: int = 0
    undecodable: int = 0
    lost: int = 0

    @property
    def dropped(self) -> int:
        """Rows that were late, too far ahead or malformed."""
        return self.late + self.ahead + self.malformed

    def plus(self, other: "RowCounts") -> "RowCounts":
        """Return the sums."""
        return RowCounts(*map(sum, zip(self, other, strict=True)))

    def since(self, before: "RowCounts") -> "RowCounts":
        """Return the differences, at least 0, that is, what was counted after ``before``."""
        return RowCounts(*(max(0, count - earlier) for count, earlier in zip(self, before, strict=True)))

    def complaints(self, limits: RowLimits, words: str) -> dict[str, str]:
        """Return what is wrong with these rows, in sentences, by codes that do not change (`ROW_CODES`).

        Parameters
        ----------
        limits
            The largest shares that may be lost.
        words
            When the rows were read, such as ``"in 300 s"``.
        """
        complaints = {}
        if self.dropped > limits.dropped * self.read:
            complaints["rows_dropped"] = (
                f"{_percent(self.dropped, self.read)} of the rows {words} were dropped, more than max_dropped, "
                f"{100 * limits.dropped:.3g} %: {self.late:,} late, {self.ahead:,} too far ahead, {self.malformed:,} "
                "malformed"
            )
        if self.ahead:
            complaints["rows_ahead"] = (
                f"{self.ahead:,} rows {words} were too far ahead (max_ahead); check the producers' clocks"
            )
        for code, count, of, most, named, what in (
            ("rows_blank", self.blank, self.read, limits.blank, "max_blank", "rows {} lack a value that is needed"),
            ("rows_early", self.early, self.read, limits.early, "max_early", "rows {} are before the first window"),
            (
                "rows_of_other_keys",
                self.other_keys,
                self.read,
                limits.other_keys,
                "max_other_keys",
                "rows {} are of keys that are not listed",
            ),
            (
                "messages_undecodable",
                self.undecodable,
                self.messages,
                limits.undecodable,
                "max_undecodable",
                "messages {} could not be decoded",
            ),
        ):
            if count > most * of:
                complaints[code] = (
                    f"{_percent(count, of)} of the {what.format(words)}, more than {named}, {100 * most:.3g} %"
                )
        if self.lost:
            complaints["letters_full"] = (
                f"the folder of dead letters is full, and {self.lost:,} dropped rows {words} are not in it"
            )
        return complaints


def _percent(count: int, of: int) -> str:
    return f"{100 * count / max(of, count):.3g} %"


ROW_CODES = {
    "rows_dropped": "Rows are late, too far ahead or malformed",
    "rows_ahead": "Rows are too far ahead",
    "rows_blank": "Rows lack a value that is needed",
    "rows_early": "Rows are before the first window",
    "rows_of_other_keys": "Rows are of keys that are not listed",
    "messages_undecodable": "Messages cannot be decoded",
    "letters_full": "The folder of dead letters is full",
    "volume_low": "Far fewer rows come than usual",
}
"""The codes of what may be wrong with a stream's rows: in its log, at ``/health``, and in the runbook."""

_USUAL = 24  # periods that say what is usual
_LEAST = 3  # of them
_ROWS = 100  # of fewer rows, nothing is said to be unusual
_RISE = 0.05  # of a share, over the usual one


class RowAlarms:
    """Judge counts of rows by limits and by what was usual in the periods before: the same law on every engine.

    A period is a window, some windows or some seconds. Its rows of other keys, or rows that lack a value, are unusually
    many if their share is 5 points over the median of the last 24 periods, and rows are unusually few below the job's
    ``min_volume`` of their lower quartile. The first three periods are compared with the limits alone.

    Parameters
    ----------
    limits
        The limits.

    Examples
    --------
    >>> alarms = RowAlarms(RowLimits())
    >>> for _ in range(3):
    ...     assert not alarms.look(RowCounts(read=1000), "of a window")
    >>> alarms.look(RowCounts(read=90), "of a window")["volume_low"]
    'only 90 rows of a window were read, less than min_volume, 10 %, of the usual 1,000'
    """

    def __init__(self, limits: RowLimits) -> None:
        self._limits = limits
        self._before: deque[tuple[RowCounts, float]] = deque(maxlen=_USUAL)

    def look(self, counts: RowCounts, words: str, amount: float = 1.0) -> dict[str, str]:
        """Return what is wrong with a period's rows, by code; ``amount`` is its length, 0 if it has not ended."""
        complaints = counts.complaints(self._limits, words)
        if amount <= 0:
            return complaints
        if len(self._before) >= _LEAST:
            complaints |= self._unusual(counts, words, amount) | complaints
        self._before.append((counts, amount))
        return complaints

    def _unusual(self, counts: RowCounts, words: str, amount: float) -> dict[str, str]:
        complaints = {}
        rates = sorted(before.read / length for before, length in self._before)
        usual = rates[len(rates) // 4] * amount
        if usual >= _ROWS and counts.read < self._limits.volume * usual:
            complaints["volume_low"] = (
                f"only {counts.read:,} rows {words} were read, less than min_volume, "
                f"{100 * self._limits.volume:.3g} %, of the usual {usual:,.0f}"
            )
        named = {"blank": ("rows_blank", "lack a value that is needed")}
        named |= {"other_keys": ("rows_of_other_keys", "are of keys that are not listed")}
        for field, (code, what) in named.items():
            shares = sorted(getattr(before, field) / before.read for before, _ in self._before if before.read)
            median = shares[len(shares) // 2] if shares else 1.0
            count = getattr(counts, field)
            if counts.read >= _ROWS and count > (median + _RISE) * counts.read:
                complaints[code] = (
                    f"{_percent(count, counts.read)} of the rows {words} {what}, and usually {100 * median:.3g} %"
                )
        return complaints


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

    _tallies: "dict[tuple[str, int], Tally]" = {}  # noqa: RUF012 - one for all steps of a process
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
            return cls._tallies.setdefault((folder, os.getpid()), cls(folder))

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
    by_file = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.suffix == _SUFFIX and not path.name.startswith("."):
            fields = json.loads(path.read_bytes())
            counts = RowCounts(*(fields.get(name) for name in RowCounts._fields))
            if not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError(f"{path} does not hold counts of rows, as workers write them")
            by_file[path.name] = counts
    return by_file
