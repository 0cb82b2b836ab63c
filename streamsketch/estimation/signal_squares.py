"""Laws of the sum of squares of cells that hold a signal and noise (Theory 4.7)."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.estimation.few_cells import OneSquare
from streamsketch.estimation.noise_law import Lattice, on_grid, with_normal
from streamsketch.estimation.square_sums import FINE, LARGEST_GRID, LEAST_GRID, Hits, Squares
from streamsketch.estimation.tail_law import WINDOW, Gamma, Law, Mixture, Point

Signal: TypeAlias = tuple[Floats, Floats]
"""What is in a cell besides noise: sizes, in data units, and their probabilities; the sign is random."""

_COARSE = 64.0  # steps² in a standard deviation of a cell's square, up to which T is exact
_FEW_CELLS = 8  # in which it is if possible
_SMOOTH = 1.2  # steps of a lattice, in a normal law's standard deviation, to be put on it
_MOST_PAIRS = 1 << 16  # of noise and signal in a cell
_NODES = 32, 2048  # of a normal signal, at least and at most
_REACH = 9.0  # of it, in standard deviations
_MOST_HITS = 6  # of one cell, by a few items
_MANY_COORDINATES = 1 << 16  # of noise before the map, beyond which its squared norm has nearly a Gamma law
_ROUNDING = 1e-9
_FAR = 500.0  # standard deviations of noise, in what an item adds to a cell: no grid has room for both
_NOTHING: Signal = np.zeros(1), np.ones(1)
_KEPT = 12  # laws of up to 12 MB


@functools.lru_cache(maxsize=_KEPT)  # maps of one size share them, whatever their seeds
def of_noise_alone(noise: Lattice, count: int) -> Law:
    """Return the law of ‖η‖²."""
    return _sum(noise, [_NOTHING], (count,))


def of_even(noise: Lattice, count: int, distance: float) -> Law:
    """Return the law of ‖z + η‖² for z of this length with entries of one size."""
    if noise.weights.size == 1:
        return Point(distance**2)
    if count > _MANY_COORDINATES:
        points = noise.points
        second, fourth = float(noise.weights @ points**2), float(noise.weights @ points**4)
        mean = count * second + distance**2
        return Gamma(mean, 2 * mean**2 / (count * (fourth - second**2) + 4 * second * distance**2))
    return _sum(noise, [(np.full(1, distance / math.sqrt(count)), np.ones(1)) if distance else _NOTHING], (count,))


def of_entries(noise: Lattice, count: int, items: int, distance: float) -> Law:
    """Return the law of ‖z + η‖² for z of this length with so many entries of one size."""
    if noise.weights.size == 1:
        return Point(distance**2)
    signals = [_NOTHING, (np.full(1, distance / math.sqrt(items)), np.ones(1))]
    return _sum(noise, signals, (count - items, items))


def of_normal(noise: Lattice, count: int, distance: float, variance: float) -> Law:
    """Return the law where the cells of S z are normal, or mixed so that Var‖S z‖² is ``variance`` / k · ‖z‖⁴.

    Not less than 2: maps of less variance are taken as if they had that.
    """
    excess = max(variance - 2, 0.0) / 3
    if noise.weights.size == 1 and excess < _ROUNDING:
        return Gamma(distance**2, count)
    deviation = distance / math.sqrt(count)
    if excess < _ROUNDING and deviation >= _SMOOTH * noise.step and noise.weights.size > 1:
        return _sum(with_normal(noise, deviation), [_NOTHING], (count,))
    number = int(np.clip(_MOST_PAIRS / noise.weights.size, *_NODES))
    places = _REACH * (np.arange(number) + 0.5) / number
    chances = np.exp(-(places**2) / 2)
    chances /= chances.sum()
    sizes = places * deviation
    if excess < _ROUNDING:
        return _sum(noise, [(sizes, chances)], (count,))
    if excess < 1:  # the variance of a cell is one of two
        factors, weights = np.array([1 - math.sqrt(excess), 1 + math.sqrt(excess)]), np.full(2, 0.5)
    else:
        factors, weights = np.array([0.0, 1 + excess]), np.array([excess, 1.0]) / (1 + excess)
    mixed = np.outer(np.sqrt(factors), sizes).ravel(), np.outer(weights, chances).ravel()
    return _sum(noise, [mixed], (count,))


def of_sparse(noise: Lattice, count: int, items: int, size: float, chance: float) -> Law:
    """Return the law where each of a few items is in a cell with this chance, independently, with this size."""
    most = min(items, _MOST_HITS)
    hit = [math.comb(items, number) * chance**number * (1 - chance) ** (items - number) for number in range(most + 1)]
    if size > _FAR * math.sqrt(noise.variance) > 0:
        silent = dataclasses.replace(noise, step=0.0, weights=np.ones(1))
        return _by_length(noise, count, items, of_sparse(silent, count, items, size, chance))
    walks = [_walk(number, size) for number in range(most + 1)]
    sizes = np.concatenate([walk[0] for walk in walks])
    chances = np.concatenate([weight * walk[1] for weight, walk in zip(hit, walks, strict=True)])
    return _sum(noise, [(sizes, chances / chances.sum())], (count,), size)


def of_blocks(noise: Lattice, count: int, items: int, blocks: int, distance: float) -> Law:
    """Return the law of ‖S z + η‖² for so many items of one size, each in one cell of each block."""
    size = distance / math.sqrt(items * blocks)
    if size > _FAR * math.sqrt(noise.variance) > 0:
        silent = dataclasses.replace(noise, step=0.0, weights=np.ones(1))
        return _by_length(noise, count, items * blocks, of_blocks(silent, count, items, blocks, distance))
    hits = Hits(items, blocks, count // blocks)
    signals = [_walk(number, size) for number in range(min(items, _MOST_HITS) + 1)]
    return _sum(noise, signals, (count,), size, hits)


def _by_length(noise: Lattice, count: int, cells: int, lengths: Law) -> Law:
    """Return the law of ‖S z + η‖² by the lengths of S z, which has few of them: they are far apart beside the noise.

    The noise counts as where all of ``cells`` are of one size: exactly for normal noise, as nothing else matters there.
    """
    if not isinstance(lengths, Squares):
        return of_entries(noise, count, min(cells, count), math.sqrt(lengths.moments[0]))
    values, chances = lengths.values
    laws = [of_entries(noise, count, min(cells, count), math.sqrt(value)) for value in values.tolist()]
    return Mixture(chances, tuple(laws))


def _walk(number: int, size: float) -> Signal:
    """Return the law of the absolute sum of ``number`` signs, times a size."""
    chances = np.array([math.comb(number, up) for up in range(number + 1)]) / 2**number
    return size * np.abs(np.arange(-number, number + 1, 2)), chances


def _sum(
    noise: Lattice, signals: Sequence[Signal], counts: tuple[int, ...], unit: float = 0.0, hits: Hits | None = None
) -> Law:
    """Return the law of the sum of squares of cells: ``counts`` of each signal, or as items hit them.

    ``unit`` is a step of all signals, where they have one. Squares of noise in lumps are rounded up.
    """
    silent = all(not sizes.any() for sizes, _ in signals)
    if silent and noise.weights.size == 1:
        return Point(0.0)
    if silent and noise.exact:
        unit = noise.step
    elif noise.weights.size > 1:
        unit = 0.0
    points, weights = noise.points, noise.weights
    ends = [_ends(points[-1], sizes) for sizes, _ in signals]
    largest = max(end for _, end in ends)
    widest = largest if hits is not None else max(end - least for least, end in ends)
    moments = float(weights @ points**2), float(weights @ points**4)
    if hits is None:
        spreads = [_deviation(moments, [signal], np.ones(1)) for signal in signals]
        deviation = math.sqrt(float(np.average(np.square(spreads), weights=counts)))
    else:
        deviation = _deviation(moments, signals, hits.chances(len(signals)))
    spread = 2 * widest + WINDOW * math.sqrt(sum(counts)) * deviation
    coarse = deviation <= _COARSE * unit**2 or sum(counts) <= _FEW_CELLS
    step, exact = unit**2, coarse and unit > 0 and spread <= LARGEST_GRID * unit**2
    if not exact:
        step = max(min(deviation / FINE, largest / LEAST_GRID), spread / LARGEST_GRID)
    if sum(counts) == 1 and not exact:
        return _one_square(noise, *signals[counts.index(1)])
    if noise.lumpy and not exact:
        step = (2 * largest + WINDOW * math.sqrt(sum(counts)) * deviation) / LARGEST_GRID
        size = math.ceil((math.sqrt(largest) + noise.step) ** 2 / step) + 2
        raised = tuple(_rounded_up(noise, signal, step, size) for signal in signals)
        return Squares(raised, counts, step, exact=True, hits=hits)
    laws, offset = [], 0
    for place, (sizes, chances) in enumerate(signals):
        least = 0 if exact or hits is not None else max(math.floor(ends[place][0] / step) - 1, 0)
        size = math.ceil((largest if hits is not None else ends[place][1]) / step) + 2
        squares = (points[:, None] + sizes) ** 2
        laws.append(on_grid((squares, weights[:, None] * chances), step, (least, size)))
        offset += least * (0 if hits is not None else counts[place])
    return Squares(tuple(laws), counts, step, exact, hits, 0.0 if exact else unit**2 / 2, offset)


def _one_square(noise: Lattice, sizes: Floats, chances: Floats) -> OneSquare:
    """Return the law of the square of one cell: a grid of squares would be too coarse where they are near 0."""
    points = np.abs(noise.points[:, None] + sizes)
    if noise.lumpy and not noise.exact and sizes.any():
        points += noise.step  # as noise is rounded away from 0, not from the signal
    kept = 0.0 if noise.exact or noise.lumpy else noise.step / 2
    return OneSquare(points.ravel(), (noise.weights[:, None] * chances).ravel(), kept)


def _ends(reach: float, sizes: Floats) -> tuple[float, float]:
    """Return the least and the largest square of a signal of such sizes with noise up to ``reach``."""
    return max(float(sizes.min()) - reach, 0.0) ** 2, (float(sizes.max()) + reach) ** 2


def _rounded_up(noise: Lattice, signal: Signal, step: float, size: int) -> Floats:
    """Return the law of the square of a cell on a grid, none smaller than it is.

    Noise in lumps makes squares near one another. A grid that keeps their means would halve P(T ≥ t) at such a square.
    """
    values = np.abs(noise.points[:, None] + signal[0])
    if signal[0].any() and not noise.exact:
        values += noise.step  # as noise is rounded away from 0, not from the signal
    places = np.ceil(values**2 / step - _ROUNDING).astype(np.int64)
    weights = noise.weights[:, None] * signal[1]
    return np.bincount(places.ravel(), weights.ravel(), size).astype(np.float64)


def _deviation(noise: tuple[float, float], signals: Sequence[Signal], shares: Floats) -> float:
    """Return the standard deviation of the square of a cell, with noise of these two moments and one of the signals."""
    second, fourth = noise
    squares = np.array([chances @ sizes**2 for sizes, chances in signals])
    fourths = np.array([chances @ sizes**4 for sizes, chances in signals])
    mean = second + float(shares @ squares)
    return math.sqrt(max(fourth + float(shares @ (6 * second * squares + fourths)) - mean**2, 0.0))
