"""The exact answers, which a demonstration may compute but a user of private releases could not."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import coo_array

import streamsketch as ss
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.cosines import cosines as noisy_cosines
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.projections import MapVariance


@dataclasses.dataclass(frozen=True)
class Truth:
    """Exact squared distances and cosines by pair of keys, and the error of the obvious alternative.

    Parameters
    ----------
    squared_distances
        By (first, second), in squared votes.
    cosines
        By pair.
    distinct_indices, possible_indices
        How many indices occur at all; the size of the raw histograms.
    raw_errors
        By pair, of cosines: the standard error that the releases' noise on every cell of the raw histograms would give;
        NaN with a stream that is then below the noise floor.
    """

    squared_distances: dict[tuple[str, str], float]
    cosines: dict[tuple[str, str], float]
    distinct_indices: int
    possible_indices: int
    raw_errors: dict[tuple[str, str], float]


def look_at_truth(path: Path, agreement: ss.Agreement, releases: ss.PrivateTable, possible_indices: int) -> Truth:
    """Return the exact squared distances and cosines between the keys' histograms, where each unit has one vote.

    A unit's counts are divided by their length, over all keys together.
    """
    names = sorted(releases)
    index = [column.name for column in agreement.index]
    key, unit = (cast("Any", column).name for column in (agreement.key, agreement.unit))
    rows = pq.read_table(path, columns=[key, unit, *index])
    rows = pa.table({name: rows[name].cast(pa.string()) for name in rows.column_names})
    rows = rows.filter(pc.is_in(rows[key], pa.array(names))).drop_null()
    counted = rows.group_by([key, unit, *index]).aggregate([([], "count_all")])
    counts = counted["count_all"].to_numpy().astype(np.float64)
    units = np.unique(counted[unit].to_numpy(), return_inverse=True)[1]
    votes = counts / np.sqrt(np.bincount(units, counts**2))[units]
    cells = pc.binary_join_element_wise(*(counted[name] for name in index), " ")
    distinct, columns = np.unique(cells.to_numpy(), return_inverse=True)
    places = np.searchsorted(names, counted[key].to_numpy().astype(str))
    histograms = coo_array((votes, (places, columns)), shape=(len(names), distinct.size)).tocsr()
    gram = (histograms @ histograms.T).toarray()
    norms, block = np.diagonal(gram), block_of([releases[name] for name in names])
    sizes, seconds, fourths = ((vector[:, None], vector) for vector in (norms, block.k2, block.k4))
    effect, no_map = OutputNoise(possible_indices), MapVariance(0.0, 0.0, 0.0)
    raw = noisy_cosines(gram, sizes, seconds, fourths, effect, no_map).standard_error
    squares, cosines = norms[:, None] + norms - 2 * gram, gram / np.sqrt(np.outer(norms, norms))
    distances, exact, errors = (_by_pair(names, matrix) for matrix in (squares, cosines, raw))
    return Truth(distances, exact, int(distinct.size), possible_indices, errors)


def _by_pair(names: list[str], table: NDArray[np.float64]) -> dict[tuple[str, str], float]:
    pairs = itertools.combinations(range(len(names)), 2)
    return {(names[i], names[j]): float(table[i, j]) for i, j in pairs}
