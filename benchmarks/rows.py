"""What a benchmark returns: rows of figures, and how thoroughly to measure them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.timing import Timings, Work, interleave


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure.

    Parameters
    ----------
    name
        ``"full"``, ``"quick"`` or ``"tiny"``; it stands in the results.
    rounds
        Samples of each contender.
    sample
        Least seconds of one sample.
    shrink
        Divisor of all sizes.
    """

    name: str
    rounds: int
    sample: float
    shrink: int

    def size(self, full: int, least: int = 1) -> int:
        """Return a size for this effort: ``full`` shrunk, but not below ``least``."""
        return max(least, full // self.shrink)


FULL = Effort("full", rounds=15, sample=0.02, shrink=1)
QUICK = Effort("quick", rounds=5, sample=0.005, shrink=10)
TINY = Effort("tiny", rounds=1, sample=0.0, shrink=1000)
"""For tests of the benchmarks: everything runs, no figure means anything."""


@dataclass(frozen=True)
class Unit:
    """A unit of what is shown: a time (``seconds · factor``) or, with ``rate``, items per time."""

    label: str
    factor: float
    rate: bool = False

    def of(self, seconds: float) -> float:
        """Return seconds per item in this unit."""
        return 1 / (seconds * self.factor) if self.rate else seconds * self.factor


NANOSECONDS = Unit("ns", 1e9)
MICROSECONDS = Unit("µs", 1e6)
MILLISECONDS = Unit("ms", 1e3)
SECONDS = Unit("s", 1.0)
MILLIONS_PER_SECOND = Unit("M/s", 1e6, rate=True)


@dataclass(frozen=True)
class Target:
    """A bar that is reported, never asserted: ours, or its time ratio to the first other, at most so much."""

    quantity: Literal["ours", "ratio"]
    at_most: float


@dataclass(frozen=True)
class Row:
    """One line of results.

    Parameters
    ----------
    name
        What was done.
    unit
        Unit of ``ours`` and ``others``.
    ours
        Median over the rounds.
    others
        Medians of peers and limits measured in the same rounds.
    ratio
        Our time over the first other's: median of the rounds' ratios. Below 1 we are faster, whatever the unit.
    quartiles
        Lower and upper quartile of the rounds' ratios.
    target
        The bar, if there is one.
    """

    name: str
    unit: str
    ours: float
    others: Mapping[str, float]
    ratio: float | None = None
    quartiles: tuple[float, float] | None = None
    target: Target | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        value = self.ours if self.target.quantity == "ours" else self.ratio
        return value is not None and value <= self.target.at_most

    def to_dict(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours,
            "others": dict(self.others),
            "ratio": self.ratio,
            "ratio_quartiles": self.quartiles,
            "target": None if self.target is None else {self.target.quantity: self.target.at_most},
            "met": self.met,
        }


def compare(
    name: str,
    contenders: Mapping[str, Work],
    effort: Effort,
    unit: Unit = NANOSECONDS,
    target: Target | None = None,
) -> Row:
    """Time contenders against each other and return their row: the first is ours, the second sets the ratio."""
    timings = interleave(contenders, effort.rounds, sample=effort.sample)
    ours, *others = contenders
    return _row(name, timings, ours, others, unit, target)


def compare_each(
    name: str,
    contenders: Mapping[str, Work],
    effort: Effort,
    targets: Mapping[str, Target],
    unit: Unit = NANOSECONDS,
) -> list[Row]:
    """As `compare`, with a row and a ratio for each contender after the first, and targets by contender."""
    timings = interleave(contenders, effort.rounds, sample=effort.sample)
    ours, *others = contenders
    return [_row(name, timings, ours, [other], unit, targets.get(other)) for other in others]


def _row(name: str, timings: Timings, ours: str, others: Sequence[str], unit: Unit, target: Target | None) -> Row:
    lower, ratio, upper = timings.ratios(ours, others[0])
    return Row(
        name,
        unit.label,
        unit.of(timings.median(ours)),
        {other: unit.of(timings.median(other)) for other in others},
        ratio,
        (lower, upper),
        target,
    )
