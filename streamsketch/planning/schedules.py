"""Which schedule to publish a stream with, for the ranges of time that matter."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.numbers import check_int, short
from streamsketch.core.text import aligned
from streamsketch.errors import InvalidInputError, NoiseTooWideError
from streamsketch.planning.plan_text import plan_text
from streamsketch.privacy.schedule import Schedule
from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree

if TYPE_CHECKING:
    from streamsketch.agreement.agreement import Agreement

Range: TypeAlias = int | Literal["prefix"]
"""So many windows in a row, anywhere in the stream; or all windows from the first on."""

_SIZES = (2, 4, 8, 16)  # of blocks of a factorisation
_LONGEST_BAND = 128
_SHOWN = 6  # options
_LITTLE = 1.03  # a difference of errors that is not worth more sums, or a schedule at all


@dataclasses.dataclass(frozen=True)
class ScheduleOption:
    """A schedule, and the error of each range of interest.

    Parameters
    ----------
    schedule
        What is published.
    errors
        The standard deviation of the noise in the worst range of each kind, relative to one window that is released
        alone with the same guarantee for a unit in it.
    held
        How many exact sketches are kept for each key, at most, besides that of the open window.
    """

    schedule: Schedule
    errors: tuple[float, ...]
    held: int


@dataclasses.dataclass(frozen=True)
class SchedulePlan(ShownAsText):
    """Schedules for a stream, the best first.

    Parameters
    ----------
    ranges
        The ranges of interest.
    options
        The best first; the others by their largest error, relative to the best option for the same range.
    """

    ranges: tuple[Range, ...]
    options: tuple[ScheduleOption, ...]

    @property
    def chosen(self) -> ScheduleOption:
        """The first option."""
        return self.options[0]

    @property
    def separate(self) -> ScheduleOption:
        """Each window by itself."""
        return next(option for option in self.options if isinstance(option.schedule, Separate))

    @property
    def is_separate(self) -> bool:
        """Whether no schedule is much better than releasing each window by itself."""
        return isinstance(self.chosen.schedule, Separate)

    def __str__(self) -> str:
        relation = self.chosen.schedule.unit_text("a unit")
        headline = f"a {self.chosen.schedule}, for {relation}"
        if self.is_separate:
            headline = f"each window by itself, for {relation}: no schedule is much better"
        names = ["all so far" if span == "prefix" else f"any {span:,}" for span in self.ranges]
        rows = [["schedule", *names, "sums kept"]]
        for option in self.options[:_SHOWN] + (() if self.separate in self.options[:_SHOWN] else (self.separate,)):
            errors = [f"{error:.2f}" for error in option.errors]
            rows.append([option.schedule.words, *errors, f"{option.held:,}"])
        title = "Noise of the worst range, relative to one window released alone:"
        return plan_text(headline, tables=[f"{title}\n{aligned(rows, left=1)}"])

    def to_dict(self) -> Json:
        """Return the plan as a dict that JSON can hold."""
        return {
            "ranges": list(self.ranges),
            "options": [
                {"schedule": option.schedule.to_dict(), "errors": list(option.errors), "held": option.held}
                for option in self.options
            ],
        }


def plan_schedule(  # noqa: PLR0913 - what a schedule depends on
    horizon: int,
    ranges: Sequence[Range] = ("prefix",),
    *,
    delta: float = 0.0,
    max_windows: int | None = 1,
    gap: int = 1,
    together: bool = False,
    most_held: int | None = None,
    agreement: "Agreement | None" = None,
    epsilon: float | None = None,
) -> SchedulePlan:
    """Choose a schedule for the ranges of time that you want to read, before there are data.

    For each option and kind of range, the worst error is divided by that of the best option, and the largest of these
    ratios counts. Among the options within 3 % of the smallest ratio, the one with the fewest sums to keep comes first.
    If no schedule is much better than releasing each window by itself, as for units that are in every window, that
    option comes first.

    Parameters
    ----------
    horizon
        Number of windows, 1 to 100,000.
    ranges
        Numbers of consecutive windows, anywhere in the stream, such as 7 for weeks of days; ``"prefix"`` for all
        windows from the first on.
    delta
        If 0, the noise is Laplace and the options are trees; otherwise the noise is Gaussian.
    max_windows, gap
        The number of windows that a unit may be in, and how far apart they are; see `Schedule`.
    together
        Whether a unit is bounded over all windows together, as under `SketchL2`, or in each window.
    most_held
        The largest number of exact sketches to keep for each key.
    agreement, epsilon
        The agreement of the stream, with its relation, and the ε of the stream. Schedules whose noise is too wide to be
        drawn on the agreement's grid are then left out, and weights are as fine as the noise allows.

    Raises
    ------
    InvalidInputError
        If a number is out of range, or there are no ranges; if only one of ``agreement`` and ``epsilon`` is given, the
        agreement has no bound on what a unit adds, or the noise of every schedule is too wide to be drawn.

    Examples
    --------
    >>> plan = plan_schedule(365, [7, 30, "prefix"], delta=1e-6)
    >>> print(plan.chosen.schedule, [round(error, 1) for error in plan.chosen.errors], plan.chosen.held)
    square root of 60 windows over 365 windows [2.4, 2.9, 3.9] 59
    >>> plan_schedule(52, delta=1e-6, max_windows=None).is_separate  # a unit in every week
    True
    """
    wanted = tuple(dict.fromkeys(_checked(span, horizon) for span in ranges))
    if not wanted:
        raise InvalidInputError("ranges is empty; pass numbers of windows, such as 7, or 'prefix'")
    who: dict[str, Any] = {"horizon": horizon, "max_windows": max_windows, "gap": gap}
    options = []
    for schedule in _drawable(_candidates(who, wanted, laplace=delta == 0), agreement, epsilon, delta):
        held = int(np.diff(schedule.row_blocks.offsets).max()) - 1
        if most_held is None or held <= most_held:
            options.append(
                ScheduleOption(schedule, _errors(schedule, wanted, laplace=delta == 0, together=together), held)
            )
    if not options:
        raise InvalidInputError(f"no schedule keeps at most {most_held} sums for each key; allow more")
    best = [min(option.errors[place] for option in options) for place in range(len(wanted))]

    def regret(option: ScheduleOption) -> float:
        return max(error / least for error, least in zip(option.errors, best, strict=True))

    options.sort(key=regret)
    close = [option for option in options if regret(option) <= _LITTLE * regret(options[0])]
    first = min(close, key=lambda option: option.held)
    return SchedulePlan(wanted, (first, *(option for option in options if option is not first)))


def _drawable(
    schedules: Iterator[Schedule], agreement: "Agreement | None", epsilon: float | None, delta: float
) -> Iterator[Schedule]:
    """Yield the schedules whose noise can be drawn under an agreement, with weights as fine as it allows."""
    if agreement is None or epsilon is None:
        if (agreement is None) != (epsilon is None):
            raise InvalidInputError("the noise of a schedule depends on agreement and epsilon: pass both, or neither")
        yield from schedules
        return
    from streamsketch.release.additive_noise import AdditiveNoise  # noqa: PLC0415 - plans without an agreement do not load releases

    relation, refusal, drawn = agreement.neighbours, None, 0
    if relation is None:
        raise InvalidInputError("the agreement states no bound on what a unit adds; agree on neighbours")
    for schedule in schedules:
        within = relation.over_rows(schedule.most)  # streams bound units in each window
        layout = dataclasses.replace(agreement.layout, schedule=schedule)
        publisher = AdditiveNoise.of_layout(layout, epsilon=epsilon, delta=delta, neighbours=within)
        try:
            fitted = publisher.fitted(agreement.projection).schedule
        except NoiseTooWideError as error:
            refusal = refusal or error
            continue
        drawn += 1
        yield fitted or schedule
    if not drawn and refusal is not None:
        raise refusal


def _checked(value: object, horizon: int) -> Range:
    if value == "prefix":
        return "prefix"
    if isinstance(value, str):
        raise InvalidInputError(f"a range must be a number of windows, or 'prefix', got {short(value)}")
    return check_int(value, "a range, in windows,", 1, horizon)


def _candidates(who: dict[str, Any], ranges: Sequence[Range], *, laplace: bool) -> Iterator[Schedule]:
    horizon = who["horizon"]
    yield Separate(**who)
    deepest = Tree(**who).depth or 1
    yield from (Tree(**who, depth=depth) for depth in range(2, deepest + 1))
    if laplace:
        return
    yield from (Factorisation(**who, blocks=size) for size in _SIZES)
    lengths = {length for length in ranges if length != "prefix"}
    bands = {band for length in lengths for band in (length, 2 * length) if 1 < band <= min(horizon, _LONGEST_BAND)}
    yield from (Factorisation(**who, band=band) for band in sorted(bands))


def _errors(schedule: Schedule, ranges: Sequence[Range], *, laplace: bool, together: bool) -> tuple[float, ...]:
    norms = schedule.norms
    scale = math.sqrt(norms.together / norms.l2_squared) if together and not laplace else 1.0
    return tuple(scale * schedule.worst_error(None if span == "prefix" else span, laplace=laplace) for span in ranges)
