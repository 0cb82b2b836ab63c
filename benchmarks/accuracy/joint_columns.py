"""Column differences of many sites: each pair alone, and drawn to the mean of all sites.

A site's average has eight columns of eight features, with the errors of its patients and of one release's noise, at
δ = 1e-6. The squared distance of two sites in one column is estimated from the two alone, without bias and cut off at
0; and by the expectation under a normal law of all sites' columns around their mean, whose variance is estimated from
all sites (James and Stein).

How it misleads: errors are normal with known variances, and features are independent.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table

COLUMNS, FEATURES = 8, 8
NOISES = {0.25: 15.4, 1.0: 4.22}
"""Standard deviations of a sum's noise by ε, where a patient's vector has length 1."""
DIFFER = {
    "no site": (0.0, 0.0),
    "all sites a little": (0.02, 1.0),
    "few sites much": (0.1, 0.1),
    "all sites much": (0.1, 1.0),
}
"""Standard deviation of a column that differs, and the share of sites and columns that do."""


class Case(NamedTuple):
    """Root mean square errors of squared distances of columns."""

    differ: str
    sites: int
    patients: int
    epsilon: float
    alone: float
    cut: float
    together: float
    ratio: float
    """Together over alone, cut off at 0."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Draw sites of four kinds, of two numbers of sites and of patients, at two ε."""
    draws = effort.size(200, 2)
    cases = []
    for differ in DIFFER:
        for sites in (5, 20):
            for patients in (500, 2_000):
                for epsilon in NOISES:
                    rng = np.random.default_rng(5)
                    squares = [_squares(rng, differ, sites, patients, epsilon) for _ in range(draws)]
                    alone, cut, together = (float(error) for error in np.mean(squares, axis=0) ** 0.5)
                    cases.append(Case(differ, sites, patients, epsilon, alone, cut, together, together / cut))
    ends = {
        differ: (min(ratios), max(ratios))
        for differ in DIFFER
        for ratios in [[case.ratio for case in cases if case.differ == differ]]
    }
    spans = "; ".join(f"{differ}: {low:.2f} to {high:.2f}" for differ, (low, high) in ends.items())
    return Study(
        [Table("Errors of squared distances of columns", Case._fields, cases)],
        f"Drawn to the mean of all sites, column differences have these errors over those of each pair alone, cut off "
        f"at 0, by which sites differ: {spans}. The gain is where there is little to find, and the loss where few "
        f"sites differ, which is what column differences are read for.",
    )


def _squares(
    rng: np.random.Generator, differ: str, sites: int, patients: int, epsilon: float
) -> tuple[float, float, float]:
    """Return mean squared errors of each pair alone, cut off at 0, and drawn to the mean."""
    size, share = DIFFER[differ]
    shape = (sites, COLUMNS, FEATURES)
    shifted = (rng.random((sites, COLUMNS)) < share)[:, :, None] * rng.normal(0, size / FEATURES**0.5, shape)
    variance = 1 / (COLUMNS * FEATURES * patients) + (NOISES[epsilon] / patients) ** 2
    averages = shifted + rng.normal(0, variance**0.5, shape)
    left, right = np.triu_indices(sites, 1)
    truth = ((shifted[left] - shifted[right]) ** 2).sum(axis=2)
    alone = ((averages[left] - averages[right]) ** 2).sum(axis=2) - 2 * FEATURES * variance
    rest = averages - averages.mean(axis=0)
    freedom = (sites - 1) * FEATURES
    kept = np.clip(1 - (freedom - 2) * variance / (rest**2).sum(axis=(0, 2)), 0, 1)
    drawn = kept[:, None] * rest
    together = ((drawn[left] - drawn[right]) ** 2).sum(axis=2) + 2 * FEATURES * variance * kept
    errors = (float(((estimate - truth) ** 2).mean()) for estimate in (alone, np.maximum(alone, 0), together))
    first, second, third = errors
    return first, second, third
