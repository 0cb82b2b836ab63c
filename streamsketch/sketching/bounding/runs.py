"""Orders of rows by several columns, of which the first all but decides."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, Words, kernel

Integers: TypeAlias = NDArray[np.integer[Any]]

_SHORT = 32  # rows that are sorted by insertion


def order_of(first: Words, second: Words, third: Integers, fourth: Integers) -> Ints:
    """Return the order of rows by four columns: int64, (n,). Rows that agree in all of them come in any order."""
    order: Ints = np.argsort(first)
    starts = np.flatnonzero(np.diff(first[order], prepend=~first[order[:1]]))
    order_runs(order, np.append(starts, order.size), second, third, fourth)
    return order


def order_runs(order: Ints, bounds: Ints, second: Words, third: Integers, fourth: Integers) -> None:
    """Sort each run ``order[bounds[i]:bounds[i + 1]]`` by three columns, in place."""
    sort_short_runs(order, bounds, second, third, fourth, _SHORT)
    for run in np.flatnonzero(np.diff(bounds) > _SHORT).tolist():
        rows = order[bounds[run] : bounds[run + 1]]
        rows[:] = rows[np.lexsort((fourth[rows], third[rows], second[rows]))]


@kernel
def sort_short_runs(order: Ints, bounds: Ints, second: Words, third: Integers, fourth: Integers, short: int) -> None:
    """Sort the runs of at most ``short`` rows by insertion."""
    for run in range(bounds.size - 1):
        start, stop = bounds[run], bounds[run + 1]
        if stop - start > short:
            continue
        for at in range(start + 1, stop):
            row, place = order[at], at
            while place > start:
                other = order[place - 1]
                if second[other] != second[row]:
                    is_after = second[other] > second[row]
                elif third[other] != third[row]:
                    is_after = third[other] > third[row]
                else:
                    is_after = fourth[other] > fourth[row]
                if not is_after:
                    break
                order[place] = other
                place -= 1
            order[place] = row
