"""Reasons why a stream lacks rows: its workers' counts of rows that were dropped, by kind."""

from pathlib import Path
from typing import TYPE_CHECKING

from streamsketch.jobs.causes import Findings
from streamsketch.once.counts import RowAlarms, RowCounts, RowLimits, counts_in

if TYPE_CHECKING:
    from streamsketch.core.documents import Json


class DroppedRows:
    """The counts of a job's workers, in a local or mounted folder. Private data, for the operator only.

    Parameters
    ----------
    folder
        The folder, ``CLAIMS/STREAM.counts``.
    limits
        The largest shares of rows that may be dropped, by kind, as of the job (`Job.limits`).

    Examples
    --------
    >>> from streamsketch.streams import RowCounts
    >>> from streamsketch.once.counts import Tally
    >>> folder = getfixture("tmp_path")
    >>> tally = Tally(str(folder))
    >>> tally.add(RowCounts(read=100, late=5))
    >>> tally.flush(now=True)
    >>> problems, numbers = DroppedRows(folder).look(now=0.0, stale_after=300.0)
    >>> problems
    ['5 % of the rows that were read were dropped, more than max_dropped, 1 %: 5 late, 0 too far ahead, 0 malformed']
    """

    def __init__(self, folder: Path, limits: RowLimits | None = None) -> None:
        self._folder, self._limits = folder, limits or RowLimits()
        self._before: list[tuple[float, dict[str, RowCounts]]] = []
        self._alarms, self._period = RowAlarms(self._limits), dict[str, str]()
        self._period_counts: tuple[float, RowCounts] | None = None

    def look(self, now: float, stale_after: float) -> Findings:
        """Return problems with the rows of the last ``stale_after`` seconds, and the counts of all rows.

        The first call checks all rows counted so far.
        """
        try:
            counts = counts_in(self._folder)
        except (OSError, ValueError, TypeError) as error:
            return [f"the counts of rows cannot be read: {type(error).__name__}"], {}
        # the last look that is as old as that, or else the first
        while len(self._before) > 1 and now - self._before[1][0] >= stale_after:
            self._before.pop(0)
        first, before = self._before[0] if self._before else (None, {})
        recent = _total({name: rows.since(before.get(name, RowCounts())) for name, rows in counts.items()})
        self._before.append((now, counts))
        words = "that were read" if first is None else f"of the last {now - first:.0f} s"
        total = _total(counts)
        numbers: Json = {f"rows_{name}": float(count) for name, count in total._asdict().items()}
        return [*(self._of_period(now, total, stale_after) | recent.complaints(self._limits, words)).values()], numbers

    def _of_period(self, now: float, total: RowCounts, seconds: float) -> dict[str, str]:
        """Return what was wrong in the last whole period of so many seconds, compared with those before it."""
        if self._period_counts is None:
            self._period_counts = now, total
        since, before = self._period_counts
        if now - since >= seconds > 0:
            words = f"of the last {now - since:.0f} s"
            complaints = self._alarms.look(total.since(before), words, now - since)
            limited = total.since(before).complaints(self._limits, words)
            self._period = {code: text for code, text in complaints.items() if code not in limited}
            self._period_counts = now, total
        return self._period


def _total(counts: dict[str, RowCounts]) -> RowCounts:
    total = RowCounts()
    for rows in counts.values():
        total = total.plus(rows)
    return total
