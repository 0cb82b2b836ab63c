"""How often β·max|w_i| ≥ |⟨w, u⟩| in very many draws of w, from public seeds.

Entries that take few values are drawn several at a time: a table holds the sums of all outcomes of a group of entries,
each equally likely, and one random number picks one. Words are SplitMix64's of a counter. Normal entries are NumPy's.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Count = Callable[[Floats, int, Sequence[float], int], list[int]]
"""(u, draws, every β, seed) → draws that hit, for every β."""

GAUSSIAN, RADEMACHER = "Gaussian", "Rademacher (s = 1)"

_MOST_OUTCOMES = 1300  # of a group: a table fits the first cache
_BLOCK = 4096  # draws at a time
_GAUSSIANS = 1 << 17  # at a time
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mix(word: Any) -> Any:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _count(sums: Any, largest: Any, used: Any, betas: Any, hits: Any) -> None:
    for place, beta in enumerate(betas):
        for j in range(used):
            hits[place] += beta * largest[j] >= abs(sums[j])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _grouped(sums_of: Any, largest_of: Any, draws: Any, betas: Any, state: Any) -> Any:
    groups, outcomes = sums_of.shape
    hits = np.zeros(betas.size, dtype=np.int64)
    sums, largest = np.empty(_BLOCK), np.empty(_BLOCK, dtype=np.uint8)
    scale, half, low = np.uint64(outcomes), np.uint64(32), np.uint64(0xFFFFFFFF)
    for start in range(0, draws, _BLOCK):
        sums[:] = 0.0
        largest[:] = 0
        for group in range(groups):
            for j in range(0, _BLOCK, 2):
                state += _GAMMA
                word = _mix(state)
                left, right = ((word >> half) * scale) >> half, ((word & low) * scale) >> half
                sums[j] += sums_of[group, left]
                sums[j + 1] += sums_of[group, right]
                largest[j] |= largest_of[group, left]
                largest[j + 1] |= largest_of[group, right]
        _count(sums, largest, min(_BLOCK, draws - start), betas, hits)
    return hits


@njit(cache=True)  # type: ignore[untyped-decorator]
def _uniform(vector: Any, draws: Any, betas: Any, state: Any) -> Any:
    hits = np.zeros(betas.size, dtype=np.int64)
    sums, largest = np.empty(_BLOCK, dtype=np.float32), np.empty(_BLOCK, dtype=np.float32)
    scale, half = np.float32(2.0**-31), np.uint64(32)
    for start in range(0, draws, _BLOCK):
        sums[:] = 0.0
        largest[:] = 0.0
        for coordinate in vector:
            for j in range(0, _BLOCK, 2):
                state += _GAMMA
                word = _mix(state)
                left = np.float32(np.int32(word >> half)) * scale
                right = np.float32(np.int32(word)) * scale
                sums[j] += left * coordinate
                sums[j + 1] += right * coordinate
                largest[j] = max(largest[j], abs(left))
                largest[j + 1] = max(largest[j + 1], abs(right))
        _count(sums, largest, min(_BLOCK, draws - start), betas, hits)
    return hits


@njit(cache=True)  # type: ignore[untyped-decorator]
def _reduce(entries: Any, vector: Any, sums: Any, largest: Any) -> None:
    sums[:] = 0.0
    largest[:] = 0.0
    for i, coordinate in enumerate(vector):
        for j in range(sums.size):
            sums[j] += entries[i, j] * coordinate
            largest[j] = max(largest[j], abs(entries[i, j]))


def _gaussian(vector: Floats, draws: int, betas: Sequence[float], seed: int) -> list[int]:
    rng, many = np.random.default_rng(seed), max(2, _GAUSSIANS // vector.size)
    entries = np.empty((vector.size, many), dtype=np.float32)
    sums, largest = np.empty((2, many), dtype=np.float32)
    hits = np.zeros(len(betas), dtype=np.int64)
    for start in range(0, draws, many):
        rng.standard_normal(out=entries, dtype=np.float32)
        _reduce(entries, vector, sums, largest)
        _count(sums, largest, min(many, draws - start), np.array(betas), hits)
    return [int(hit) for hit in hits]


def _by_words(vector: Floats, draws: int, betas: Sequence[float], seed: int) -> list[int]:
    return [int(hit) for hit in _uniform(vector, draws, np.array(betas), np.uint64(seed))]


def _by_tables(vector: Floats, draws: int, betas: Sequence[float], seed: int, *, s: int) -> list[int]:
    sums, nonzero = tables(vector, s)
    return [int(hit) for hit in _grouped(sums, nonzero, draws, np.array(betas), np.uint64(seed))]


def tables(vector: Floats, s: int) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return, by group of coordinates and outcome, the sum of ±u_i and whether an entry is not 0: (groups, outcomes).

    An entry is 1 in one of 2s equally likely outcomes, -1 in one, and else 0.
    """
    values = np.array([1, -1] + [0] * (2 * s - 2))
    together = 1
    while len(values) ** (together + 1) <= _MOST_OUTCOMES:
        together += 1
    outcomes = np.array(list(itertools.product(values, repeat=together)))
    padded = np.pad(vector.astype(np.float64), (0, -vector.size % together)).reshape(-1, together)
    real = (np.arange(padded.size) < vector.size).reshape(-1, together)
    return padded @ outcomes.T, ((real @ np.abs(outcomes).T) > 0).astype(np.uint8)


LAWS: Mapping[str, Count] = {
    GAUSSIAN: _gaussian,
    "uniform": _by_words,
    "very sparse, s = 10": functools.partial(_by_tables, s=10),
    "very sparse, s = 3": functools.partial(_by_tables, s=3),
    RADEMACHER: functools.partial(_by_tables, s=1),
}
"""Distribution of the entries, up to a factor → how often it hits."""
