"""What bounding dropped and clipped: secret, for the operator's eyes alone."""

import dataclasses
import json
import math
import os
from pathlib import Path

import numpy as np

from streamsketch.core.concealed import concealed
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import SUMMARY, wrong_type
from streamsketch.intake.events import Events
from streamsketch.projections.base import Projection

_INDENT = 2
_OFF_GRID = 1e-9  # of a value: what floats lose is no truncation


@concealed
@dataclasses.dataclass(frozen=True)
class Tally:
    """How much the bounds removed from units, in grid steps; sums are rounded floats.

    ``total``, ``kept`` and ``largest`` describe the units' Σ|sum|, or the norms of their cells, before and after.
    """

    units: int = 0
    units_over_keys: int = 0
    units_over_bound: int = 0
    units_below_bound: int = 0
    total: float = 0.0
    kept: float = 0.0
    largest: float = 0.0

    def clipped(self, units: Ints) -> "Tally":
        """Note the units, sorted, that are over the bound in a group."""
        over = int(np.count_nonzero(np.diff(units, prepend=-1)))
        return dataclasses.replace(self, units_over_bound=over)

    def left(self, steps: Ints) -> "Tally":
        """Note what is left."""
        return dataclasses.replace(self, kept=float(np.abs(steps.astype(np.float64)).sum()))

    def normed(self, shortened: int, lengthened: int, total: float, kept: float, largest: float) -> "Tally":
        """Note how many units were brought to the bound from above and below, and what norms they had and have."""
        counts = {"units_over_bound": shortened, "units_below_bound": lengthened}
        return Tally(self.units, self.units_over_keys, **counts, total=total, kept=kept, largest=largest)


@concealed
@dataclasses.dataclass
class BoundingSummary:
    """What was read, dropped and clipped on the way to a bounded sketch. **Secret**: do not publish it.

    Pass one to `streamsketch.bounding.bound_units`, which adds to it. Amounts are floats in data units.

    Parameters
    ----------
    rows_read
        Number of rows read.
    rows_blank
        Rows dropped because of a null, or because the unit is empty text.
    rows_malformed
        Rows dropped for another fault: NaN, an index out of range, text that is not UTF-8.
    rows_of_other_keys
        Rows dropped because their key is not public.
    rows_truncated
        Rows kept whose value lies between two multiples of the resolution.
    units
        Privacy units kept, wholly or in part.
    units_over_keys, units_over_bound
        Units that had more keys than allowed, and units that exceeded the bound in the keys that were left.
    units_below_bound
        Units that ``clip="equal"`` lengthened to the bound.
    units_over_windows
        Units left out of a window of a schedule, because they were in as many other windows as it allows, or in one
        that is too close. A unit counts once for each such window.
    total, total_kept
        Σ|value| over the units' sums by key and index, before and after clipping. Under `SketchL2`, the sum of the
        units' ℓ2 norms, each over the cells of all its keys.
    largest_value, largest_unit
        The largest |value| of a row, and the largest Σ|value| or norm of a unit before clipping.

    Examples
    --------
    >>> summary = BoundingSummary(total=10.0, total_kept=4.0)
    >>> summary.share_kept
    0.4
    """

    rows_read: int = 0
    rows_blank: int = 0
    rows_malformed: int = 0
    rows_of_other_keys: int = 0
    rows_truncated: int = 0
    units: int = 0
    units_over_keys: int = 0
    units_over_bound: int = 0
    units_below_bound: int = 0
    units_over_windows: int = 0
    total: float = 0.0
    total_kept: float = 0.0
    largest_value: float = 0.0
    largest_unit: float = 0.0

    @property
    def rows_dropped(self) -> int:
        """The number of rows that added nothing, for any reason."""
        return self.rows_blank + self.rows_malformed + self.rows_of_other_keys

    @property
    def share_kept(self) -> float:
        """``total_kept`` / ``total``; NaN without data."""
        return self.total_kept / self.total if self.total else math.nan

    def note(self, events: Events, projection: Projection) -> None:
        """Count the rows that were read, dropped and truncated, and record the largest value."""
        self.rows_read += events.rows
        self.rows_blank += events.blank
        self.rows_malformed += events.malformed
        if not len(events) or events.features is not None:
            return
        column, steps, alike = events.amounts, events.steps, 1
        if column is None:  # each row counts 1, so the first tells of all
            column, steps, alike = [1], steps[:1], len(events)
        amounts = column.cast(pa.float64()).to_numpy() if isinstance(column, pa.Array) else column
        amounts = np.array(amounts, dtype=np.float64)
        off = np.abs(amounts / float(projection.grid) - steps) > _OFF_GRID * np.maximum(1.0, np.abs(steps))
        self.rows_truncated += int(off.sum()) * alike
        self.largest_value = max(self.largest_value, float(np.abs(amounts).max()))

    def add(self, tally: Tally, step: float) -> None:
        """Add what clipping took from some units; ``step`` is the size in data units of one step of these amounts."""
        self.units += tally.units
        self.units_over_keys += tally.units_over_keys
        self.units_over_bound += tally.units_over_bound
        self.units_below_bound += tally.units_below_bound
        self.total += step * tally.total
        self.total_kept += step * tally.kept
        self.largest_unit = max(self.largest_unit, step * tally.largest)

    def merge(self, other: "BoundingSummary") -> None:
        """Add the counts of other units."""
        for field in dataclasses.fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            setattr(self, field.name, max(mine, theirs) if field.name.startswith("largest") else mine + theirs)

    def to_dict(self) -> Json:
        """Return the summary as a dict that JSON can hold. It is as secret as the data."""
        share = None if math.isnan(self.share_kept) else self.share_kept
        return {"secret": True, **dataclasses.asdict(self), "rows_dropped": self.rows_dropped, "share_kept": share}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary as JSON to a file that only its owner can read (mode 0600).

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_whole(Path(path), (json.dumps(self.to_dict(), indent=_INDENT) + "\n").encode(), secret=True)


def check_summary(summary: object) -> None:
    """Raise `TypeError` unless this is a summary, or None."""
    if not isinstance(summary, BoundingSummary | None):
        raise wrong_type("summary must be a BoundingSummary", summary, SUMMARY)
