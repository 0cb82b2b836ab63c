"""Monitor a stream by its sink's content, which is public, and by other causes; its data are not read."""

import contextlib
import datetime as dt
import math
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import Json
from streamsketch.data.windows import window_time
from streamsketch.errors import InvalidInputError
from streamsketch.jobs.causes import Cause
from streamsketch.once.databases import connection
from streamsketch.once.slots import Slot, named_key
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")


class Sink(ABC):
    """The place of a stream's releases."""

    @abstractmethod
    def keys(self, since: int) -> dict[int, set[tuple[str, str]]]:
        """Return the keys of each window that starts at ``since`` (in microseconds) or later, by the window's start.

        A key is a kind and a text, or ``"file"`` and a file name.
        """


class Folder(Sink):
    """A local or mounted folder of `WriteFilesOnce`; keys are file names."""

    def __init__(self, folder: Path, stream: str) -> None:
        self._folder = folder / stream

    def keys(self, since: int) -> dict[int, set[tuple[str, str]]]:
        """Return the keys of each window; a folder that does not exist yet has none."""
        keys = {}
        for window in self._folder.iterdir() if self._folder.exists() else ():
            start = window_time(window.name)
            if start is not None and start >= since:
                keys[start] = {("file", path.name) for path in window.iterdir()}
        return keys


class Database(Sink):
    """A table of `WriteRowsOnce`."""

    def __init__(self, database: str, stream: str) -> None:
        self._connect, self._stream = connection(database, read_only=True), stream
        self._mark = "?" if database.startswith("sqlite:") else "%s"

    def keys(self, since: int) -> dict[int, set[tuple[str, str]]]:
        """Return the keys of each window, from the table's rows."""
        asked = (
            f"SELECT window_start, kind, key FROM releases WHERE stream = {self._mark} AND window_start >= {self._mark}"  # noqa: S608 - marks
        )
        keys = defaultdict(set)
        with contextlib.closing(self._connect()) as connected:
            cursor = connected.cursor()
            cursor.execute(asked, (self._stream, since))
            for start, kind, key in cursor.fetchall():
                keys[start].add((kind, key))
        return dict(keys)


class Seen(NamedTuple):
    """What a watch saw in a stream's sink.

    Parameters
    ----------
    releases
        Number of releases of public keys, from the first window on.
    newest_end
        End of the newest window with a release of every key, in seconds after 1970; None without one.
    missing
        Number of windows before the newest one in the sink that lack a key.
    alarms
        Number of alarms in their folder; None if no folder was given.
    refused
        Number of those alarms that are for slots the ledger refused.
    """

    releases: int = 0
    newest_end: float | None = None
    missing: int = 0
    alarms: int | None = None
    refused: int | None = None


class Watch:
    """Check a stream's sink from time to time and judge whether the stream is healthy.

    A stream is healthy if its newest complete window ended, or appeared, less than the job's ``stale_after`` ago, and
    no window before the newest one has lacked a key for that long.

    Parameters
    ----------
    agreement, job
        The agreement and the job of the stream, which says where releases and alarms are (``folder`` or ``database``,
        ``alarms``) and when the stream is stale (``stale_after``, by default the length of three windows). Files of
        alarms are counted but not read.
    patience
        How many seconds may pass without a successful check.
    causes
        Other things to check, such as the job on Flink. Their problems make the stream unhealthy.
    clock
        Function that returns the time in seconds; for tests.

    Raises
    ------
    InvalidInputError
        If the job names no stream, no cluster can follow the agreement, or the folder is not mounted.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement, Terms, Windows
    >>> from streamsketch.streams import FileSink, Slot
    >>> from streamsketch.streams.job import Job
    >>> folder = str(getfixture("tmp_path"))
    >>> columns = {"key": "carrier", "index": "route", "neighbours": L1(1), "keys": ["AA", "UA"]}
    >>> published = {"terms": Terms(epsilon=1), "windows": Windows(time="time", every="1 hour", first="1970-01-01")}
    >>> agreement = Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, **published)
    >>> for key in agreement.keys:
    ...     _ = FileSink(folder).put(Slot("flights", 0, "text", key), b"a release")
    >>> watch = Watch(agreement, Job(folder=folder, delay="1 min", stream="flights"), clock=lambda: 3600.0 + 90)
    >>> watch.look()
    >>> watch.seen.releases, watch.lag, watch.complaints()
    (2, 90.0, [])
    """

    def __init__(
        self,
        agreement: Agreement,
        job: Job,
        *,
        patience: float = 60,
        causes: Sequence[Cause] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        policy = StreamPolicy(agreement, job)
        policy.check_cluster()
        windows = policy.of_one_length
        self.stream, self._size, self._since = str(job.stream), windows.size, windows.start(policy.first)
        self._sink = _sink(job.folder, job.database, self.stream)
        self._stale_after = 3 * self._size / 10**6 if job.stale_after is None else job.stale_after
        self._alarms = None if job.alarms is None else Path(job.alarms)
        self._patience, self._clock = patience, clock
        self._causes, self._wrong = tuple(causes), list[str]()
        self.numbers: dict[str, float | Mapping[int, float]] = {}
        """What the causes measured, by the names of their metrics: one number, or one for each partition."""
        names = {named_key(key) for key in policy.public_keys or ()}
        self._keys = names | {("file", f"{Slot('', 0, *name).file}.sketch") for name in names}
        self._count = len(names)
        self._settled = 0  # releases in windows before `_since`
        self._newest: int | None = None  # start of the newest complete window
        self.seen: Seen | None = None
        self._looked = self._advanced = clock()
        self._lacking: dict[int, float] = {}
        self._trouble: str | None = None

    def look(self) -> None:
        """Look at sink, alarms and causes. If one cannot be read, the stream is unhealthy, and nothing is raised."""
        reports = [cause.look(self._clock(), self._stale_after) for cause in self._causes]
        self._wrong = [sentence for wrong, _ in reports for sentence in wrong]
        self.numbers = {name: number for _, numbers in reports for name, number in numbers.items()}
        what = "alarms"
        try:
            alarms, refused = self._alarm_count()
            what = "sink"
            counts = {start: len(keys & self._keys) for start, keys in self._sink.keys(self._since).items()}
        except Exception as error:  # noqa: BLE001 - drivers have errors of their own, and a watch goes on
            busy = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname.startswith(_BUSY)
            why = "is locked by another process" if busy else f"cannot be read: {type(error).__name__}"
            self._trouble = f"the {what} {why}"
            return
        self._trouble, self._looked = None, self._clock()
        newest = max((start for start, count in counts.items() if count), default=self._since)
        complete = [start for start, count in counts.items() if count == self._count]
        while self._since < newest and counts.get(self._since) == self._count:
            self._settled += counts.pop(self._since)
            self._since += self._size
        if complete and (self._newest is None or max(complete) > self._newest):
            self._advanced = self._looked if self.seen is not None else -math.inf  # its time is not known
            self._newest = max(complete)
        lacking = [start for start in range(self._since, newest, self._size) if counts.get(start, 0) < self._count]
        self._lacking = {start: self._lacking.get(start, self._looked) for start in lacking}
        end = None if self._newest is None else (self._newest + self._size) / 10**6
        self.seen = Seen(self._settled + sum(counts.values()), end, len(lacking), alarms, refused)

    @property
    def lag(self) -> float | None:
        """Seconds since the end of the newest complete window."""
        end = None if self.seen is None else self.seen.newest_end
        return None if end is None else self._clock() - end

    def complaints(self, *, private: bool = True) -> list[str]:
        """Return what is wrong, in sentences; an empty list if the stream is healthy.

        Parameters
        ----------
        private
            Whether what the causes found is part of it. Without, all is public: releases, the number of alarms, time.
        """
        now, complaints = self._clock(), []
        if self._trouble is not None:
            complaints.append(self._trouble)
        elif now - self._looked > self._patience:
            complaints.append(f"the sink has not answered for {now - self._looked:.0f} s")
        lag = self.lag
        quiet = now - self._advanced
        if (lag is None or lag > self._stale_after) and quiet > self._stale_after:
            complaints.append(f"no window was completed for {quiet if lag is None else min(lag, quiet):.0f} s")
        overdue = sum(now - since > self._stale_after for since in self._lacking.values())
        if overdue:
            complaints.append(f"{overdue} windows before the newest one lack keys")
        if complaints and self.seen is not None and self.seen.refused:
            complaints.append(f"the ledger refused {self.seen.refused} slots, which are not released")
        return [*complaints, *(self._wrong if private else ())]

    def health(self, *, private: bool = True) -> Json:
        """Return the content of the health page; ``private`` is that of `complaints`."""
        complaints, lag, seen = self.complaints(private=private), self.lag, self.seen or Seen()
        end = seen.newest_end
        return {
            "healthy": not complaints,
            "time": dt.datetime.fromtimestamp(self._clock(), dt.UTC).isoformat(timespec="seconds"),
            "complaints": complaints,
            "releases": seen.releases,
            "newest_window_end": None if end is None else dt.datetime.fromtimestamp(end, dt.UTC).isoformat(),
            "lag_seconds": None if lag is None else round(lag, 3),
            "windows_missing_keys": seen.missing,
            "alarms": seen.alarms,
            "refused": seen.refused,
            **{
                name: {str(place): round(each, 3) for place, each in number.items()}
                if isinstance(number, Mapping)
                else round(number, 3)
                for name, number in (self.numbers if private else {}).items()
            },
        }

    def _alarm_count(self) -> tuple[int | None, int | None]:
        """Return the number of alarms, and the number of those from the ledger."""
        if self._alarms is None:
            return None, None
        siblings = [path.name for path in self._alarms.parent.iterdir()]  # there is no folder before the first alarm
        names = [path.name for path in self._alarms.iterdir()] if self._alarms.name in siblings else []
        kept = [name for name in names if name.endswith(".json") and name[0] != "."]
        return len(kept), sum(name.endswith(".refused.json") for name in kept)


def _sink(folder: str, database: str | None, stream: str) -> Sink:
    if database is not None:
        return Database(database, stream)
    if "://" in folder:
        raise InvalidInputError(
            f"a watch reads a local or mounted folder, got {folder!r:.80}; mount it and set that folder"
        )
    return Folder(Path(folder), stream)
