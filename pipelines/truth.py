"""What a demonstration may compute and a user of private releases could not: the exact answers."""

import dataclasses
import itertools
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from streamsketch.beam import read_batches
from streamsketch.estimation import OutputNoise
from streamsketch.estimation.cosines import cosines as noisy_cosines
from streamsketch.intake import Intake
from streamsketch.jobs import FilesJob
from streamsketch.privacy import DiscreteLaplace
from streamsketch.projections import MapVariance


@dataclasses.dataclass(frozen=True)
class Truth:
    """Exact squared distances and cosines by pair of keys, and the error of the obvious alternative.

    Parameters
    ----------
    squared_distances
        By (first, second), in squared data units.
    cosines
        By pair; NaN with an empty stream.
    distinct_indices, possible_indices
        How many indices occur at all; the size of the raw histograms.
    raw_errors
        By pair, of cosines: the standard error that discrete Laplace noise on every cell of the raw histograms would
        give; NaN with a stream that is then below the noise floor.
    """

    squared_distances: dict[tuple[str, str], float]
    cosines: dict[tuple[str, str], float]
    distinct_indices: int
    possible_indices: int
    raw_errors: dict[tuple[str, str], float]


def look_at_truth(job: FilesJob, possible_indices: int) -> Truth:
    """Return the exact squared distances and cosines between the keys' histograms, on the values' grid."""
    agreement, names = job.agreement, sorted(job.public_keys or ())
    intake, key = Intake(agreement), cast("Any", agreement.key)
    place = {name: row for row, name in enumerate(names)}
    rows, indices, steps = [], [], []
    for batch in read_batches(job.patterns, agreement):
        events = intake.read(batch)
        rows += [place.get(name, -1) for name in batch.column(key.name).to_pylist()]
        indices.append(events.indices)
        steps.append(events.steps)
    distinct, columns = np.unique(np.concatenate(indices), return_inverse=True)
    at, weights = np.array(rows), np.concatenate(steps).astype(np.float64)
    cells = (weights[at >= 0], (at[at >= 0], columns[at >= 0]))
    histograms = coo_array(cells, shape=(len(names), distinct.size)).tocsr()
    gram = (histograms @ histograms.T).toarray()
    norms, step = np.diagonal(gram), agreement.projection.grid
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = gram / np.sqrt(np.outer(norms, norms))
    squares = float(step) ** 2 * (norms[:, None] + norms - 2 * gram)
    bound: Any = agreement.neighbours
    scale = Fraction(bound.bound) / (step * Fraction(job.epsilon))
    noise = DiscreteLaplace(scale.limit_denominator(1 << 20)).cumulants
    of_all = (np.full(len(names), cumulant) for cumulant in (noise.k2, noise.k4))
    sizes, seconds, fourths = ((one[:, None], one) for one in (norms, *of_all))
    effect, no_map = OutputNoise(possible_indices), MapVariance(0.0, 0.0, 0.0)
    raw = noisy_cosines(gram, sizes, seconds, fourths, effect, no_map).standard_error
    distances, exact, errors = (_by_pair(names, one) for one in (squares, cosines, raw))
    return Truth(distances, exact, int(distinct.size), possible_indices, errors)


def _by_pair(names: list[str], table: NDArray[np.float64]) -> dict[tuple[str, str], float]:
    pairs = itertools.combinations(range(len(names)), 2)
    return {(names[i], names[j]): float(table[i, j]) for i, j in pairs}
