"""Verdicts on what papers say, computed from a run's numbers and stated tolerances."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """A statement of a paper beside what a run found.

    Parameters
    ----------
    claim
        A sentence of the paper, or a statement with its place: "Theorem 4", "Section 6.2.1".
    observed
        What the run found; NaN if it found nothing.
    low, high
        The tolerance: the statement holds for values from ``low`` to ``high``, which may be infinite.
    error
        The 95 % half-width of ``observed``; 0 for a computed number.
    unit
        Unit of ``observed``, ``low`` and ``high``.
    data
        The data set or setting.

    Examples
    --------
    >>> check = Check("the error falls by half", 0.52, 0.45, 0.55, error=0.02)
    >>> check.holds
    True
    """

    claim: str
    observed: float
    low: float
    high: float
    error: float = 0.0
    unit: str = ""
    data: str = ""

    def __post_init__(self) -> None:
        """Refuse tolerances and errors that are none."""
        if not self.low <= self.high:
            raise ValueError(f"a tolerance takes low <= high, got {self.low} and {self.high}: {self.claim}")
        if self.error < 0:
            raise ValueError(f"error must not be negative, got {self.error}: {self.claim}")

    @property
    def holds(self) -> bool | None:
        """Whether the interval of ``observed`` lies in the tolerance; None if it is partly outside, or NaN."""
        if math.isnan(self.observed) or math.isnan(self.error):
            return None
        least, most = self.observed - self.error, self.observed + self.error
        if self.low <= least and most <= self.high:
            return True
        return False if most < self.low or least > self.high else None

    def to_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return asdict(self) | {"holds": self.holds}


def verdict(holds: Sequence[bool | None]) -> str:
    """Return the verdict on statements that hold (True), do not (False), or cannot be told (None).

    Examples
    --------
    >>> verdict([True, True]), verdict([True, False, None]), verdict([None, True])
    ('agrees', 'differs in 1 of 3, 1 cannot be told', 'cannot be told in 1 of 2')
    """
    count, false, untold = len(holds), holds.count(False), holds.count(None)
    if not count:
        return "not checked"
    if false:
        return f"differs in {false} of {count}" + (f", {untold} cannot be told" if untold else "")
    if untold:
        return "cannot be told" + (f" in {untold} of {count}" if untold < count else "")
    return "agrees"
