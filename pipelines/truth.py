"""What a demonstration may compute and a user of private releases could not: the exact answers."""

import argparse
import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import coo_array

import streamsketch as ss
from pipelines.batches import all_columns, as_text, text_columns
from streamsketch.beam import read_batches
from streamsketch.data import quantise
from streamsketch.estimation import OutputNoise
from streamsketch.estimation.shapes import cosines as noisy_cosines
from streamsketch.privacy import DiscreteLaplace, squared_distance_variance
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
    distinct_indices
        How many indices occur at all.
    raw_standard_errors
        By pair, of squared distances: the standard error that discrete Laplace noise on every cell of the raw
        histograms would give (THEORY.md 4.1), if the number of possible indices is known.
    raw_cosine_errors
        The same of cosines; NaN where a stream would be below that noise floor.
    """

    squared_distances: dict[tuple[str, str], float]
    cosines: dict[tuple[str, str], float]
    distinct_indices: int
    raw_standard_errors: dict[tuple[str, str], float] | None
    raw_cosine_errors: dict[tuple[str, str], float] | None


def look_at_truth(arguments: argparse.Namespace) -> Truth:
    """Return the exact squared distances and cosines between the keys' histograms, on the values' grid."""
    text = text_columns(arguments)
    projection = ss.SJLT(  # only for the indices and the grid: nothing is projected here
        sketch_dim=1, sparsity=1, seed=0, resolution=arguments.resolution
    )
    keys, indices, values = [], [], []
    for batch in read_batches(arguments.input, all_columns(arguments), text=text, delimiter=arguments.delimiter):
        batch = as_text(batch, arguments)  # noqa: PLW2901 - as the pipeline reads it
        keys.extend(batch.column(arguments.key).to_pylist())
        indices.append(projection.indices_of(*(batch.column(name) for name in arguments.index)))
        counts = pa.array(np.ones(len(batch))) if arguments.value is None else batch.column(arguments.value)
        values.append(quantise(counts, projection.grid))
    names = sorted(set(keys) if arguments.public_keys is None else set(arguments.public_keys))
    place = {name: row for row, name in enumerate(names)}
    rows = np.array([place.get(key, -1) for key in keys], dtype=np.int64)
    distinct, columns_of = np.unique(np.concatenate([np.empty(0, np.int64), *indices]), return_inverse=True)
    weights = np.concatenate([np.empty(0, np.int64), *values]).astype(np.float64)
    kept = rows >= 0
    histograms = coo_array((weights[kept], (rows[kept], columns_of[kept])), shape=(len(names), distinct.size)).tocsr()
    gram = (histograms @ histograms.T).toarray()
    step = float(projection.grid)
    squares = {
        (first, second): step**2 * float(gram[i, i] + gram[j, j] - 2 * gram[i, j])
        for i, first in enumerate(names)
        for j, second in enumerate(names)
        if i < j
    }
    norms = np.diagonal(gram)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = gram / np.sqrt(np.outer(norms, norms))
    raw = raw_cosines = None
    if arguments.possible_indices:
        scale = Fraction(arguments.l1) / (projection.grid * Fraction(arguments.epsilon))
        noise = DiscreteLaplace(scale.limit_denominator(1 << 20)).cumulants
        raw = {
            pair: math.sqrt(squared_distance_variance(noise, arguments.possible_indices, square / step**2)) * step**2
            for pair, square in squares.items()
        }
        k2, k4 = (np.full(len(names), one) for one in (noise.k2, noise.k4))
        sizes, seconds, fourths = ((one[:, None], one) for one in (norms, k2, k4))
        effect, no_map = OutputNoise(arguments.possible_indices), MapVariance(0.0, 0.0, 0.0)
        raw_cosines = _by_pair(names, noisy_cosines(gram, sizes, seconds, fourths, effect, no_map).standard_error)
    return Truth(squares, _by_pair(names, cosines), int(distinct.size), raw, raw_cosines)


def _by_pair(names: list[str], table: NDArray[np.float64]) -> dict[tuple[str, str], float]:
    pairs = itertools.combinations(range(len(names)), 2)
    return {(names[i], names[j]): float(table[i, j]) for i, j in pairs}
