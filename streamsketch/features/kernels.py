"""Kernels of features. All write integers that follow from integers, or from IEEE operations without contraction."""

import math

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Cells, Floats, Ints
from streamsketch.features.cosines import TURN_BITS

UNIT_BITS = 15
"""Features are multiples of 2^-15, and so are numbers between the ends of their ranges, from -1 to 1."""

_TURN = (1 << TURN_BITS) - 1
_QUARTER = 1 << (TURN_BITS - 2)
_WAVE_SHIFT = 31
_LEVELS = 1 << 10  # of the coordinates of embeddings, each way


@kernel
def add_numbers(
    shares: Floats, moments: int, amplitude: int, missing: int, out: Cells, first: int, at: Floats, rest: Ints
) -> None:
    """Write Chebyshev polynomials T_1 … T_m of numbers, on a range scaled to [-1, 1]; NaN is missing.

    Polynomials stay below 2^15 + m in absolute value, so all products are below 2^33.

    Parameters
    ----------
    shares
        The position of each number in its range, from 0 to 1: (n,). Values that are not numbers become NaN.
    moments, amplitude, missing
        m, what 1 becomes in these cells, and what is added to the one behind them where a number is missing; without
        cells, if m is 0, and both are 0.
    out, first
        (n, D), zeros, changed in place; and the first of the cells.
    at
        (n,): the number on its range, from -2^15 to 2^15; 0, the middle, where it is missing.
    rest
        (n,): the squared length that is left of a row; the squares of the cells are taken from it.
    """
    unit, half = 1 << UNIT_BITS, 1 << (UNIT_BITS - 1)
    for i in range(shares.size):
        if math.isnan(shares[i]):
            at[i] = 0
            if moments:
                out[i, first + moments] = missing
            rest[i] -= missing**2
            continue
        u = np.int64(np.rint(shares[i] * (2 * unit))) - unit
        at[i] = u
        before, now = np.int64(unit), u
        for m in range(moments):
            cell = (now * amplitude + half) >> UNIT_BITS
            out[i, first + m] = cell
            rest[i] -= cell**2
            before, now = now, ((2 * u * now + half) >> UNIT_BITS) - before


@kernel
def add_waves(phases: Floats, multiplier: int, table: NDArray[np.int16], out: Cells, first: int) -> None:
    """Write cosine and sine of phases, each pair in two cells.

    Parameters
    ----------
    phases
        (n, f): integers below 2^37.
    multiplier
        A phase p is ⌊p · multiplier / 2^31⌋ steps of a turn; below 2^25, so products stay below 2^62.
    table
        Of `cosine_table`.
    out, first
        (n, D), changed in place, and the first of the 2f cells.
    """
    for i in range(phases.shape[0]):
        for f in range(phases.shape[1]):
            step = (np.int64(phases[i, f]) * multiplier) >> _WAVE_SHIFT
            out[i, first + 2 * f] = table[step & _TURN]
            out[i, first + 2 * f + 1] = table[(step - _QUARTER) & _TURN]


@kernel
def quantise_vectors(vectors: Floats, out: Floats, norms: Floats) -> None:
    """Write each row over its largest absolute entry, in multiples of 2^-10, and its norm in such steps.

    Rows that are zero, or hold an entry that is not finite, become zeros of norm 0.

    Parameters
    ----------
    vectors, out
        (n, d).
    norms
        (n,): square roots of integers below d · 2^20, correctly rounded.
    """
    for i in range(vectors.shape[0]):
        largest = 0.0
        for j in range(vectors.shape[1]):
            size = abs(vectors[i, j])
            if not size <= np.inf or size == np.inf:
                largest = np.inf
                break
            largest = max(largest, size)
        squares = np.int64(0)
        for j in range(vectors.shape[1]):
            level = np.int64(0)
            if 0 < largest < np.inf:
                level = np.int64(np.rint(vectors[i, j] / largest * _LEVELS))
            out[i, j] = level
            squares += level * level
        norms[i] = math.sqrt(squares)


@kernel
def add_directions(
    phases: Floats, norms: Floats, factor: float, table: NDArray[np.int16], missing: int, out: Cells, first: int
) -> None:
    """Write cosine and sine of phases of vectors scaled to length 1; those of norm 0 are missing.

    Parameters
    ----------
    phases, norms
        (n, f), integers below 2^53, and (n,): products of vectors, and the vectors' norms.
    factor
        A phase is ⌊phase / norm · factor⌋ steps of a turn; below 2^40.
    table, out, first
        As in `add_waves`.
    missing
        What a missing vector adds to the cell behind the 2f.
    """
    waves = phases.shape[1]
    for i in range(phases.shape[0]):
        if norms[i] == 0:
            out[i, first + 2 * waves] = missing
            continue
        for f in range(waves):
            step = np.int64(math.floor(phases[i, f] / norms[i] * factor))
            out[i, first + 2 * f] = table[step & _TURN]
            out[i, first + 2 * f + 1] = table[(step - _QUARTER) & _TURN]


@kernel
def add_hashed(hashes: Ints, amplitude: int, cells: int, out: Cells, first: int) -> None:
    """Write a sign into one of some cells, both by a hash of 60 bits; a negative one is missing, in the cell behind.

    The cell is ⌊(hash / 2^28) · cells / 2^32⌋, the sign the lowest bit.
    """
    for i in range(hashes.size):
        if hashes[i] < 0:
            out[i, first + cells] = amplitude
        else:
            cell = ((hashes[i] >> 28) * cells) >> 32
            out[i, first + cell] = amplitude if hashes[i] & 1 else -amplitude


@kernel
def add_listed(places: Ints, amplitude: int, out: Cells, first: int) -> None:
    """Write into the cell of each row's category."""
    for i in range(places.size):
        out[i, first + places[i]] = amplitude
