"""A stream that is only tried: its rows are read and judged as those of a stream, and nothing is drawn or written."""

import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.concealed import concealed
from streamsketch.core.documents import Json
from streamsketch.once.alarms import Alarm
from streamsketch.once.counts import RowCounts
from streamsketch.once.sinks import Sink
from streamsketch.once.slots import Slot
from streamsketch.streams.job import Job
from streamsketch.streams.stream import Stream

_NO_STATE = Path(os.devnull, "state")  # which cannot exist


@concealed
class WindowRows(NamedTuple):
    """What a log has for one window: private data, without noise.

    Parameters
    ----------
    window
        Its name.
    rows
        Rows with a time in it, apart from those that cannot be read.
    late, blank, other_keys
        How many of them are late, lack a value that is needed, or are of keys that are not listed.
    is_over
        Whether the window would be released by the end of what was read.
    """

    window: str
    rows: int
    late: int
    blank: int
    other_keys: int
    is_over: bool


class DryStream(Stream):
    """Read rows as a new stream does, count them by window, and do nothing else.

    No noise is drawn, no ledger is charged, and no state, release, alarm or dead letter is written or read.

    Parameters
    ----------
    agreement, job, strict
        As of a `Stream`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import L1, SJLT, Agreement, Terms, Windows
    >>> columns = {"index": "item", "unit": "customer", "neighbours": L1(10, unit="customer")}
    >>> published = {"terms": Terms(epsilon=1), "windows": Windows(time="at", every="1 hour", first="2026-11-22")}
    >>> agreement = Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, **published)
    >>> stream = DryStream(agreement, Job(folder="releases", delay="5 min"))
    >>> times = ["2026-11-22T00:10:00Z", "2026-11-22T01:10:00Z", "2026-11-22T00:20:00Z"]
    >>> rows = {"customer": ["c1", "c2", "c3"], "item": ["tea", "jam", "tea"], "at": times}
    >>> stream.add(pa.RecordBatch.from_pydict(rows), 1)
    >>> alarms = stream.save({})
    >>> [(rows.window, rows.rows, rows.late, rows.is_over) for rows in stream.rows_of_windows]
    [('2026-11-22T0000Z', 2, 1, True), ('2026-11-22T0100Z', 1, 0, False)]
    """

    def __init__(self, agreement: Agreement, job: Job, *, strict: bool = False) -> None:
        silent = dataclasses.replace(job, dry_run=False, ledger=None, dataset=None, alarms=None, dead_letters=None)
        super().__init__(agreement, silent, _NO_STATE, sink=None if job.stream is None else _NoSink(), strict=strict)
        self.windows.by_window = {}

    def prepare(self, seconds: float) -> bool:
        """Draw nothing."""
        del seconds
        return True

    def save(self, position: Json) -> list[Alarm]:
        """Close the windows that are over, as `Stream.save`, without a release."""
        self.position = position
        while self.windows.is_over:
            self.windows.advance(self.windows.closing())
        return []

    @property
    def rows_of_windows(self) -> list[WindowRows]:
        """The rows of each window, in order. Secret."""
        name, counts = self.policy.windows.name, self.windows.by_window or {}
        return [
            WindowRows(name(number), rows.read, rows.late, rows.blank, rows.other_keys, number < self.windows.next)
            for number, rows in sorted(counts.items())
        ]

    def complaints(self, counts: RowCounts) -> dict[str, str]:
        """Return what an operator would be told about these rows, in sentences, by code."""
        return counts.complaints(self.policy.job.limits, "that were read")

    def _check_new(self) -> None:
        """Accept that windows are published already: nothing is published here."""


class _NoSink(Sink):
    """A sink that holds nothing and takes nothing."""

    def put(self, slot: Slot, content: bytes) -> bytes | None:  # noqa: ARG002
        """Refuse."""
        raise RuntimeError("a dry run publishes nothing")

    def get(self, slot: Slot) -> bytes | None:  # noqa: ARG002
        """Return nothing."""
        return None
