"""The driver of studies of interval coverage: trials at four confidences, what came of them, and how it is shown.

A study says how a trial is drawn, what is true and how settings are named. `simulate` runs trials of many items at
once, `of_values` sums up those of single estimates; `no_less`, `least`, `ranges` and `dots` are the checks, the words
and the picture that such studies share.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette
from benchmarks.verdicts import Check

CONFIDENCES = (0.5, 0.9, 0.95, 0.99)
COLUMNS = tuple(f"covered by {confidence:.0%}" for confidence in CONFIDENCES)
_AT_95 = CONFIDENCES.index(0.95)

Floats = NDArray[np.float64]
Ends = tuple[Any, Any]


class Covered(Protocol):
    """A setting with the shares of its intervals that hold the truth, by `CONFIDENCES`."""

    @property
    def covered(self) -> Sequence[float]:
        """The shares."""


Key = TypeVar("Key", bound=Hashable)
Case = TypeVar("Case", bound=Covered)


class Trial(NamedTuple):
    """What one trial came to for each of its items."""

    errors: Floats
    """Estimates less the truth."""
    stated: Floats
    """Standard errors."""
    shares: list[float]
    """Shares of intervals that hold the truth, by `CONFIDENCES`; last, whether those of all items hold together."""


class Summary(NamedTuple):
    """What trials came to."""

    bias: float
    """In its standard errors; the largest of an item."""
    error: float
    """Root mean square."""
    stated: float
    """Root mean square of the standard errors."""
    covered: tuple[float, ...]
    """Shares of intervals that hold the truth, by `CONFIDENCES`."""
    together: float
    """Share of trials in which the intervals of all items hold together at 95 %."""


def within(truth: Floats | float, low: Floats | float, high: Floats | float) -> NDArray[np.bool_]:
    """Return whether intervals hold the truth, but for rounding: an estimate may be exact."""
    slack = 1e-9 * np.maximum(1.0, np.abs(truth))
    return np.asarray((low - slack <= truth) & (truth <= high + slack))


def trial(
    truth: Floats, values: Floats, stated: Floats, interval: Callable[[float], Ends], together: Ends, kept: slice
) -> Trial:
    """Return what a trial came to for the items that are kept.

    Parameters
    ----------
    truth
        Of the items that are kept.
    values, stated
        Estimates and standard errors of all items.
    interval
        Confidence → ends of the intervals of all items.
    together
        Ends of intervals that hold together at 95 %.
    kept
        Which items.
    """
    ends = [*map(interval, CONFIDENCES), together]
    holds = [within(truth, low[kept], high[kept]) for low, high in ends]
    shares = [*(float(each.mean()) for each in holds[:-1]), float(holds[-1].all())]
    return Trial(values[kept] - truth, stated[kept], shares)


def simulate(draw: Callable[[int], Mapping[Key, Trial]], count: int) -> dict[Key, Summary]:
    """Run trials of seeds 0, 1, 2, …, and sum up each of the things that they measure."""
    trials: dict[Key, list[Trial]] = {}
    for seed in range(count):
        for key, measured in draw(seed).items():
            trials.setdefault(key, []).append(measured)
    return {key: _summary(own) for key, own in trials.items()}


def _summary(trials: list[Trial]) -> Summary:
    errors, stated, shares = (np.array(part) for part in zip(*trials, strict=True))
    spread = errors.std(axis=0) / math.sqrt(len(errors))
    bias = float(np.abs(errors.mean(axis=0) / np.where(spread > 0, spread, np.inf)).max())
    *covered, together = map(float, shares.mean(axis=0))
    return Summary(bias, _root_mean(errors**2), _root_mean(stated**2), tuple(covered), together)


def of_values(estimates: Sequence[ss.estimation.Estimate], truth: float) -> Summary:
    """Return the summary of estimates of one quantity, one a trial."""
    values = np.array([estimate.value for estimate in estimates])
    intervals = [np.array([estimate.interval(each) for estimate in estimates]) for each in CONFIDENCES]
    covered = tuple(float(within(truth, ends[:, 0], ends[:, 1]).mean()) for ends in intervals)
    spread = float(values.std()) / math.sqrt(values.size)
    bias = float(values.mean() - truth) / spread if spread else 0.0
    stated = _root_mean(np.array([estimate.variance for estimate in estimates]))
    return Summary(bias, _root_mean((values - truth) ** 2), stated, covered, covered[_AT_95])


def _root_mean(squares: Floats) -> float:
    return math.sqrt(float(squares.mean()))


def no_less(cases: Sequence[Covered]) -> list[Check]:
    """Return the checks that no setting covers less than each confidence, but for two points."""
    return [
        Check(
            f"{confidence:.0%} intervals cover no less, but for two points; the least",
            min(float(case.covered[place]) for case in cases),
            confidence - 0.02,
            1.0,
        )
        for place, confidence in enumerate(CONFIDENCES)
    ]


def least(claim: str, cases: Iterable[Covered], low: float, count: int) -> Check:
    """Return the check that 95 % intervals hold the truth in a share of ``count`` trials, in the worst setting."""
    share = min(case.covered[_AT_95] for case in cases)
    return Check(claim, share, low, 1.0, share_error(share, count))


def share_error(share: float, count: int) -> float:
    """Return the 95 % half-width of a share of ``count`` trials."""
    return 1.96 * math.sqrt(share * (1 - share) / count)


def ranges(cases: Sequence[Covered]) -> str:
    """Return the least and the greatest share of each confidence, as words."""
    shares = [[float(case.covered[place]) for case in cases] for place in range(len(CONFIDENCES))]
    return ", ".join(
        f"{confidence:.0%} in {min(own):.1%} to {max(own):.1%}"
        for confidence, own in zip(CONFIDENCES, shares, strict=True)
        if own
    )


def dots(
    panels: Mapping[str, Sequence[Case]], name: Callable[[Case], str], what: str, width: float, height: float
) -> Figure:
    """Return a picture of shares by setting: a panel each, a colour for each confidence."""
    figure, axes = palette.panels(1, len(panels), width=width, height=height, sharex=True, sharey=True)
    names = list(dict.fromkeys(name(case) for cases in panels.values() for case in cases))
    for panel, (title, cases) in zip(axes[0], panels.items(), strict=True):
        for place, confidence in enumerate(CONFIDENCES):
            panel.plot(
                [float(case.covered[place]) for case in cases],
                [names.index(name(case)) for case in cases],
                linestyle="",
                marker=palette.MARKERS[place],
                markersize=5,
                color=palette.COLOURS[place],
                label=f"{confidence:.0%}",
            )
            panel.axvline(confidence, color=palette.COLOURS[place], lw=0.8)
        panel.set_yticks(range(len(names)), names)
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_xlabel(f"share of intervals that hold the {what}")
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    return figure
