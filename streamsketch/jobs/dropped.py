"""Reasons why a stream lacks rows: its workers' counts of rows that were late, too far ahead or malformed."""

from pathlib import Path
from typing import Any

from streamsketch.jobs.causes import Found
from streamsketch.once.counts import MAX_DROPPED, RowCounts, counts_in


class DroppedRows:
    """The counts of a job's workers, in a local or mounted folder. Private data, for the operator only.

    Parameters
    ----------
    folder
        The folder, ``CLAIMS/STREAM.counts``.
    max_dropped
        The largest share of rows that may be dropped, from 0 to 1, as in the job; None for 0.01.

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

    def __init__(self, folder: Path, max_dropped: float | None = None) -> None:
        self._folder, self._most = folder, MAX_DROPPED if max_dropped is None else max_dropped
        self._before: list[tuple[float, dict[str, RowCounts]]] = []

    def look(self, now: float, stale_after: float) -> Found:
        """Return problems with the rows of the last ``stale_after`` seconds, and the counts of all rows.

        The first call checks all rows counted so far.
        """
        try:
            found = counts_in(self._folder)
        except (OSError, ValueError, TypeError) as error:
            return [f"the counts of rows cannot be read: {type(error).__name__}"], {}
        # the last look that is as old as that, or else the first
        while len(self._before) > 1 and now - self._before[1][0] >= stale_after:
            self._before.pop(0)
        first, before = self._before[0] if self._before else (None, {})
        recent = _total({name: one.since(before.get(name, RowCounts())) for name, one in found.items()})
        self._before.append((now, found))
        words = "that were read" if first is None else f"of the last {now - first:.0f} s"
        total = _total(found)
        numbers: dict[str, Any] = {f"rows_{name}": float(count) for name, count in total._asdict().items()}
        return recent.complaints(self._most, words), numbers


def _total(counts: dict[str, RowCounts]) -> RowCounts:
    found = RowCounts()
    for one in counts.values():
        found = found.plus(one)
    return found
