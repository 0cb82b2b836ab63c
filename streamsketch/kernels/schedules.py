"""Kernels of schedules: rows of sums, and what readers solve."""

from typing import Any

import numpy as np

from streamsketch.core.jit import plain_kernel
from streamsketch.core.numbers import Floats, Ints, Numbers


@plain_kernel
def add_blocks(sums: Ints, places: Ints, factors: Ints, out: Ints) -> None:
    """Add Σ_b factors[b] · sums[places[b]] to ``out``, modulo 2^64, as all sums of cells.

    Parameters
    ----------
    sums, places, factors, out
        int64: (m, n), (b,), (b,) or longer, and (n,).
    """
    for block in range(places.size):
        factor, place = factors[block], places[block]
        if factor != 0:
            for cell in range(out.size):
                out[cell] += factor * sums[place, cell]


@plain_kernel
def solve_prefixes(rows: Numbers, offsets: Ints, starts: Ints, coefficients: Ints, inverse: Any, out: Numbers) -> None:
    """Write the sums of the first 0, 1, … windows that rows are made of.

    Row t is Σ_b c_b (P[start of the next block] - P[start of b]), P the prefixes, and the last block is window t alone.
    In int64, modulo 2^64, the result is exact for a diagonal of 1; in float64 it is off by few units in the last place
    of the largest row.

    Parameters
    ----------
    rows
        int64 or float64: (t, n).
    offsets, starts, coefficients
        The blocks of row t are those from ``offsets[t]`` to ``offsets[t + 1]``.
    inverse
        1 over the diagonal, of the type of the rows.
    out
        (t + 1, n), of the type of the rows; changed in place, its first row zeros.
    """
    for t in range(rows.shape[0]):
        first, last = offsets[t], offsets[t + 1] - 1
        for cell in range(rows.shape[1]):
            out[t + 1, cell] = rows[t, cell]
        for b in range(first, last):
            factor, first_of, behind = coefficients[b], starts[b], starts[b + 1]
            if factor != 0:
                for cell in range(rows.shape[1]):
                    out[t + 1, cell] -= factor * (out[behind, cell] - out[first_of, cell])
        for cell in range(rows.shape[1]):
            out[t + 1, cell] = out[t, cell] + out[t + 1, cell] * inverse


@plain_kernel
def solve_weights(start: int, stop: int, offsets: Ints, starts: Ints, falls: Floats, out: Floats) -> None:
    """Write the factors of rows in the sum of the windows from ``start`` to ``stop``: Cᵀ·out = 1 there, 0 elsewhere.

    From the last row up. What later rows add to window t is kept as steps, by which it changes from window t + 1 to t.

    Parameters
    ----------
    start, stop, offsets, starts
        As of `solve_prefixes`.
    falls
        The coefficient of a block less that of the next one of its row; of a row's last block the diagonal.
    out
        float64, (stop,), changed in place.
    """
    steps = np.zeros(stop + 1)  # of window t in place t + 1; place 0 takes what is before the first window
    later = 0.0
    for t in range(stop - 1, -1, -1):
        first, last = offsets[t], offsets[t + 1] - 1
        later += steps[t + 1]
        weight = ((1.0 if t >= start else 0.0) - later) / falls[last]
        out[t] = weight
        if weight == 0 or first == last:
            continue
        above = 0.0  # the coefficient of the block behind
        for b in range(last - 1, first - 1, -1):
            steps[starts[b + 1]] += falls[b] * weight
            above += falls[b]
        steps[starts[first]] -= above * weight


@plain_kernel
def least_upper(highest: Ints, lows: Ints, highs: Ints, horizon: int, out: Ints) -> None:
    """Write, for each lag, the largest of the values of the intervals that hold it, given from the largest value down.

    Parameters
    ----------
    highest, lows, highs
        Values, descending, and the first lag and the one behind the last of each interval.
    horizon
        How many lags there are.
    out
        int64, (horizon,), zeros, changed in place.
    """
    free = np.arange(horizon + 1)  # the next lag that has no value yet, with paths halved
    for i in range(highest.size):
        lag = lows[i]
        while True:
            while free[lag] != lag:
                free[lag] = free[free[lag]]
                lag = free[lag]
            if lag >= highs[i]:
                break
            out[lag] = highest[i]
            free[lag] = lag + 1
