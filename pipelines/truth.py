"""What a demonstration may compute and a user of private releases could not: the exact answers."""

import argparse
import dataclasses
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array

import streamsketch as ss
from pipelines.batches import all_columns, as_text, text_columns
from streamsketch.beam import read_batches
from streamsketch.data import quantise
from streamsketch.privacy import DiscreteLaplace, squared_distance_variance


@dataclasses.dataclass(frozen=True)
class Truth:
    """Exact squared distances by pair of keys, and the error of the obvious alternative.

    Parameters
    ----------
    squared_distances
        By (first, second), in squared data units.
    distinct_indices
        How many indices occur at all.
    raw_standard_errors
        By pair: the standard error that discrete Laplace noise on every cell of the raw histograms would give
        (THEORY.md 4.1), if the number of possible indices is known.
    """

    squared_distances: dict[tuple[str, str], float]
    distinct_indices: int
    raw_standard_errors: dict[tuple[str, str], float] | None


def look_at_truth(arguments: argparse.Namespace) -> Truth:
    """Return the exact squared distances between the keys' histograms, on the values' grid."""
    text = text_columns(arguments)
    projection = ss.SJLT(  # only for the indices and the grid: nothing is projected here
        dim=ss.HASHED_DIM, sketch_dim=1, sparsity=1, seed=0, resolution=arguments.resolution
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
    raw = None
    if arguments.possible_indices:
        scale = Fraction(arguments.l1) / (projection.grid * Fraction(arguments.epsilon))
        noise = DiscreteLaplace(scale.limit_denominator(1 << 20)).cumulants
        raw = {
            pair: math.sqrt(squared_distance_variance(noise, arguments.possible_indices, square / step**2)) * step**2
            for pair, square in squares.items()
        }
    return Truth(squares, int(distinct.size), raw)
