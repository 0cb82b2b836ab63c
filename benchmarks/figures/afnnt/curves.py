"""Curves of test accuracy over repeats, and how far repeats lie apart."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.data import Data
from benchmarks.figures.afnnt.clipped import Floats
from benchmarks.figures.afnnt.training import MECHANISMS, Job, Outcome, problem_of

_ALL_TESTS = 10_000  # MNIST's


@dataclass(frozen=True)
class Curve:
    """A mechanism's test accuracies: one row of ``accuracies`` for each repeat, one column for each epoch.

    Parameters
    ----------
    model, mechanism, epsilon
        Names, and ε; 0 without noise.
    bits
        Of a report.
    accuracies
        (repeats, epochs).
    test_images
        How many.
    seconds
        Of one core, for a repeat.
    """

    model: str
    mechanism: str
    epsilon: float
    bits: int | None
    accuracies: Floats
    test_images: int
    seconds: float

    @property
    def mean(self) -> Floats:
        """Over the repeats: (epochs,)."""
        return np.asarray(self.accuracies.mean(axis=0))

    @property
    def end(self) -> float:
        """The mean after the last epoch."""
        return float(self.mean[-1])

    @property
    def sampling(self) -> float:
        """The 95 % half-width of `end` as the accuracy on all of MNIST's test images."""
        left = max(0.0, 1 - self.test_images / _ALL_TESTS)
        return 1.96 * math.sqrt(self.end * (1 - self.end) / self.test_images * left)


@dataclass(frozen=True)
class Spread:
    """The standard deviation of a repeat's last accuracy, and its degrees of freedom; 0 of them if none is repeated."""

    deviation: float
    degrees: int

    def half(self, repeats: int, share: float) -> float:
        """Return the half-width of the mean of ``repeats`` at a level, by Student's t; infinite if nothing is known."""
        if not self.degrees:
            return math.inf
        return float(stats.t.ppf((1 + share) / 2, self.degrees) * self.deviation / math.sqrt(repeats))


def spread_of(curves: Sequence[Curve]) -> Spread:
    """Return the spread of repeats, pooled over curves."""
    degrees = sum(len(curve.accuracies) - 1 for curve in curves)
    squares = sum(float(((curve.accuracies[:, -1] - curve.end) ** 2).sum()) for curve in curves)
    return Spread(math.sqrt(squares / degrees) if degrees else math.nan, degrees)


def of_model(outcomes: Sequence[Outcome], data: Data) -> dict[str, dict[tuple[str, float], Curve]]:
    """Return curves by model, and by mechanism and ε."""
    groups: dict[Job, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(dataclasses.replace(outcome.job, seed=0), []).append(outcome)
    curves: dict[str, dict[tuple[str, float], Curve]] = {}
    for job, group in groups.items():
        problem, make = problem_of(job, data), MECHANISMS.get(job.mechanism)
        curve = Curve(
            problem.model.name,
            job.mechanism,
            job.epsilon,
            None if make is None else make(problem.model.dim, job.epsilon, 0).layout.bits,
            np.array([outcome.accuracies for outcome in group]),
            len(problem.test),
            float(np.mean([outcome.seconds for outcome in group])),
        )
        curves.setdefault(job.model, {})[job.mechanism, job.epsilon] = curve
    return curves
